// Package connect implements connect: it changes the configs of hosts so that they use the daemon's servers, and
// undoes these changes byte for byte.
//
//	form.go   what an entry of each host looks like that runs mcptrack-attach
//	plan.go   which entries change, and how
//	own.go    mcptrack's own configs, to which the originals move
//	record.go what is stored so that the originals can be restored
//	undo.go   restores them
//	shown.go  the diff that the user sees
//	report.go what is printed, for people and as JSON
package connect

import (
	"context"
	"errors"
	"fmt"
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
)

type options struct {
	hosts       []string
	only        []string // names of servers; empty means all
	allProjects bool
	dryRun, yes bool
	undo        bool
}

// Command returns the command connect.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:               "connect [HOST...]",
		Args:              cli.Args(0, -1),
		ValidArgsFunction: cobra.FixedCompletions(hosts.Names(), cobra.ShellCompDirectiveNoFileComp),
		Short:             "Let editors and agents share the servers of the daemon",
		Long: `Lets your editors and agents (the hosts) share their MCP servers through the daemon. Without
HOST, it connects every host that has a config here. It shows each change, without secrets,
and asks first; --undo restores the entries.

Each entry then runs mcptrack attach. The names of servers and tools, and the permissions in
the host, stay the same. The original entry of your own config moves to mcptrack/mcp-servers.json
in your config folder, and the entry of a project to mcp-servers.json in the project's folder.
Equal entries become one.

--undo restores the entries byte for byte. Without HOST, it restores all your own files and
the files of this folder. It does not touch an entry that was edited after connect.
FILE.mcptrack-backup is the first original of a file.

Claude Code also stores servers for single folders. connect changes those of the folder in
which it runs, and with --all-projects those of all folders.

A server that keeps a browser, a terminal or a debugger gets "shared": false: a process for
each session. connect skips entries that are disabled, invalid or have $NAME (mcptrack
expands only ${NAME}), read-only files, and files of a project that you have not approved
(mcptrack help trust).

The last line says how many programs this saves. -o wide shows where each server is.`,
		Example: `  mcptrack connect --dry-run
  mcptrack connect claude-code cursor
  mcptrack connect --undo
  mcptrack connect vscode --only github --yes
  mcptrack connect claude-code --all-projects`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.hosts = args
			if err := check(cmd, args); err != nil {
				return err
			}
			switch {
			case opts.undo && (opts.only != nil || opts.allProjects):
				return cli.Usage("--undo restores all servers; use it without --only and --all-projects")
			case opts.undo:
				return undoAll(cmd.Context(), env, g, opts)
			}
			return run(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&opts.dryRun, "dry-run", false, "show the changes; write nothing")
	f.StringArrayVar(&opts.only, "only", nil, "connect only this `SERVER`; repeat for more")
	f.BoolVar(&opts.allProjects, "all-projects", false, "also Claude Code's servers for other folders")
	f.BoolVar(&opts.yes, "yes", false, "do not ask")
	f.BoolVar(&opts.undo, "undo", false, "restore the original entries")
	cli.MainFlags(cmd, "dry-run", "only", "undo", "yes", "json")
	return cmd
}

// check replaces the hosts in args by their names, and returns an error for hosts that are unknown and for global flags without a meaning here.
func check(cmd *cobra.Command, args []string) error {
	for i, host := range args {
		h, err := cli.FindHost(host, "unknown host %q")
		if err != nil {
			return err
		}
		args[i] = h.Name
	}
	for flag, hint := range map[string]string{
		"config": "it reads and writes the configs of hosts",
		"host":   "mcptrack " + cmd.Name() + " HOST selects a host",
	} {
		if cmd.Flags().Changed(flag) {
			return cli.UsageHint(hint, "%s does not use --%s", cmd.Name(), flag)
		}
	}
	return nil
}

func run(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) error {
	command, args := attach(env, false)
	if entry := config.Stdio("entry", command, args...); !entry.Attaches() {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "failed", Err: fmt.Errorf("this program is called %s; connected entries are recognised by the name mcptrack", printable.Line(filepath.Base(command), 100)),
			Hint: "rename the program to mcptrack; a link is not enough"}
	}
	s, unlock, err := openStore(ctx, env, opts.dryRun)
	if err != nil {
		return err
	}
	defer unlock()
	p, plans, err := prepare(env, g, opts, s)
	if err != nil {
		return err
	}
	r := reported(plans, opts.dryRun)
	if names, _ := r.changed(); len(names) > 0 && !opts.dryRun {
		if !opts.yes {
			if err := ask(ctx, env, &r, plans); err != nil {
				return err
			}
		}
		if err := p.write(plans, s); err != nil {
			return err
		}
		r.Written = true
	}
	r.Summary = p.summary(ctx, plans)
	return r.print(env, g)
}

// ask asks whether to write the plans. Files that change while it asks are not written.
func ask(ctx context.Context, env *cli.Env, r *report, plans []*plan) error {
	text := []string{""}
	for _, p := range plans {
		if len(p.entries) > 0 {
			text = append(text, p.diff())
		}
	}
	switch err := env.Ask(ctx, strings.Join(append(text, r.unshared()), "\n"), "Change "+r.what()+"?"); {
	case errors.Is(err, cli.ErrNoTerminal):
		return cli.UsageHint("use --yes to change the configs, or --dry-run to see the changes", "connect asks for confirmation, but there is no terminal")
	case errors.Is(err, cli.ErrDeclined):
		return &cli.Failure{Exit: cli.ExitFailed, Code: "declined", Err: errors.New("nothing was changed")}
	default:
		return err
	}
}

// hostOptions returns the options with which hosts' files are read.
func hostOptions(env *cli.Env, g *cli.Globals) (read config.Options, err error) {
	read = g.ConfigOptions(env)
	read.Keyring = nil
	read.Workspace, err = filepath.Abs(read.Workspace)
	return read, err
}

// prepare makes the plans of a run.
func prepare(env *cli.Env, g *cli.Globals, opts options, s store) (*planner, []*plan, error) {
	p := &planner{env: env, g: g, log: g.Logger(env), only: opts.only, allProjects: opts.allProjects, owns: map[string]*own{}}
	var err error
	if p.opts, err = hostOptions(env, g); err != nil {
		return nil, nil, err
	}
	if p.records, err = s.all(); err != nil {
		return nil, nil, err
	}
	if p.oneEach, err = daemon.ReadOneEach(filepath.Join(env.DaemonDir(), daemon.OneEachFile)); err != nil {
		p.log.Warn("cannot read which servers need a process for each session", "err", err)
	}
	any := p.opts
	any.AnyProject = true
	files := config.HostFiles(any, opts.hosts...)
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
