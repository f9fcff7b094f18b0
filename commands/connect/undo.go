package connect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/edit"
	"github.com/mcptrack/mcptrack/core/printable"
)

// undoAll restores the entries of the hosts that the options name.
func undoAll(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) error {
	s, unlock, err := openStore(ctx, env, opts.dryRun)
	if err != nil {
		return err
	}
	defer unlock()
	read, err := hostOptions(env, g)
	if err != nil {
		return err
	}
	records, err := s.all()
	if err != nil {
		return err
	}
	r := report{Written: !opts.dryRun, Files: []fileReport{}, Restart: []string{}}
	var elsewhere []string
	named := config.HostFiles(read, opts.hosts...) // several hosts read the same file of a folder
	for i := range records {
		rec := &records[i]
		switch {
		case len(opts.hosts) > 0 && !slices.Contains(opts.hosts, rec.Host) && !slices.ContainsFunc(named, func(h config.HostFile) bool { return h.Path == rec.File }):
			continue
		case !here(rec, read):
			elsewhere = append(elsewhere, printable.Shell(filepath.Dir(rec.File)))
			continue
		}
		u := undo{record: rec, opts: read}
		f := u.plan()
		if f.Problem == "" && !opts.dryRun {
			if err := u.write(s, records); err != nil {
				return err
			}
		}
		if f.Changed && opts.dryRun {
			f.Diff = diff(rec.File, u.before, u.after, rec.Format, u.paths)
			for i := range f.Servers {
				if s := &f.Servers[i]; s.Reason == restored {
					s.Reason = "would be restored"
				}
			}
		}
		r.add(f)
	}
	for _, f := range unrecorded(read, opts.hosts, records) {
		r.add(f)
	}
	if len(r.Files) == 0 && g.Format.Table() {
		_, err = fmt.Fprintln(env.Out, "nothing is connected here")
	} else {
		err = r.print(env, g)
	}
	if len(elsewhere) > 0 && !g.Quiet {
		fmt.Fprintf(env.Err, "hint: configs in other folders are connected too; run mcptrack connect --undo in: %s\n", cli.Join(elsewhere, 5))
	}
	if left := r.left(); err == nil && len(left) > 0 {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "left_alone", Err: fmt.Errorf("not restored: %s", printable.Line(cli.Join(left, 5), 400)),
			Hint: "FILE" + backupSuffix + " has the original of each file"}
	}
	return err
}

// left returns the names of what is not restored: entries, and files with a problem.
func (r *report) left() (names []string) {
	for _, f := range r.Files {
		for _, s := range f.Servers {
			if !s.Changed {
				names = append(names, s.shown())
			}
		}
		if f.Problem != "" {
			names = append(names, f.File)
		}
	}
	return names
}

// unrecorded returns the files of hosts that connect has changed, of which no record exists, such as
// after the state folder was removed: only a backup lies beside.
func unrecorded(opts config.Options, hosts []string, records []record) (files []fileReport) {
	for _, h := range config.HostFiles(opts, hosts...) {
		backup := h.Path + backupSuffix
		if _, err := os.Lstat(backup); err != nil || slices.ContainsFunc(records, func(r record) bool { return r.File == h.Path }) {
			continue
		}
		text, err := read(h.Path)
		if err != nil {
			continue
		}
		cfg, originals, _ := config.Originals(text, h.Path, opts)
		f := fileReport{Host: h.Host.Name, File: h.Path}
		for _, o := range originals {
			if srv, ok := cfg.Server(o.ID); ok && cli.Attached(srv) {
				f.Servers = append(f.Servers, server{Name: o.ID, Reason: "the record of its original is missing; copy the entry from " + backup})
			}
		}
		if len(f.Servers) > 0 {
			files = append(files, f)
		}
	}
	return files
}

// here reports whether a record is of one of the user's own files or of a file in this folder.
func here(r *record, opts config.Options) bool {
	rel, err := filepath.Rel(opts.Workspace, r.File)
	return err == nil && filepath.IsLocal(rel) ||
		slices.ContainsFunc(r.Entries, func(e recorded) bool { return e.Config == config.OwnPath(opts) })
}

// An undo restores the entries of one file.
type undo struct {
	*record
	opts          config.Options
	before, after []byte
	paths         [][]string // of the entries that change
	restored      []recorded // entries that leave the record
	unused        []recorded // those of them whose servers may leave mcptrack's config
	undone        []recorded // entries that have their original content already
	kept          []recorded // restored entries whose servers stay in mcptrack's config
}

// plan restores the entries in memory.
func (u *undo) plan() fileReport {
	f := fileReport{Host: u.Host, File: u.File, Servers: []server{}}
	text, err := read(u.File)
	if err != nil {
		if _, statErr := os.Lstat(u.File); !errors.Is(statErr, os.ErrNotExist) {
			f.Problem = printable.Reason(err, 300)
			return f
		}
	}
	u.before, u.after = text, text
	edits, unreadable := edit.Open(text, u.Format)
	for _, e := range slices.Backward(u.Entries) {
		s := server{Name: e.Name, ID: e.ID, Config: e.Config, Changed: true}
		if folder := projectOf(e.Path); folder != u.opts.Workspace {
			s.Folder = folder
		}
		err := unreadable
		if err == nil {
			err = edits.Restore(u.path(e), e.Edit)
		}
		switch {
		case err == nil:
			u.restored, u.unused = append(u.restored, e), append(u.unused, e)
			u.paths = append(u.paths, u.path(e))
			f.Changed, s.Reason = true, restored
		case len(text) > 0 && !errors.Is(err, edit.ErrChanged) && !errors.Is(err, edit.ErrMissing):
			f.Problem = printable.Reason(err, 300)
			u.restored, u.unused = nil, nil
			return f
		case edits != nil && edits.Undone(u.path(e), e.Edit):
			u.restored, u.unused, u.undone = append(u.restored, e), append(u.unused, e), append(u.undone, e)
			s.Reason = "has its original content"
		case u.attached(e):
			s.Changed, s.Reason = false, "it was edited after connect; undo the edit, or copy the entry from "+u.File+backupSuffix
		default:
			u.restored, u.kept = append(u.restored, e), append(u.kept, e)
			s.Reason = "no longer connected; " + e.Config + " keeps the server"
		}
		f.Servers = append(f.Servers, s)
	}
	if edits != nil {
		u.after = edits.Text()
	}
	if f.Changed && readOnly(u.File) {
		return fileReport{Host: u.Host, File: u.File, Servers: []server{}, Problem: problemOf(errReadOnly(u.File))}
	}
	slices.Reverse(f.Servers)
	return f
}

// restored is the result for an entry that has its original content again.
const restored = "restored"

// path returns where an entry is now: the position of an item in a list may have changed.
func (u *undo) path(e recorded) []string {
	if _, err := strconv.Atoi(e.Path[len(e.Path)-1]); err != nil {
		return e.Path
	}
	_, originals, _ := config.Originals(u.before, u.File, u.opts)
	for _, o := range originals {
		if o.ID == e.Name {
			return o.Path
		}
	}
	return e.Path
}

// attached reports whether an entry, which is not as connect left it, still uses the daemon.
func (u *undo) attached(e recorded) bool {
	opts := u.opts
	opts.Workspace = cmp.Or(projectOf(e.Path), opts.Workspace)
	cfg, originals, _ := config.Originals(u.before, u.File, opts)
	if cfg == nil {
		return len(u.before) > 0
	}
	path := u.path(e)
	for _, o := range originals {
		if srv, ok := cfg.Server(o.ID); ok && slices.Equal(o.Path, path) {
			return cli.Attached(srv)
		}
	}
	return false
}

// write stores the restored file, removes servers that are not used any more from mcptrack's
// configs, and updates the record.
func (u *undo) write(s store, all []record) error {
	if !bytes.Equal(u.before, u.after) {
		if err := swap(u.File, u.before, u.after); err != nil {
			return err
		}
	}
	u.Entries = slices.DeleteFunc(u.Entries, func(e recorded) bool {
		return slices.ContainsFunc(u.restored, func(r recorded) bool { return slices.Equal(r.Path, e.Path) })
	})
	if backup, err := read(u.File + backupSuffix); err == nil && len(u.Entries) == 0 && bytes.Equal(backup, u.after) {
		if err := os.Remove(u.File + backupSuffix); err != nil {
			return err
		}
	}
	if err := u.keep(s, all); err != nil {
		return err
	}
	for _, e := range u.unused {
		if e.Added == "" || used(all, e) || slices.ContainsFunc(u.kept, e.same) {
			continue
		}
		folder := ""
		if e.Config != config.OwnPath(u.opts) {
			folder = config.FolderOf(e.Config)
		}
		c, err := openOwn(e.Config, folder, u.opts)
		if err != nil || !c.exists || readOnly(c.path) {
			continue // the user has moved, broken or protected it; there is nothing to remove
		}
		if was, err := c.remove(e.ID, e.Added); err != nil || !was {
			continue // the user has edited the server there and may need it
		}
		if err := c.parse(); err != nil {
			continue
		}
		if err := c.write(e.Created); err != nil {
			return err
		}
	}
	return s.put(*u.record)
}

// keep makes the servers stay that entries use which are not recorded any more, such as renamed ones, also
// when the recorded entries that use them are restored.
func (u *undo) keep(s store, all []record) error {
	for i := range all {
		kept := false
		for j := range all[i].Entries {
			if e := &all[i].Entries[j]; slices.ContainsFunc(u.kept, e.same) {
				e.Added, kept = "", true
			}
		}
		if kept {
			if err := s.put(all[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// same reports whether two entries use the same server.
func (e recorded) same(other recorded) bool { return e.Config == other.Config && e.ID == other.ID }

// used reports whether an entry of any host uses the server of an entry.
func used(all []record, e recorded) bool {
	return slices.ContainsFunc(all, func(r record) bool { return slices.ContainsFunc(r.Entries, e.same) })
}
