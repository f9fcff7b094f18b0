package lock

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/report"
	"github.com/mcptrack/mcptrack/output/table"
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
		Annotations: cli.ManualPage("verify"),
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
	cmd.Flags().StringVar(&opts.against, "against", "", "compare the lock with an older one in `FILE`")
	_ = cmd.MarkFlagFilename("against", "lock")
	addClasses(cmd, &opts.failOn, "fail-on", "exit with 7 only for changes with a class in this list of `CLASS,...`")
	g.AddReports(cmd)
	cli.MainFlags(cmd, "output", "fail-on", "against", "lock", "timeout")
	return cmd
}

// verified is the result of verify.
type verified struct {
	changes  []lock.Change
	failures []report.Failure
	servers  int
	compared []string // servers
	located  func(server string) report.Location
	place    report.Location
	file     string // the lock
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
	hint := "read them before you use this lock"
	if opts.against == "" {
		hint = advice(v.changes) // lock --update would take over all
	}
	return finish(failing, hint, missed, v.servers)
}

// accepts reports whether a change does not make the command fail.
func (o verifyOptions) accepts(c lock.Change) bool {
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
	results, l, err := w.observe(ctx, false)
	if err != nil {
		return verified{}, err
	}
	v := verified{servers: len(results), file: w.path, place: report.Location{File: w.cfg.Path, Line: 1},
		located: cli.Located(w.cfg)}
	for _, r := range results {
		s := l.Servers[r.Server.ID]
		if r.Err != nil {
			v.failures = append(v.failures, report.Failure{Server: r.Server.ID, Reason: r.Err.Error()})
		}
		switch {
		case s != nil:
			if r.Err == nil {
				v.compared = append(v.compared, r.Server.ID)
			}
			v.changes = append(v.changes, changesOf(r.Server.ID, drifts(s, r))...)
		case r.Err == nil:
			v.changes = append(v.changes, lock.NotLocked(r.Server.ID))
		}
	}
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
	now, err := read(path, false)
	if err != nil {
		return verified{}, err
	}
	was, err := read(o.against, false)
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
	v := verified{file: path, place: place, located: func(string) report.Location { return place }}
	drifts := lock.CompareLocks(was, now)
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if !ids[id] {
			continue
		}
		v.servers++
		if was.Servers[id] == nil {
			settings := slices.DeleteFunc(drifts[id], func(d lock.Drift) bool { return d.Section != lock.SectionPolicy })
			v.changes = append(append(v.changes, lock.NotLocked(id)), changesOf(id, settings)...)
			continue
		}
		v.changes = append(v.changes, changesOf(id, drifts[id])...)
		v.compared = append(v.compared, id)
	}
	return v, nil
}

func (o verifyOptions) write(env *cli.Env, g *cli.Globals, v verified) error {
	unreachable := []string{}
	for _, f := range v.failures {
		unreachable = append(unreachable, f.Server)
	}
	doc := struct {
		Drift       bool          `json:"drift"` // whether a change makes the command fail
		Items       []lock.Change `json:"items"`
		Unreachable []string      `json:"unreachable"`
	}{slices.ContainsFunc(v.changes, func(c lock.Change) bool { return !o.accepts(c) }), append([]lock.Change{}, v.changes...), unreachable}
	if written, err := g.WriteReport(env.Out, func() *report.Report { return o.report(env, v) }); written || err != nil {
		return err
	}
	out := table.Output{Document: doc, Names: names(v.changes)}
	switch n := v.servers - len(v.failures); {
	case len(v.changes) > 0:
		out.Parts = []table.Part{table.Records(v.changes, func(c lock.Change) []string {
			return []string{c.ServerID, c.Item, string(c.Severity), strings.Join(c.Classes, ", "), what(c)}
		}, "Server", "Item", "Severity", "Class", "Change")}
	case v.servers == 0:
		out.Parts = []table.Part{table.Text("no servers to compare")}
	case n > 0:
		out.Parts = []table.Part{table.Text("%s: as in %s", cli.Plural(n, "server"), printable.Line(v.file, 0))}
	}
	return g.Print(env, out)
}

// report returns the report for CI.
func (o verifyOptions) report(env *cli.Env, v verified) *report.Report {
	root, _ := os.Getwd() // without it, absolute paths become names
	r := &report.Report{Command: "verify", Version: env.Version, Servers: v.compared, Failures: v.failures, Root: root, Place: v.place}
	switch {
	case len(v.changes) == 0:
	case o.against != "":
		r.Advice = "Approve these changes only if they are right: " + printable.Line(v.file, 200) + " has them already."
	case slices.ContainsFunc(v.changes, suspicious):
		r.Advice = "Read them: `mcptrack review` shows each and asks."
	default:
		r.Advice = "Review with `mcptrack review` first. If these changes are right, run `mcptrack lock --update` and commit " + printable.Line(v.file, 200) + "."
	}
	for _, c := range lock.Classes() {
		r.Rules = append(r.Rules, report.Rule{ID: c.ID, Name: c.Name, Severity: c.Severity, Text: c.Text})
	}
	for _, c := range v.changes {
		message := what(c)
		message = strings.ToUpper(message[:1]) + message[1:]
		if len(c.Classes) > 1 {
			message += " (" + strings.Join(c.Classes, ", ") + ")"
		}
		r.Findings = append(r.Findings, report.Finding{Server: c.ServerID, Item: c.Item, Rule: c.ID, Severity: c.Severity,
			Message: message + ".", Location: v.located(c.ServerID), Diff: c.Drift.Diff(), Accepted: o.accepts(c)})
	}
	return r
}
