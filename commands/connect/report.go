package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/machine"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/table"
)

// report is the document that connect prints.
type report struct {
	Written bool         `json:"written"`
	Files   []fileReport `json:"files"`
	Restart []string     `json:"restart"`           // titles of the hosts to restart
	Summary *summary     `json:"summary,omitempty"` // of connect
}

// A fileReport is what happened to one file of a host.
type fileReport struct {
	Host    string   `json:"host"`
	File    string   `json:"file"`
	Changed bool     `json:"changed"`
	Problem string   `json:"problem,omitempty"`
	Diff    string   `json:"diff,omitempty"` // with --dry-run
	Servers []server `json:"servers"`
	// OtherProjects are the folders for which Claude Code stores servers that connect left alone, because it ran
	// elsewhere.
	OtherProjects []config.Project `json:"otherProjects,omitempty"`
}

// A summary counts what is connected, and the programs that this needs in one folder.
type summary struct {
	Hosts    int `json:"hosts"`
	Servers  int `json:"servers"`  // that differ in their name or in what they run
	Programs int `json:"programs"` // that the daemon runs
	Instead  int `json:"instead"`  // that the hosts would run
	// MemoryBytes is what the copies of these programs that run now need more than one of each; 0 if no
	// copies run.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
}

func (p *planner) summary(ctx context.Context, plans []*plan) *summary {
	connected, known := map[string]bool{}, map[server]bool{}
	uses := map[server]int{} // by Config and ID
	for _, pl := range plans {
		for _, s := range pl.servers {
			if s.ID != "" {
				connected[pl.host.Name], known[server{Name: s.Name, Config: s.Config, ID: s.ID}] = true, true
				if s.Folder == "" {
					uses[server{Config: s.Config, ID: s.ID}]++
				}
			}
		}
	}
	sum := summary{Hosts: len(connected), Servers: len(known)}
	var shared [][]string
	for at, n := range uses {
		c, err := p.ownOf(at)
		if err != nil {
			continue // the user has broken it
		}
		srv, ok := c.cfg.Server(at.ID)
		switch {
		case !ok || srv.Transport != config.TransportStdio:
			continue
		case srv.Unshared():
			sum.Programs += n
		default:
			sum.Programs++
			shared = append(shared, append([]string{srv.Command}, srv.Args...))
		}
		sum.Instead += n
	}
	groups, err := machine.Servers(ctx, shared)
	if err != nil {
		p.log.Info("the memory of the servers is unknown", "err", err)
	}
	for _, g := range groups {
		if g.Configured {
			_, memory := g.Shareable()
			sum.MemoryBytes += memory
		}
	}
	return &sum
}

// String returns the summary as one line.
func (s *summary) String() string {
	text := cli.Plural(s.Hosts, "host") + ", " + cli.Plural(s.Servers, "server")
	if s.Instead > 0 {
		text += ": " + cli.Plural(s.Programs, "program")
		if s.Instead > s.Programs {
			text += fmt.Sprintf(" instead of %d", s.Instead)
		} else {
			text += ", as many as without the daemon"
		}
	}
	if s.MemoryBytes > 0 {
		text += fmt.Sprintf(", about %s less", printable.Size(s.MemoryBytes))
	}
	return text
}

// reported returns the report of the plans, before anything is written.
func reported(plans []*plan, dryRun bool) report {
	r := report{Files: []fileReport{}, Restart: []string{}}
	for _, p := range plans {
		f := fileReport{Host: p.host.Name, File: p.path, Changed: len(p.entries) > 0, Servers: p.servers, OtherProjects: p.others}
		if f.Servers == nil {
			f.Servers = []server{}
		}
		if p.problem != nil {
			f.Problem = problemOf(p.problem)
		}
		if f.Changed && dryRun {
			f.Diff = p.diff()
		}
		r.add(f)
	}
	return r
}

// problemOf returns why a file is left alone, and what to do about it.
func problemOf(err error) string {
	failure, ok := errors.AsType[*cli.Failure](err)
	switch {
	case ok && failure.Code == "config_untrusted":
		return "not approved; " + failure.Hint
	case ok && failure.Hint != "":
		return printable.Reason(err, 1000) + "; " + failure.Hint
	}
	return printable.Reason(err, 1000)
}

// add adds the report of a file.
func (r *report) add(f fileReport) {
	r.Files = append(r.Files, f)
	if h, ok := hosts.Find(f.Host); ok && f.Changed && !slices.Contains(r.Restart, h.Title) {
		r.Restart = append(r.Restart, h.Title)
	}
}

// unshared returns a line for each server that each session gets for itself.
func (r *report) unshared() string {
	var all []string
	for _, f := range r.Files {
		for _, s := range f.Servers {
			if s.Unshared != "" {
				all = append(all, fmt.Sprintf("%s gets \"shared\": false, a process for each session: %s\n", printable.Line(s.ID, 64), s.Unshared))
			}
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "") // several hosts may have the server
}

// changed returns the names of the servers whose entries change, and in how many files they are.
func (r *report) changed() (names []string, files int) {
	for _, f := range r.Files {
		if f.Changed {
			files++
		}
		for _, s := range f.Servers {
			if s.Changed {
				names = append(names, s.Name)
			}
		}
	}
	return names, files
}

// what names what is changed, for the question.
func (r *report) what() string {
	names, files := r.changed()
	return cli.Plural(len(names), "server") + " in " + cli.Plural(files, "file")
}

// print writes the report: a row for each file, or for each server with -o wide and before changes.
func (r *report) print(env *cli.Env, g *cli.Globals) error {
	names, files := r.changed()
	head, each := []string{"Host", "Result"}, (*fileReport).line
	if g.Format.Wide() || files > 0 && !r.Written {
		head, each = []string{"Host", "File", "Server", "Result"}, (*fileReport).lines
	}
	var parts []table.Part
	var rows [][]string
	for i := range r.Files {
		f := &r.Files[i]
		if f.Diff != "" {
			parts = append(parts, table.Text("%s", f.Diff))
		}
		rows = append(rows, each(f, r.Written)...)
	}
	parts = append(parts, table.Records(rows, func(row []string) []string { return row }, head...))
	text := r.unshared()
	if len(r.Restart) > 0 && r.Written {
		text += fmt.Sprintf("Restart %s.\n", cli.Join(r.Restart, 20))
	}
	if r.Summary != nil && r.Summary.Hosts > 0 {
		text += r.Summary.String() + "\n"
	}
	if text != "" {
		parts = append(parts, table.Text("\n%s", strings.TrimSuffix(text, "\n")))
	}
	if err := g.Print(env, table.Output{Document: r, Names: names, Parts: parts}); err != nil || !g.Format.Table() || g.Quiet {
		return err
	}
	for _, f := range r.Files {
		if text := otherProjects(f.OtherProjects); text != "" {
			fmt.Fprintf(env.Err, "hint: %s also stores %s; --all-projects connects them\n", f.Host, text)
		}
		for _, s := range f.Servers {
			if s.login && r.Written {
				fmt.Fprintf(env.Err, "hint: if %s needs a login: mcptrack login %s --config %s\n", printable.Line(s.Name, 64), printable.Shell(s.ID), printable.Shell(s.Config))
			}
		}
	}
	return nil
}

// otherProjects returns how many servers other folders have, and which folders these are, or "".
func otherProjects(all []config.Project) string {
	n, folders := 0, []string{}
	for _, p := range all {
		n += len(p.Servers)
		folders = append(folders, fmt.Sprintf("%s (%d)", printable.Line(p.Folder, 200), len(p.Servers)))
	}
	if n == 0 {
		return ""
	}
	return cli.Plural(n, "server") + " for other folders: " + cli.Join(folders, 10)
}

// shown returns the name of the server and, if it belongs to another folder, that folder.
func (s *server) shown() string {
	if s.Folder == "" {
		return s.Name
	}
	return s.Name + " of " + s.Folder
}

// lines returns a row for each server of the file.
func (f *fileReport) lines(written bool) (rows [][]string) {
	if f.Problem != "" {
		rows = append(rows, []string{f.Host, f.File, "", "skipped: " + f.Problem})
	}
	for _, s := range f.Servers {
		result := s.Reason
		switch {
		case !s.Changed:
			result = "skipped: " + s.Reason
		case result == "" && written:
			result = "moved to " + s.Config
		case result == "":
			result = "would move to " + s.Config
		}
		rows = append(rows, []string{f.Host, f.File, s.shown(), result})
	}
	return rows
}

// line returns one row for the file.
func (f *fileReport) line(bool) [][]string {
	var results, left []string
	names := map[string][]string{} // by result
	for _, s := range f.Servers {
		result := cmp.Or(s.Reason, "connected")
		if !s.Changed && result != already {
			left = append(left, s.shown()+" ("+result+")")
			continue
		}
		if names[result] == nil {
			results = append(results, result)
		}
		names[result] = append(names[result], s.shown())
	}
	for i, result := range results {
		results[i] = result + ": " + cli.Join(names[result], 20)
	}
	if f.Problem != "" {
		results = append(results, "skipped: "+f.Problem)
	}
	if left != nil {
		results = append(results, "skipped: "+cli.Join(left, 20))
	}
	if results == nil {
		results = []string{"nothing to connect"}
	}
	return [][]string{{f.Host, strings.Join(results, "; ")}}
}
