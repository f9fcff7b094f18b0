// Package doctor implements the doctor command, which checks what mcptrack needs on this machine.
//
// Checks are independent of each other and run concurrently; each has a time limit. servers.go checks the
// servers and what was approved of them, logins.go logins and the keyring, machine.go the rest. What a
// check prints is passed through a redactor (redact.go), because users paste it into bug reports.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/table"
)

type options struct {
	cli.ConnectFlags
	cli.LockFlags
	dataDir string
	offline bool
}

// Command returns the doctor command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what mcptrack needs here, and say how to fix it",
		Long: `Checks the config, its servers, what you have approved, the lock, logins, the keyring, the
daemon and the stored events. It prints a line for each check, and what to do about an
error or a warning.

It starts only servers that you have approved. The output contains names, addresses and
errors of servers, but no secrets, and can be pasted into a bug report.`,
		Example: `  mcptrack doctor
  mcptrack doctor --offline
  mcptrack doctor --json | jq '.checks[] | select(.status == "error")'`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return opts.Run(cmd, func(ctx context.Context) error { return run(ctx, env, g, opts) })
		},
	}
	opts.AddServing(cmd)
	opts.LockFlags.Add(cmd)
	f := cmd.Flags()
	f.DurationVar(&opts.Timeout, "timeout", time.Minute, "exit after this `DURATION`")
	f.StringVar(&opts.dataDir, "data-dir", "", "`DIR` of stored events")
	_ = cmd.MarkFlagDirname("data-dir")
	f.BoolVar(&opts.offline, "offline", false, "start and contact no server")
	g.AddDemo(cmd)
	cli.MainFlags(cmd, "offline", "timeout", "lock", "data-dir", "json")
	return cmd
}

// status is the result of a check.
type status string

// The results. Only errors make the command fail.
const (
	ok      status = "ok"
	warning status = "warning"
	failed  status = "error"
	skipped status = "skipped" // it does not apply here
)

// check is one line of the report.
type check struct {
	// ID is stable: the kind of check and, if there can be several, a colon and what is checked, such as
	// "server:docs".
	ID     string `json:"id"`
	Name   string `json:"name"` // for people
	Status status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"` // what to do; empty if there is nothing to do
}

// newCheck returns the check of a kind; what is empty unless there can be several.
func newCheck(kind, what string, s status, detail, fix string) check {
	c := check{ID: kind, Name: kind, Status: s, Detail: detail, Fix: fix}
	if what != "" {
		c.ID, c.Name = kind+":"+what, kind+" "+what
	}
	return c
}

// report is the document that doctor --json prints.
type report struct {
	OK     bool    `json:"ok"` // no check has an error
	Checks []check `json:"checks"`
}

// doctor is one run of the command.
type doctor struct {
	options
	env *cli.Env // its stderr may be used while progress is shown
	g   *cli.Globals
	log *slog.Logger
	cli.Inspection
}

func run(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) error {
	d := &doctor{options: opts, env: env, g: g, log: g.Logger(env)}
	first := []check{newCheck("version", "", ok, fmt.Sprintf("mcptrack %s, %s, %s/%s", env.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH), "")}
	var unread error
	if d.Inspection, unread = g.Inspect(env, d.log); unread != nil {
		d.Config = &config.Config{}
	}
	d.Config = g.Through(ctx, env, d.Config)
	first = append(first, d.checkConfig(unread), d.checkApprovals())
	servers := d.enabled()
	beside, answered, stop := cli.Asking(env, g, servers)
	defer stop()
	d.env = beside
	groups := []func(context.Context) []check{
		func(ctx context.Context) []check { return d.checkServers(ctx, servers, answered) },
		func(context.Context) []check { return d.checkLogins(servers) },
		d.checkDaemon, d.checkData,
	}
	results := make([][]check, len(groups))
	var running sync.WaitGroup
	for i, group := range groups {
		running.Go(func() { results[i] = group(ctx) })
	}
	running.Wait()
	stop()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), cli.ErrTimeout) {
		return ctx.Err()
	}
	rep := report{OK: true, Checks: first}
	for _, checks := range results {
		rep.Checks = append(rep.Checks, checks...)
	}
	var ids, errs []string
	hide := newRedactor(d.env, d.Config)
	for i := range rep.Checks {
		c := &rep.Checks[i]
		c.ID, c.Name, c.Detail, c.Fix = hide.text(c.ID, 200), hide.text(c.Name, 200), hide.text(c.Detail, 1000), hide.text(c.Fix, 600)
		ids = append(ids, c.ID)
		if c.Status == failed {
			errs = append(errs, c.Name)
		}
	}
	rep.OK = len(errs) == 0
	if err := g.Print(env, table.Output{Document: rep, Names: ids, Parts: rep.parts()}); err != nil || rep.OK {
		return err
	}
	return &cli.Failure{Exit: cli.ExitFailed, Code: "unhealthy", Err: fmt.Errorf("%s: %s", cli.Plural(len(errs), "error"), cli.Join(errs, 10)), Reported: g.Format.Table()}
}

// enabled returns the servers that are in use.
func (d *doctor) enabled() (servers []config.Server) {
	for _, srv := range d.Config.Servers {
		if srv.Enabled {
			servers = append(servers, srv)
		}
	}
	return servers
}

// checkConfig reports the problems of the config. unread is why it could not be read, or nil.
func (d *doctor) checkConfig(unread error) check {
	const kind = "config"
	f, _ := errors.AsType[*cli.Failure](unread)
	switch {
	case unread != nil && len(d.Problems) > 0:
		return newCheck(kind, "", failed, fmt.Sprintf("%s of %s; the first: %s", cli.Plural(d.Problems.Errors(), "error"), d.Problems[0].File, unread), f.Hint)
	case f != nil:
		return newCheck(kind, "", failed, f.Error(), f.Hint)
	case unread != nil:
		return newCheck(kind, "", failed, printable.Reason(unread, 1000), "")
	case d.g.Demo():
		return newCheck(kind, "", ok, "the built-in server", "")
	}
	detail := fmt.Sprintf("%s: %s, %d enabled", d.Config.Path, cli.Plural(len(d.Config.Servers), "server"), len(d.enabled()))
	if len(d.Config.Servers) == 0 {
		return newCheck(kind, "", warning, d.Config.Path+" has no servers", "add one, or run mcptrack init")
	}
	if len(d.Problems) == 0 {
		return newCheck(kind, "", ok, detail, "")
	}
	p, what := d.Problems[0], cli.Plural(len(d.Problems), "warning")
	if n := d.Problems.Errors(); n > 0 { // of servers in the file of a host
		p, what = d.Problems[slices.IndexFunc(d.Problems, func(p config.Problem) bool { return p.Severity == config.SeverityError })], cli.Plural(n, "error")
	}
	return newCheck(kind, "", warning, fmt.Sprintf("%s; %s, the first in line %d: %s", detail, what, p.Line, p.Message),
		"mcptrack validate "+printable.Shell(d.Config.Path)+" shows all of them")
}

// checkApprovals reports which entries of the config are not approved.
func (d *doctor) checkApprovals() check {
	const kind = "approvals"
	if d.Config.Path == "" {
		return newCheck(kind, "", skipped, "there is nothing to approve", "")
	}
	if len(d.Unapproved) == 0 {
		return newCheck(kind, "", ok, "nothing waits for your approval", "")
	}
	var names []string
	for _, e := range d.Unapproved {
		names = append(names, printable.Line(e.Name, 64))
	}
	return newCheck(kind, "", failed, "you have not approved "+cli.Join(names, 10), d.Hint)
}

// parts returns the report for people: a row for each check, and how many have each result.
func (r report) parts() []table.Part {
	checks := table.Records(r.Checks, func(c check) []string {
		text := c.Detail
		if c.Fix != "" {
			text += "; to fix: " + c.Fix
		}
		return []string{c.Name, string(c.Status), text}
	}, "Check", "State", "Detail").Wrapped()
	var sums []string
	for _, s := range []status{failed, warning, ok, skipped} {
		n := 0
		for _, c := range r.Checks {
			if c.Status == s {
				n++
			}
		}
		switch {
		case n == 0:
		case s == ok || s == skipped:
			sums = append(sums, fmt.Sprintf("%d %s", n, s))
		default:
			sums = append(sums, cli.Plural(n, string(s)))
		}
	}
	return []table.Part{checks, table.Text(""), table.Text("%s", strings.Join(sums, ", "))}
}
