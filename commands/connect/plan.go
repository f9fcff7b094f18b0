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
	// others are the folders for which Claude Code stores servers that the run leaves alone.
	others []config.Project
}

// A server is one entry of a host's config, as reported.
type server struct {
	Name string `json:"name"`
	// Folder is the project for which Claude Code stores the entry, unless the command runs there.
	Folder string `json:"folder,omitempty"`
	ID     string `json:"serverId,omitempty"` // in mcptrack's config
	Config string `json:"config,omitempty"`
	// Changed means that the entry was changed, or would be with --dry-run. Otherwise Reason says
	// why it was left alone.
	Changed bool   `json:"changed"`
	Reason  string `json:"reason,omitempty"`
	// Unshared is why the entry gets "shared": false; empty if it does not.
	Unshared string `json:"unshared,omitempty"`

	login bool // the server may need a login with mcptrack
	at    int  // position in the file
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

	allProjects bool
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
	var entries []entryOf
	for i := range originals {
		entries = append(entries, entryOf{Original: &originals[i], cfg: cfg})
	}
	if !plan.project { // the author of a project has no servers for other folders
		plan.others = p.unconnected(f.Path, config.Projects(before, f.Path, p.opts))
	}
	if p.allProjects {
		entries = append(entries, p.entriesOf(f.Path, before, plan.others)...)
		plan.others = nil
	}
	var chosen []entryOf
	for at, e := range entries {
		if !p.wants(e.ID) {
			continue
		}
		if reason := p.leave(f.Host.Name, e); reason != "" {
			plan.servers = append(plan.servers, p.connected(f.Path, e.Path, server{Name: e.ID, Folder: e.folder, Reason: reason, at: at}))
			continue
		}
		e.at = at
		chosen = append(chosen, e)
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
		for _, e := range chosen {
			names = append(names, e.ID)
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
	for _, e := range chosen {
		srv, _ := e.cfg.Server(e.ID)
		s, err := p.connect(plan, c, e.Original, &srv)
		if err != nil {
			s = server{Name: e.ID, Reason: "cannot be changed: " + printable.Reason(err, 300)}
		}
		s.Folder, s.at, s.login = e.folder, e.at, s.Changed && e.withoutHeaders()
		plan.servers = append(plan.servers, s)
	}
	plan.after = plan.edits.Text()
	sort.Slice(plan.servers, func(i, j int) bool { return plan.servers[i].at < plan.servers[j].at })
	return plan, nil
}

// An entryOf is an entry with the config to which it belongs, as it is for the entry's folder.
type entryOf struct {
	*config.Original
	cfg    *config.Config
	folder string // as Folder of a server
	at     int    // as at of a server
}

// wants reports whether the run may change a server with this name.
func (p *planner) wants(name string) bool { return len(p.only) == 0 || slices.Contains(p.only, name) }

// unconnected returns the servers of the projects that the run may change and that are not connected yet.
func (p *planner) unconnected(file string, projects []config.Project) (left []config.Project) {
	for _, project := range projects {
		project.Servers = slices.DeleteFunc(project.Servers, func(name string) bool {
			return !p.wants(name) || !p.allProjects && slices.ContainsFunc(p.records, func(r record) bool {
				return r.File == file && slices.ContainsFunc(r.Entries, func(e recorded) bool { return e.Name == name && projectOf(e.Path) == project.Folder })
			})
		})
		if len(project.Servers) > 0 {
			left = append(left, project)
		}
	}
	return left
}

// entriesOf returns the entries of projects in a file.
func (p *planner) entriesOf(file string, text []byte, projects []config.Project) (all []entryOf) {
	for _, project := range projects {
		opts := p.opts
		opts.Workspace = project.Folder
		cfg, originals, _ := config.Originals(text, file, opts)
		for i := range originals {
			if projectOf(originals[i].Path) == project.Folder {
				all = append(all, entryOf{Original: &originals[i], cfg: cfg, folder: project.Folder})
			}
		}
	}
	return all
}

// projectOf returns the folder for which Claude Code stores the entry at a path, or "".
func projectOf(path []string) string {
	if len(path) != 4 || path[0] != "projects" {
		return ""
	}
	return filepath.FromSlash(path[1])
}

// readOnly reports whether nobody may write a file. Replacing it would still be possible.
func readOnly(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o222 == 0
}

func errReadOnly(path string) error {
	return &cli.Failure{Exit: cli.ExitConfig, Code: "read_only", Err: fmt.Errorf("%s is read-only", printable.Line(path, 200)), Hint: "run chmod u+w " + printable.Shell(path)}
}

// withoutHeaders reports whether a server is reached over HTTP without any header.
func (e entryOf) withoutHeaders() bool {
	srv, ok := e.cfg.Server(e.ID)
	return ok && srv.Transport != config.TransportStdio &&
		!slices.ContainsFunc(e.Keys, func(k config.Key) bool { return k.Name == "headers" })
}

func exists(path string) bool {
	_, err := read(path)
	refused, ok := errors.AsType[*secretfile.RefusedError](err)
	return err == nil || ok && refused.Problem != "no such file"
}

// already is why an entry is left alone that runs mcptrack-attach.
const already = "already connected"

// leave returns why an entry is left alone, or "".
func (p *planner) leave(host string, e entryOf) string {
	srv, ok := e.cfg.Server(e.ID)
	if !ok || len(e.Keys) == 0 {
		return "it has neither a command nor a URL"
	}
	if e.Invalid != "" {
		return "invalid: " + e.Invalid
	}
	key := e.Unsupported()
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
	case e.Bare != "":
		return e.Bare
	case host == "mistral-vibe" && len(e.Named) > 0:
		return "its key is in a variable, which Mistral Vibe does not pass on to programs"
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

// connected adds to the server at a path that is connected already where it is in mcptrack's config.
func (p *planner) connected(file string, path []string, s server) server {
	for _, r := range p.records {
		for _, e := range r.Entries {
			if r.File == file && e.Name == s.Name && projectOf(e.Path) == projectOf(path) && s.Reason == already {
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
