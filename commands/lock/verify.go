package lock

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/report"
)

type verifyOptions struct {
	workFlags
	servers []string
	against string
	failOn  []string // names, then ids
}

// VerifyCommand returns the command verify.
func VerifyCommand(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts verifyOptions
	cmd := &cobra.Command{
		Use:         "verify [SERVER...]",
		Short:       "Compare what servers offer with mcptrack.lock",
		Annotations: cli.ManualPage("lock"),
		Example: `  mcptrack verify
  mcptrack verify docs -o markdown
  mcptrack verify -o sarif --fail-on suspicious,annotation,launch
  mcptrack verify --against main.lock`,
		ValidArgsFunction: cli.CompleteServerArgs(env, g),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			opts.servers = args
			if opts.failOn, err = classIDs("fail-on", opts.failOn); err != nil {
				return err
			}
			return opts.Run(cmd, func(ctx context.Context) error { return runVerify(ctx, env, g, opts) })
		},
	}
	opts.add(cmd)
	cmd.Flags().StringVar(&opts.against, "against", "", "show what the lock changes since the lock in `FILE`, without a server")
	_ = cmd.MarkFlagFilename("against", "lock")
	addClasses(cmd, &opts.failOn, "fail-on", "exit with 7 only for changes with a class in this list of `CLASS,...`")
	g.AddReports(cmd)
	return cmd
}

// verified is the result of verify.
type verified struct {
	changes  []change
	failures []report.Failure
	servers  int
	checks   func() []report.Check // what was compared
	located  func(server string) report.Location
	place    report.Location
	file     string // the lock
	hint     string
}

func runVerify(ctx context.Context, env *cli.Env, g *cli.Globals, opts verifyOptions) error {
	verify := opts.verifyServers
	if opts.against != "" {
		verify = opts.verifyLocks
	}
	v, err := verify(ctx, env, g)
	if err != nil {
		return err
	}
	if err := opts.write(env, g, v); err != nil {
		return err
	}
	failing := slices.DeleteFunc(slices.Clone(v.changes), opts.accepts)
	var missed []string
	for _, f := range v.failures {
		missed = append(missed, f.Server+": "+f.Reason)
	}
	if opts.against == "" {
		v.hint = advice(failing, v.hint)
	}
	return finish(failing, v.hint, missed, v.servers)
}

// accepts reports whether a change does not make the command fail.
func (o verifyOptions) accepts(c change) bool {
	return len(o.failOn) > 0 && !slices.ContainsFunc(c.Classes, func(name string) bool {
		class, _ := lock.FindClass(name)
		return slices.Contains(o.failOn, class.ID)
	})
}

// verifyServers compares the lock with what servers offer.
func (o verifyOptions) verifyServers(ctx context.Context, env *cli.Env, g *cli.Globals) (verified, error) {
	w, err := o.open(ctx, env, g, o.servers)
	if err != nil {
		return verified{}, err
	}
	results, l, err := w.observe(ctx, func() (*lock.Lock, error) { return read(w.path) })
	if err != nil {
		return verified{}, err
	}
	v := verified{servers: len(results), file: w.path, place: report.Location{File: w.cfg.Path, Line: 1},
		hint: takesOver}
	for _, r := range results {
		s := l.Servers[r.Server.ID]
		if r.Err != nil {
			v.failures = append(v.failures, report.Failure{Server: r.Server.ID, Reason: r.Err.Error()})
		}
		switch {
		case s != nil:
			v.changes = append(v.changes, changesOf(r.Server.ID, drifts(s, r))...)
		case r.Err == nil:
			v.changes = append(v.changes, change{lock.NotLocked(r.Server.ID)})
		}
	}
	if len(v.changes) > 0 && !slices.ContainsFunc(v.changes, func(c change) bool { return c.Item != "" }) {
		v.hint = "mcptrack lock adds them"
	}
	v.checks = func() (all []report.Check) {
		for _, r := range results {
			if s := l.Servers[r.Server.ID]; s != nil && r.Err == nil {
				all = append(all, checks(r.Server.ID, s)...)
			}
		}
		return all
	}
	v.located = cli.Located(w.cfg)
	return v, nil
}

// verifyLocks compares two locks.
func (o verifyOptions) verifyLocks(_ context.Context, env *cli.Env, g *cli.Globals) (verified, error) {
	path := o.File
	if path == "" {
		cfg, err := g.Read(env, g.Logger(env))
		if err != nil {
			return verified{}, err
		}
		path = o.path(g, cfg)
	}
	for _, file := range []string{path, o.against} {
		if err := cli.CheckLock(g, file); err != nil {
			return verified{}, err
		}
	}
	now, err := read(path)
	if err != nil {
		return verified{}, err
	}
	was, err := read(o.against)
	if err != nil {
		return verified{}, err
	}
	ids := map[string]bool{}
	for _, l := range []*lock.Lock{was, now} {
		for id := range l.Servers {
			ids[id] = len(o.servers) == 0
		}
	}
	for _, id := range o.servers {
		if _, known := ids[id]; !known {
			names := slices.Sorted(maps.Keys(ids))
			return verified{}, cli.UsageHint(cli.DidYouMean(id, names, "the locks have: "+printable.Line(cli.Join(names, 20), 1000)), "neither lock has the server %q", printable.Line(id, 128))
		}
		ids[id] = true
	}
	place := report.Location{File: path, Line: 1}
	v := verified{file: path, place: place, located: func(string) report.Location { return place },
		hint: "read them before you use this lock"}
	drifts := lock.CompareLocks(was, now)
	var all []report.Check
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if !ids[id] {
			continue
		}
		v.servers++
		if was.Servers[id] == nil {
			settings, _ := split(drifts[id], func(d lock.Drift) bool { return d.Section == lock.SectionPolicy })
			v.changes = append(append(v.changes, change{lock.NotLocked(id)}), changesOf(id, settings)...)
			continue
		}
		v.changes = append(v.changes, changesOf(id, drifts[id])...)
		all = append(all, checks(id, was.Servers[id])...)
	}
	v.checks = func() []report.Check { return all }
	return v, nil
}

// checks returns the items of a server in the lock.
func checks(id string, s *lock.Server) (all []report.Check) {
	for section, list := range s.Items {
		for _, it := range list {
			all = append(all, report.Check{Server: id, Item: lock.Name(section, it.Key)})
		}
	}
	slices.SortFunc(all, func(a, b report.Check) int { return strings.Compare(a.Item, b.Item) })
	return slices.Compact(all) // an item may have several definitions
}

func (o verifyOptions) write(env *cli.Env, g *cli.Globals, v verified) error {
	unreachable := []string{}
	for _, f := range v.failures {
		unreachable = append(unreachable, f.Server)
	}
	doc := struct {
		Drift       bool     `json:"drift"` // whether a change makes the command fail
		Items       []change `json:"items"`
		Unreachable []string `json:"unreachable"`
	}{slices.ContainsFunc(v.changes, func(c change) bool { return !o.accepts(c) }), append([]change{}, v.changes...), unreachable}
	var names []string
	for _, c := range v.changes {
		names = append(names, c.name())
	}
	if g.WantsReport() {
		if written, err := g.WriteReport(env.Out, o.report(env, v)); written || err != nil {
			return err
		}
	}
	return g.Write(env.Out, names, doc, func() error {
		if len(v.changes) == 0 {
			if n := v.servers - len(v.failures); n > 0 {
				_, err := fmt.Fprintf(env.Out, "%s: as in %s\n", cli.Plural(n, "server"), printable.Line(v.file, 0))
				return err
			}
			return nil
		}
		return g.Tables(env).Rows(env.Out, head(), rows(v.changes))
	})
}

// report returns the report for CI.
func (o verifyOptions) report(env *cli.Env, v verified) *report.Report {
	root, _ := os.Getwd() // without it, absolute paths become names
	r := &report.Report{Command: "verify", Version: env.Version, Checks: v.checks(), Failures: v.failures, Root: root, Place: v.place}
	switch {
	case len(v.changes) == 0:
	case o.against != "":
		r.Advice = "Approve these changes only if they are right: " + printable.Line(v.file, 200) + " has them already."
	default:
		r.Advice = "Review with `mcptrack review` first. If these changes are right, run `mcptrack lock --update` and commit " + printable.Line(v.file, 200) + "."
	}
	for _, c := range lock.Classes() {
		r.Rules = append(r.Rules, report.Rule{ID: c.ID, Name: c.Name, Severity: c.Severity, Text: c.Text})
	}
	for _, c := range v.changes {
		message := strings.ToUpper(c.what()[:1]) + c.what()[1:]
		if len(c.Classes) > 1 {
			message += " (" + strings.Join(c.Classes, ", ") + ")"
		}
		r.Findings = append(r.Findings, report.Finding{Check: report.Check{Server: c.ServerID, Item: c.Item}, Rule: c.ID, Severity: c.Severity,
			Message: message + ".", Location: v.located(c.ServerID), Diff: c.Drift.Diff(), Accepted: o.accepts(c)})
	}
	return r
}
