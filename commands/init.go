package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/table"
)

type initOptions struct {
	file               string
	from               []string // names of hosts; none means all
	dryRun, force, yes bool
}

func newInit(env *Env, g *globals) *cobra.Command {
	var opts initOptions
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a config from those of the editors and agents on this machine",
		Long: `Finds the configs of hosts (editors and agents that use MCP servers) in this folder
and for this user, prints what they have, and writes one config with all their servers
and "trackResources": true. The default FILE is ` + defaultConfig + `.

Nothing is started. The hosts' files are not changed. A secret in plain text becomes
a reference such as ${API_KEY}; what has to be set is printed. On a terminal init asks
before it writes; elsewhere it needs --yes. An existing FILE is only replaced with
--force.

Exit codes: 0 done; 1 failed (FILE exists); 2 wrong usage; 3 no host has servers;
130 interrupted.`,
		Example: `  mcptrack init
  mcptrack init --dry-run --from cursor,claude-code
  mcptrack init --yes --force config/mcp-servers.json && mcptrack watch`,
		Args:              arguments(0, 1),
		ValidArgsFunction: cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.file, opts.from = defaultConfig, globs(opts.from)
			if len(args) == 1 {
				opts.file = args[0]
			}
			if ext := strings.ToLower(filepath.Ext(opts.file)); ext != "" && ext != ".json" && ext != ".jsonc" {
				return usageHint("name it FILE.json", "init writes JSON, which %s would not be read as", printable.Line(opts.file, 200))
			}
			for _, name := range opts.from {
				if _, known := hosts.Find(name); !known {
					return usageHint(didYouMean(name, hosts.Names(), "choose from "+join(hosts.Names(), 30)), "unknown host %q in --from", printable.Line(name, 60))
				}
			}
			return runInit(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&opts.from, "from", nil, "only from these `HOSTS`, separated by commas")
	f.BoolVar(&opts.dryRun, "dry-run", false, "print the config to stdout and the rest to stderr, write nothing")
	f.BoolVar(&opts.force, "force", false, "replace FILE if it exists")
	f.BoolVar(&opts.yes, "yes", false, "do not ask")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(hosts.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// initReport is what init --json prints.
type initReport struct {
	File      string            `json:"file"`
	Written   bool              `json:"written"`
	Sources   []initSource      `json:"sources"`
	Variables []config.Variable `json:"variables"`
	Config    entries           `json:"config,omitzero"` // with --dry-run
}

// An initSource is one config of a host and the ids of its servers.
type initSource struct {
	Host    string   `json:"host"`
	File    string   `json:"file"`
	Valid   bool     `json:"valid"`
	Servers []string `json:"servers"`
}

func runInit(ctx context.Context, env *Env, g *globals, opts initOptions) error {
	read := g.configOptions(env)
	if _, err := os.Lstat(opts.file); err == nil && !opts.force && !opts.dryRun {
		return &failure{exit: exitFailed, code: "exists", err: fmt.Errorf("%s exists already", printable.Line(opts.file, 200)), hint: "--force replaces it, --dry-run shows what would be written"}
	}
	report, merged := collect(read, opts)
	if len(merged.servers) == 0 {
		return noHostServers(read, opts, report)
	}
	text, err := merged.document()
	if err != nil {
		return err
	}
	if opts.dryRun {
		report.Config = merged
	}
	if g.format.Table() {
		w := env.Out
		if opts.dryRun { // what is printed there is the config and nothing else
			w = env.Err
		}
		if err := report.write(w); err != nil {
			return err
		}
	}
	if !opts.dryRun {
		if err := opts.confirm(ctx, env, len(merged.servers)); err != nil {
			return err
		}
		if err := opts.write(text); err != nil {
			return err
		}
		report.Written = true
	}
	switch {
	case !g.format.Table():
		return document.Write(env.Out, g.format, report)
	case opts.dryRun:
		_, err = io.WriteString(env.Out, printable.Lines(string(text)))
	default:
		_, err = fmt.Fprintf(env.Out, "\n%s: written, %s\n", printable.Line(opts.file, 0), plural(len(merged.servers), "server"))
	}
	return err
}

// noHostServers is the failure if there is nothing to write.
func noHostServers(read config.Options, opts initOptions, report initReport) error {
	var searched []string
	for _, h := range hosts.All() {
		if len(opts.from) == 0 || slices.Contains(opts.from, h.Name) {
			searched = append(searched, h.Paths(read.Folders())...)
		}
	}
	f := &failure{exit: exitConfig, code: "config_missing", hint: "mcptrack watch --demo needs no config",
		err: errors.New("no config of a host with servers found; searched " + printable.Line(strings.Join(searched, ", "), 1800))}
	for _, s := range report.Sources {
		if !s.Valid {
			f.code, f.hint = "config_invalid", "mcptrack validate "+printable.Line(s.File, 200)+" shows its problems"
		}
	}
	return f
}

// collect reads the configs of the hosts and merges their servers. One that several
// hosts have in the same form is taken once; others of the same name get the host's.
func collect(read config.Options, opts initOptions) (initReport, entries) {
	report := initReport{File: opts.file, Sources: []initSource{}, Variables: []config.Variable{}}
	var (
		all   entries
		names config.Names
	)
	for _, f := range config.HostFiles(read, opts.from...) {
		if filepath.Clean(f.Path) == filepath.Clean(opts.file) {
			continue
		}
		read.Format = "" // --format is for a config that is named
		servers, problems := config.Import(f.Path, read, &names)
		source := initSource{Host: f.Host.Name, File: f.Path, Valid: problems.Errors() == 0, Servers: []string{}}
		for _, srv := range servers {
			source.Servers = append(source.Servers, srv.ID)
			if all.add(srv, f.Host.Name) {
				report.Variables = append(report.Variables, srv.Variables...)
			}
		}
		report.Sources = append(report.Sources, source)
	}
	return report, all
}

// write prints the report for people.
func (r *initReport) write(w io.Writer) error {
	var rows [][]string
	for _, s := range r.Sources {
		names := join(s.Servers, 8)
		if !s.Valid {
			names = "invalid; mcptrack validate shows why"
		}
		rows = append(rows, []string{s.Host, s.File, names})
	}
	if err := table.Rows(w, []string{"Host", "File", "Servers"}, rows); err != nil {
		return err
	}
	var set []string
	for _, v := range r.Variables {
		line := fmt.Sprintf("set %s; its value is in %s:%d", v.Name, printable.Line(v.File, 200), v.Line)
		if !slices.Contains(set, line) {
			set = append(set, line)
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nSecrets in plain text become references:\n  %s\n", strings.Join(set, "\n  "))
	return err
}

// confirm asks whether to write.
func (o *initOptions) confirm(ctx context.Context, env *Env, servers int) error {
	if o.yes {
		return nil
	}
	if !env.ErrTTY {
		return usageHint("--yes writes the config, --dry-run prints it", "init asks before it writes, but there is no terminal")
	}
	fmt.Fprintf(env.Err, "Write %s with %s? [y/N] ", printable.Line(o.file, 200), plural(servers, "server"))
	answer := make(chan string, 1) // sent to once, by the goroutine below
	go func() {                    // ends with the process if nobody answers: a terminal cannot be interrupted
		line, _ := bufio.NewReader(io.LimitReader(env.In, 1024)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		if line != "y" && line != "yes" {
			return &failure{exit: exitFailed, code: "declined", err: errors.New("nothing was written")}
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write puts the config in its place. Without --force a file that came to be meanwhile
// is kept.
func (o *initOptions) write(text []byte) error {
	if err := os.MkdirAll(filepath.Dir(o.file), 0o755); err != nil {
		return err
	}
	if o.force {
		return atomicfile.Write(o.file, 0o600, text)
	}
	f, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &failure{exit: exitFailed, code: "exists", err: fmt.Errorf("%s exists already", printable.Line(o.file, 200)), hint: "--force replaces it"}
	} else if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
