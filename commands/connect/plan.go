package connect

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/edit"
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/launcher"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// A plan is what a run changes in one file of a host.
type plan struct {
	host          hosts.Host
	path          string // absolute
	project       bool
	format        tree.Format
	before, after []byte
	edits         *edit.File // after, while the plan is made
	servers       []server
	entries       []recorded
	problem       error // why nothing in the file is changed
}

// A server is one entry of a host's config, as reported.
type server struct {
	Name   string `json:"name"`
	ID     string `json:"serverId,omitempty"` // in mcptrack's config
	Config string `json:"config,omitempty"`
	// Changed means that the entry was changed, or would be with --dry-run. Otherwise Reason says
	// why it was left alone.
	Changed bool   `json:"changed"`
	Reason  string `json:"reason,omitempty"`
	// Unshared is why the entry gets "shared": false; empty if it does not.
	Unshared string `json:"unshared,omitempty"`

	login bool // the server may need a login with mcptrack
}

// A planner makes the plans of one run.
type planner struct {
	env     *cli.Env
	g       *cli.Globals
	opts    config.Options
	log     *slog.Logger
	only    []string // names of servers; empty means all
	records []record
	owns    map[string]*own
	oneEach *daemon.OneEach
}

// own returns one of mcptrack's own configs, as it is in this run.
func (p *planner) own(path, folder string) (c *own, err error) {
	if c = p.owns[path]; c == nil {
		if c, err = openOwn(path, folder, p.opts); err == nil {
			p.owns[path] = c
		}
	}
	return c, err
}

// read returns the content of a host's file.
func read(path string) ([]byte, error) { return secretfile.Load(path, config.SizeLimit(path), 0) }

// plan makes the plan for one file. An error ends the run.
func (p *planner) plan(f config.HostFile) (*plan, error) {
	plan := &plan{host: f.Host, path: f.Path}
	if !utf8.ValidString(f.Path + p.opts.Workspace) { // the record and the entries could not name it
		plan.problem = fmt.Errorf("the path of %s is not UTF-8", printable.Line(f.Path, 200))
		return plan, nil
	}
	before, err := read(f.Path)
	if err != nil {
		plan.problem = &cli.Failure{Exit: cli.ExitConfig, Code: "config_invalid", Err: err}
		return plan, nil
	}
	plan.before, plan.after = before, before
	plan.format = tree.Detect(f.Path)
	cfg, originals, problems := config.Originals(before, f.Path, p.opts)
	if cfg == nil {
		plan.problem = &cli.Failure{Exit: cli.ExitConfig, Code: "config_invalid", Err: fmt.Errorf("%s is invalid", printable.Line(f.Path, 200)),
			Hint: fmt.Sprintf("mcptrack validate %s shows why", printable.Shell(f.Path))}
		for _, problem := range problems {
			if problem.Code == config.CodeInsecure {
				plan.problem = &cli.Failure{Exit: cli.ExitConfig, Code: "config_insecure", Err: config.Problems{problem}, Hint: problem.Hint}
			}
		}
		return plan, nil
	}
	of := *p.g
	of.Config, of.Host, of.Workspace = "", f.Host.Name, p.opts.Workspace
	permission, err := of.Permission(p.env, f.Path)
	if err != nil {
		return nil, err
	}
	plan.project = permission.Needed
	var chosen []*config.Original
	for i := range originals {
		o := &originals[i]
		if len(p.only) > 0 && !slices.Contains(p.only, o.ID) {
			continue
		}
		if reason := p.leave(cfg, o); reason != "" {
			plan.servers = append(plan.servers, p.connected(f.Path, server{Name: o.ID, Reason: reason}))
			continue
		}
		chosen = append(chosen, o)
	}
	if len(chosen) == 0 {
		return plan, nil
	}
	folder := ""
	target := config.OwnPath(p.opts)
	if plan.project {
		folder = p.opts.Workspace
		if err := inside(folder, f.Path); err != nil {
			plan.problem = err
			return plan, nil
		}
		var names []string
		for _, o := range chosen {
			names = append(names, o.ID)
		}
		if err := permission.Refusal(cfg, p.log, names); err != nil {
			plan.problem = err
			return plan, nil
		}
		target = filepath.Join(folder, "mcp-servers.json")
		if at := filepath.Join(folder, filepath.FromSlash(cli.DefaultConfig)); exists(at) {
			target = at
		}
	}
	if target == "" {
		plan.problem = errors.New("the folder for the user's config is unknown; set HOME")
		return plan, nil
	}
	for _, path := range []string{f.Path, target} {
		if readOnly(path) {
			plan.problem = errReadOnly(path)
			return plan, nil
		}
	}
	c, err := p.own(target, folder)
	if err != nil {
		return nil, err
	}
	if plan.edits, err = edit.Open(before, plan.format); err != nil {
		plan.problem = err
		return plan, nil
	}
	for _, o := range chosen {
		srv, _ := cfg.Server(o.ID)
		s, err := p.connect(plan, c, o, &srv)
		if err != nil {
			s = server{Name: o.ID, Reason: "cannot be changed: " + printable.Reason(err, 300)}
		}
		s.login = s.Changed && withoutHeaders(cfg, o)
		plan.servers = append(plan.servers, s)
	}
	plan.after = plan.edits.Text()
	sort.SliceStable(plan.servers, func(i, j int) bool {
		return position(originals, plan.servers[i].Name) < position(originals, plan.servers[j].Name)
	})
	return plan, nil
}

// readOnly reports whether nobody may write a file. Replacing it would still be possible.
func readOnly(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o222 == 0
}

func errReadOnly(path string) error {
	return &cli.Failure{Exit: cli.ExitConfig, Code: "read_only", Err: fmt.Errorf("%s is read-only", printable.Line(path, 200)), Hint: "run chmod u+w " + printable.Shell(path)}
}

func position(originals []config.Original, name string) int {
	return slices.IndexFunc(originals, func(o config.Original) bool { return o.ID == name })
}

// withoutHeaders reports whether a server is reached over HTTP without any header.
func withoutHeaders(cfg *config.Config, o *config.Original) bool {
	srv, ok := cfg.Server(o.ID)
	return ok && srv.Transport != config.TransportStdio &&
		!slices.ContainsFunc(o.Keys, func(k config.Key) bool { return k.Name == "headers" })
}

func exists(path string) bool {
	_, err := read(path)
	refused, ok := errors.AsType[*secretfile.RefusedError](err)
	return err == nil || ok && refused.Problem != "no such file"
}

// already is why an entry is left alone that runs mcptrack-attach.
const already = "already connected"

// leave returns why an entry is left alone, or "".
func (p *planner) leave(cfg *config.Config, o *config.Original) string {
	srv, ok := cfg.Server(o.ID)
	if !ok || len(o.Keys) == 0 {
		return "it has neither a command nor a URL"
	}
	if o.Invalid != "" {
		return "invalid: " + o.Invalid
	}
	key := o.Unsupported()
	switch {
	case cli.Attached(srv):
		return already
	case srv.Runs("gateway") || srv.Runs("vault"):
		return "it runs mcptrack itself"
	case !srv.Enabled:
		return "disabled"
	case srv.Transport == config.TransportCatalog:
		return "a catalog is not an MCP server"
	case key != "":
		return fmt.Sprintf("it uses %q, which mcptrack does not support", key)
	case o.Bare != "":
		return o.Bare
	}
	for _, u := range srv.Intent.Uses {
		if _, set := p.env.LookupEnv(u.Name); u.Kind == config.UseVariable && !set {
			return "" // the host may have the value, so what is missing is not known
		}
	}
	if len(srv.Missing) > 0 {
		return "not configured: " + strings.Join(srv.Missing, "; ")
	}
	return ""
}

// connected adds to a server that is connected already where it is in mcptrack's config.
func (p *planner) connected(file string, s server) server {
	for _, r := range p.records {
		for _, e := range r.Entries {
			if r.File == file && e.Name == s.Name && s.Reason == already {
				s.ID, s.Config = e.ID, e.Config
			}
		}
	}
	return s
}

// ownOf returns the config that has a server that is connected.
func (p *planner) ownOf(s server) (*own, error) {
	switch s.Config {
	case "":
		return nil, errors.New("not connected")
	case config.OwnPath(p.opts):
		return p.own(s.Config, "")
	}
	return p.own(s.Config, p.opts.Workspace)
}

// unshared returns why sessions cannot share a server, or "": what its command keeps in its process, or what the
// daemon has seen of it.
func (p *planner) unshared(srv *config.Server) string {
	command := launcher.Parse(append([]string{srv.Command}, srv.Args...))
	if what := command.Holds(); what != "" {
		return "it holds " + what
	}
	if p.oneEach.Has(srv) {
		return "the daemon has seen that it needs this"
	}
	return ""
}

// connect changes one entry in the plan, and moves its original, which describes srv, to mcptrack's config.
// Sessions do not share a server that they would disturb, unless the user says that they do.
func (p *planner) connect(plan *plan, c *own, o *config.Original, srv *config.Server) (server, error) {
	id, known, err := c.choose(o, plan.host.Name)
	if err != nil {
		return server{}, err
	}
	command, args := attach(p.env, plan.project)
	args = slices.Clone(args)
	if plan.project { // the file may change with the next git pull
		args = append(args, "--approved")
	}
	args = append(args, "--config", configArgument(plan.host.Name, c.path, c.folder))
	if strings.HasPrefix(id, "-") {
		args = append(args, "--")
	}
	set := program(plan.host.Name, o, command, append(args, id), plan.project)
	undo, err := plan.edits.Object(o.Path, set, o.Keeps)
	if err != nil {
		return server{}, err
	}
	r := recorded{Name: o.ID, Path: o.Path, Edit: undo, Config: c.path, ID: id, Created: !c.exists}
	text := c.text
	s := server{Name: o.ID, ID: id, Config: c.path, Changed: true}
	if !known && !slices.ContainsFunc(o.Keys, func(k config.Key) bool { return k.Name == "shared" }) {
		s.Unshared = p.unshared(srv)
	}
	if !known {
		if err := c.add(o, id, s.Unshared != ""); err != nil {
			c.text = text
			return server{}, errors.Join(err, c.parse(), plan.edits.Restore(o.Path, undo))
		}
		_, value := c.find(id)
		r.Added = edit.Digest(value)
	}
	for _, other := range p.records {
		for _, e := range other.Entries {
			if e.Config != c.path {
				continue
			}
			r.Created = r.Created || e.Created
			if known && e.ID == id {
				r.Added = e.Added
			}
		}
	}
	c.used = append(c.used, id)
	plan.entries = append(plan.entries, r)
	p.records = append(p.records, record{File: plan.path, Entries: []recorded{r}})
	return s, nil
}

// diff returns what changes in the file.
func (pl *plan) diff() string {
	var paths [][]string
	for _, e := range pl.entries {
		paths = append(paths, e.Path)
	}
	return diff(pl.path, pl.before, pl.after, pl.format, paths)
}

// record stores what is needed to undo the change. It returns the record that there was before.
func (pl *plan) record(s store) (before record, err error) {
	before = record{File: pl.path, Host: pl.host.Name, Format: pl.format}
	records, err := s.all()
	if err != nil {
		return before, err
	}
	if i := slices.IndexFunc(records, func(r record) bool { return r.File == pl.path }); i >= 0 {
		before = records[i]
	}
	r := before
	r.Entries = slices.Clone(r.Entries)
	for _, e := range pl.entries { // what is recorded of an entry that is not connected any more is of no use
		r.Entries = slices.DeleteFunc(r.Entries, func(old recorded) bool { return slices.Equal(old.Path, e.Path) })
	}
	r.Entries = append(r.Entries, pl.entries...)
	return before, s.put(r)
}

// backup stores the first original of the host's file. It reports whether there was no backup before.
func (pl *plan) backup() (created bool, err error) {
	err = atomicfile.Create(pl.path+backupSuffix, 0o600, pl.before)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

// swap replaces the content of a file, unless it has changed.
func swap(path string, before, after []byte) error {
	err := atomicfile.Swap(path, before, after)
	if errors.Is(err, atomicfile.ErrChanged) {
		return changed(path)
	}
	return err
}
