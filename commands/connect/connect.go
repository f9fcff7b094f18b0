// Package connect implements connect and disconnect: it changes the configs of hosts so that they
// use the daemon's servers, and undoes these changes byte for byte.
//
//	form.go   what an entry of each host looks like that runs mcptrack-attach
//	plan.go   which entries change, and how
//	own.go    mcptrack's own configs, to which the originals move
//	record.go what is stored so that disconnect can restore the originals
//	shown.go  the diff that the user sees
//	report.go what is printed, for people and as JSON
package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

type options struct {
	hosts             []string
	only              []string // names of servers; empty means all
	dryRun, http, yes bool
	undo              bool
}

// Command returns the command connect.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "connect [HOST…]",
		Short: "Let editors and agents share the servers of the daemon",
		Long: `Changes the configs of hosts (editors and agents that use MCP servers) so that each
of their servers runs mcptrack-attach, which uses the daemon's copy of the server.
Names of servers and tools stay as they are, and so do the permissions that the
host keeps for them. Without HOST, all hosts with a config here are connected.

connect shows a diff, without secrets, and asks; without a terminal it needs
--yes. The original entries move to mcptrack's config: those of your own files to
mcptrack/mcp-servers.json in your config folder, those of a project's files to
mcp-servers.json in the project. Entries of several hosts that run the same
command, or reach the same URL, become one. A project's file must be approved first
(see mcptrack help trust). FILE.mcptrack-backup keeps the first original of each
file, and mcptrack disconnect restores the entries byte for byte.

A server that holds a browser, a terminal or a debugger, as its package or its tools
tell, gets "shared": false: a process for each session. The last line counts the
programs that run for one folder, and those that would run without the daemon. "Less"
is the memory of the copies that run now and are not needed. -o wide shows where each
server is.

Left alone are servers that are disabled or not usable, those with $NAME, which
mcptrack does not expand (${NAME} is), and those that run mcptrack. A file without permission to write is changed only if you answer the
question, which names it; with --yes it is left alone. If something fails,
everything is as before. With --http the entries have a URL and a token instead of a command;
this needs a daemon that was started with --http.`,
		Example: `  mcptrack connect --dry-run
  mcptrack connect claude-code cursor
  mcptrack connect vscode --only github --yes
  mcptrack connect --undo`,
		Args:              cli.Args(0, -1),
		ValidArgsFunction: cobra.FixedCompletions(hosts.Names(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.hosts = args
			if err := check("connect", args, cmd.Flags().Changed); err != nil {
				return err
			}
			if opts.undo && (opts.http || opts.yes || opts.only != nil) {
				return cli.Usage("--undo restores everything that was connected; it takes only --dry-run")
			}
			if opts.undo {
				return runDisconnect(cmd.Context(), env, g, opts)
			}
			return run(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opts.dryRun, "dry-run", false, "show the changes; write nothing")
	f.StringArrayVar(&opts.only, "only", nil, "connect only this `SERVER`; repeat for more")
	f.BoolVar(&opts.http, "http", false, "write a URL with a token instead of a command")
	f.BoolVar(&opts.yes, "yes", false, "do not ask")
	f.BoolVar(&opts.undo, "undo", false, "restore the entries instead, as mcptrack disconnect does")
	return cmd
}

// check replaces the hosts in args by their names, and returns an error for hosts that are unknown and for global flags without a meaning here.
func check(name string, args []string, changed func(flag string) bool) error {
	for i, host := range args {
		h, err := cli.FindHost(host, "unknown host %q")
		if err != nil {
			return err
		}
		args[i] = h.Name
	}
	switch {
	case changed("config"):
		return cli.UsageHint("it reads and writes the configs of hosts", "%s does not use --config", name)
	case changed("host"):
		return cli.UsageHint("mcptrack "+name+" HOST selects a host", "%s does not use --host", name)
	case changed("format"):
		return cli.UsageHint("it reads each config in its own format", "%s does not use --format", name)
	}
	return nil
}

func run(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) error {
	command, args := attach(env, false)
	if entry := config.Stdio("entry", command, args...); !entry.Attaches() {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "failed", Err: fmt.Errorf("this program is called %s; later runs recognise connected entries only by the name mcptrack", printable.Line(filepath.Base(command), 100)),
			Hint: "rename the program to mcptrack"}
	}
	s, err := openStore(env)
	if err != nil {
		return err
	}
	if !opts.dryRun {
		if err := s.tidy(ctx, g.ConfigOptions(env)); err != nil {
			return err
		}
	}
	p, plans, err := prepare(ctx, env, g, opts, s)
	if err != nil {
		return err
	}
	r, question := reported(plans, opts.dryRun)
	if question == "" || opts.dryRun {
		r.Summary = p.summary(ctx, plans)
		return r.print(env, g)
	}
	if !opts.yes {
		switch err := env.Ask(ctx, question, "Change "+r.what()+protected(plans)+"?"); {
		case errors.Is(err, cli.ErrNoTerminal):
			return cli.UsageHint("use --yes to change the configs, or --dry-run to see the changes", "connect asks for confirmation, but there is no terminal")
		case errors.Is(err, cli.ErrDeclined):
			return &cli.Failure{Exit: cli.ExitFailed, Code: "declined", Err: errors.New("nothing was changed")}
		case err != nil:
			return err
		}
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	for attempt := 1; ; attempt++ {
		p, plans, err := prepare(ctx, env, g, opts, s) // again, because others may have changed the files meanwhile
		if err != nil {
			return err
		}
		now := ""
		if r, now = reported(plans, false); now != question && !opts.yes {
			return &cli.Failure{Exit: cli.ExitFailed, Code: codeChanged, Err: errors.New("a config changed in the meantime; nothing was written"), Hint: "run the command again"}
		}
		if err = p.write(plans, s); err == nil {
			r.Written, r.Summary = true, p.summary(ctx, plans)
			return r.print(env, g)
		}
		if !isChanged(err) || !opts.yes || attempt == attempts {
			return err
		}
	}
}

// attempts limits how often a run begins anew because a program writes a file at the same time.
const attempts = 10

// prepare makes the plans of a run.
func prepare(ctx context.Context, env *cli.Env, g *cli.Globals, opts options, s store) (*planner, []*plan, error) {
	p := &planner{env: env, g: g, opts: g.ConfigOptions(env), log: g.Logger(env), options: opts, owns: map[string]*own{}}
	p.opts.Format, p.opts.Keyring = "", nil
	p.tools = listedTools(ctx, env, p.log)
	var err error
	if p.opts.Workspace, err = filepath.Abs(p.opts.Workspace); err != nil {
		return nil, nil, err
	}
	if p.records, err = s.all(); err != nil {
		return nil, nil, err
	}
	if p.oneEach, err = daemon.ReadOneEach(filepath.Join(env.DaemonDir(), daemon.OneEachFile)); err != nil {
		p.log.Warn("cannot read which servers need a process for each session", "err", err)
	}
	if opts.http {
		if p.http, err = daemonEndpoint(env); err != nil {
			return nil, nil, err
		}
	}
	files := config.HostFiles(p.opts, opts.hosts...)
	if len(files) == 0 {
		return nil, nil, noServers(opts.hosts)
	}
	var plans []*plan
	for _, f := range files {
		plan, err := p.plan(f)
		if err != nil {
			return nil, nil, err
		}
		if plan.problem != nil && len(opts.hosts) > 0 {
			return nil, nil, plan.problem
		}
		plans = append(plans, plan)
	}
	return p, plans, onlyKnown(opts.only, plans)
}

// write first stores what undoes the changes, then the originals, and changes the files of hosts
// last, so that an interrupted run leaves no entry whose server is unknown. After an error everything is
// as it was before, unless another program changes a file at the same time.
func (p *planner) write(plans []*plan, s store) (err error) {
	var undo []func() error
	defer func() {
		for i := len(undo) - 1; err != nil && i >= 0; i-- {
			if undo[i]() != nil {
				return // what was written before is needed for what cannot be undone
			}
		}
	}()
	plans = slices.DeleteFunc(slices.Clone(plans), func(pl *plan) bool { return len(pl.entries) == 0 })
	for _, pl := range plans {
		before, err := pl.record(s)
		undo = append(undo, func() error { return s.put(before) })
		if err != nil {
			return err
		}
	}
	for _, c := range p.owns {
		if len(c.used) == 0 {
			continue
		}
		if err := c.write(false); err != nil {
			return err
		}
		undo = append(undo, c.restore)
		if err := c.approve(p.env, p.g); err != nil {
			p.log.Warn("the approval of the config cannot be stored", "file", c.path, "err", err, "hint", "mcptrack trust approves it")
		}
	}
	for _, pl := range plans {
		created, err := pl.backup()
		if created {
			undo = append(undo, func() error { return os.Remove(pl.path + backupSuffix) })
		}
		if err == nil {
			err = swap(pl.path, pl.before, pl.after)
		}
		if err != nil {
			return err
		}
		undo = append(undo, func() error { return swap(pl.path, pl.after, pl.before) })
	}
	return nil
}

// daemonEndpoint returns the HTTP endpoint of the daemon, which the daemon describes in a file.
func daemonEndpoint(env *cli.Env) (*endpoint, error) {
	none := &cli.Failure{Exit: cli.ExitUsage, Code: "usage", Err: errors.New("no daemon serves HTTP"), Hint: "start one with mcptrack daemon --http ADDR, or omit --http"}
	text, err := secretfile.ReadAll(env.StateDir("daemon", "http.json"))
	if err != nil {
		return nil, none
	}
	var at struct {
		URL       string `json:"url"`
		TokenFile string `json:"tokenFile"`
	}
	if json.Unmarshal(text, &at) != nil {
		return nil, none
	}
	if u, err := url.Parse(at.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, none
	}
	token, err := secretfile.Read(at.TokenFile)
	if err != nil {
		return nil, err
	}
	return &endpoint{strings.TrimSuffix(at.URL, "/"), token}, nil
}

func noServers(named []string) error {
	err := errors.New("no host has a config with MCP servers here")
	if len(named) > 0 {
		err = fmt.Errorf("%s: no config with MCP servers here", cli.Join(named, 10))
	}
	return &cli.Failure{Exit: cli.ExitConfig, Code: "config_missing", Err: err, Hint: "mcptrack help environment lists the places where configs of hosts are"}
}

// onlyKnown returns an error if no plan has a server that --only names.
func onlyKnown(only []string, plans []*plan) error {
	for _, name := range only {
		found := slices.ContainsFunc(plans, func(p *plan) bool {
			return p.problem != nil || slices.ContainsFunc(p.servers, func(s server) bool { return s.Name == name })
		})
		if !found {
			return &cli.Failure{Exit: cli.ExitUsage, Code: "unknown_server", Err: fmt.Errorf("no host has a server %q", printable.Line(name, 128)), Hint: "mcptrack connect --dry-run lists the servers"}
		}
	}
	return nil
}
