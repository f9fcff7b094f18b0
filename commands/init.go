package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/draft"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/trust"
	"github.com/mcptrack/mcptrack/output/table"
)

type initOptions struct {
	file               string
	from               []string // names of hosts, and addresses; empty means all hosts
	dryRun, force, yes bool
}

func newInit(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts initOptions
	cmd := &cobra.Command{
		Use:   "init [FILE]",
		Short: "Create a config from the configs of your editors and agents",
		Long: `Writes one config with the servers of your editors and agents, and "trackResources": true
for each. The default FILE is ` + cli.DefaultConfig + `. init starts no server, does not
change the configs that it reads, and asks before it writes.

--from-host selects editors and agents. It also takes the domain or URL of servers that
publish a server card. A value that a card asks for becomes a variable, such as
${MCP_API_EXAMPLE__AUTHORIZATION}.

Secrets in plain text become references such as ${API_KEY}; init prints which variables to
set. It also approves what the new config runs (see mcptrack help trust). Without a
terminal it needs --yes.`,
		Example: `  mcptrack init
  mcptrack init --dry-run --from-host cursor,claude-code
  mcptrack init --from-host https://docs.example/mcp,cursor
  mcptrack init --yes --force config/mcp-servers.json && mcptrack watch`,
		Args:              cli.Args(0, 1),
		ValidArgsFunction: cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.file, opts.from = cli.DefaultConfig, cli.SplitList(opts.from)
			if len(args) == 1 {
				opts.file = args[0]
			}
			if err := opts.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return runInit(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	for _, name := range []string{"from-host", "from"} {
		f.StringSliceVar(&opts.from, name, nil, "read only these `HOSTS`, domains and URLs")
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(hosts.Names(), cobra.ShellCompDirectiveNoFileComp))
	}
	_ = f.MarkHidden("from") // the older name
	f.BoolVar(&opts.dryRun, "dry-run", false, "print the config; write nothing")
	f.BoolVar(&opts.force, "force", false, "replace FILE if it exists")
	f.BoolVar(&opts.yes, "yes", false, "do not ask")
	cli.MainFlags(cmd, "from-host", "dry-run", "force", "yes")
	return cmd
}

// check returns an error for invalid usage. changed reports whether a flag was given.
func (o *initOptions) check(changed func(flag string) bool) error {
	shown := printable.Line(o.file, 200)
	info, err := os.Stat(o.file)
	switch ext := strings.ToLower(filepath.Ext(o.file)); {
	case o.file == "-":
		return cli.UsageHint("--dry-run prints the config to stdout", "init cannot write to stdout")
	case err == nil && info.IsDir():
		return cli.UsageHint("mcptrack init "+printable.Line(filepath.Join(o.file, "mcp-servers.json"), 200), "%s is a folder", shown)
	case ext != "" && ext != ".json" && ext != ".jsonc":
		return cli.UsageHint("init writes JSON; choose a name such as FILE.json", "%s does not end in .json", shown)
	case changed("config"):
		return cli.UsageHint("mcptrack init FILE specifies the file to write; --from-host HOST selects what is read", "init does not use --config")
	case changed("host"):
		return cli.UsageHint("--from-host HOST selects whose configs are read", "init does not use --host")
	}
	if filepath.IsLocal(o.file) {
		here, err := trust.Resolved(".")
		there, err2 := trust.Resolved(filepath.Dir(o.file))
		if inside, err3 := filepath.Rel(here, there); errors.Join(err, err2, err3) != nil || !filepath.IsLocal(inside) {
			return cli.UsageHint("specify the file by its real path", "%s leads out of this folder through a symbolic link", shown)
		}
	}
	for i, name := range o.from {
		if servercard.IsAddress(name) {
			if _, err := servercard.ParseAddress(name); err != nil {
				return cli.Usage("--from-host: %w", err)
			}
			continue
		}
		h, err := cli.FindHost(name, "unknown host %q in --from-host")
		if err != nil {
			return err
		}
		o.from[i] = h.Name
	}
	return nil
}

// initReport is the document that init --json prints.
type initReport struct {
	File      string           `json:"file"`
	Written   bool             `json:"written"`
	Sources   []draft.Source   `json:"sources"`
	Variables []draft.Variable `json:"variables"`
	Config    *draft.Draft     `json:"config,omitzero"` // set with --dry-run
}

func runInit(ctx context.Context, env *cli.Env, g *cli.Globals, opts initOptions) error {
	if !opts.dryRun {
		if err := draft.Check(opts.file, opts.force); err != nil {
			return notWritable(err)
		}
	}
	read := g.ConfigOptions(env)
	d, err := opts.collect(ctx, read)
	if err != nil {
		return err
	}
	if d.Len() == 0 {
		return noHostServers(read, opts, d)
	}
	text, err := d.Text()
	if err != nil {
		return err
	}
	report := initReport{File: opts.file, Sources: d.Sources, Variables: d.Variables}
	if opts.dryRun {
		report.Config = d
	}
	if g.Format.Table() {
		w := env.Out
		if opts.dryRun { // stdout is reserved for the config
			w = env.Err
		}
		if err := table.Write(w, g.Format, table.Output{Parts: report.parts()}, table.Options{}); err != nil {
			return err
		}
	}
	if !opts.dryRun {
		if err := opts.confirm(ctx, env, text, read); err != nil {
			return err
		}
		if err := draft.Write(opts.file, opts.force, text); err != nil {
			return notWritable(err)
		}
		report.Written = true
		opts.approve(env, g, text, g.Logger(env))
	}
	done := table.Text("\n%s: written, %s", printable.Line(opts.file, 0), cli.Plural(d.Len(), "server"))
	if opts.dryRun {
		done = table.Text("%s", strings.TrimSuffix(string(text), "\n"))
	}
	if err := g.Print(env, table.Output{Document: report, Names: []string{opts.file}, Parts: []table.Part{done}}); err != nil {
		return err
	}
	if n := unusable(opts.file, read); n > 0 && report.Written && g.Format.Table() && !g.Quiet {
		fmt.Fprintf(env.Err, "hint: %s cannot be used here yet; mcptrack validate %s shows what is missing\n", cli.Plural(n, "server"), printable.Line(opts.file, 200))
	}
	return nil
}

// collect returns the servers of the hosts and addresses that --from-host names, or of all hosts.
func (o *initOptions) collect(ctx context.Context, read config.Options) (*draft.Draft, error) {
	d := draft.New()
	names := slices.DeleteFunc(slices.Clone(o.from), servercard.IsAddress)
	if len(o.from) == 0 || len(names) > 0 {
		d.AddHosts(read, o.file, names...)
	}
	for _, text := range o.from {
		if !servercard.IsAddress(text) {
			continue
		}
		address, err := servercard.ParseAddress(text)
		if err != nil {
			return nil, cli.Usage("--from-host: %w", err)
		}
		found, err := servercard.Discover(ctx, address, servercard.Options{})
		if err != nil {
			return nil, noCard(err)
		}
		before := len(d.Sources)
		if d.AddCards(address, slices.Concat(found.Cards, found.Refused)); !slices.ContainsFunc(d.Sources[before:], func(s draft.Source) bool { return s.Valid }) {
			return nil, &cli.Failure{Exit: cli.ExitRefused, Code: "refused",
				Err: fmt.Errorf("the server card at %s cannot be used: %s", d.Sources[before].File, strings.Join(d.Sources[before].Refused, "; "))}
		}
	}
	return d, nil
}

// noCard adds an exit code and a hint to an error of a search for server cards.
func noCard(err error) error {
	none, ok := errors.AsType[*servercard.NotFoundError](err)
	switch {
	case !ok:
		return err
	case none.Unreachable:
		return &cli.Failure{Exit: cli.ExitUnreachable, Code: "unreachable", Err: err}
	}
	return &cli.Failure{Exit: cli.ExitRefused, Code: "no_card", Err: err,
		Hint: "if you know the URL of the server, write it into a config: {\"servers\": [{\"id\": \"NAME\", \"url\": \"URL\"}]}"}
}

// unusable counts the servers in a new config that need something this machine does not have, such
// as a variable.
func unusable(file string, read config.Options) (n int) {
	cfg, _ := config.Load(file, read)
	if cfg == nil {
		return 0
	}
	for i := range cfg.Servers {
		if srv := &cfg.Servers[i]; srv.Enabled && srv.Unconfigured() != nil {
			n++
		}
	}
	return n
}

// notWritable returns the failure for a file that cannot be written.
func notWritable(err error) error {
	if errors.Is(err, draft.ErrExists) {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "exists", Err: err, Hint: "use --force to replace it, or --dry-run to see what would be written"}
	}
	return &cli.Failure{Exit: cli.ExitFailed, Code: "not_written", Err: err, Hint: "use --dry-run to see what would be written"}
}

// noHostServers returns the failure that no host has servers.
func noHostServers(read config.Options, opts initOptions, d *draft.Draft) error {
	var searched []string
	for _, h := range hosts.All() {
		if len(opts.from) == 0 || slices.Contains(opts.from, h.Name) {
			searched = append(searched, h.Paths(read.Folders())...)
		}
	}
	f := &cli.Failure{Exit: cli.ExitConfig, Code: "config_missing", Searched: searched,
		Err:  fmt.Errorf("no host has a config with MCP servers here (searched %s; mcptrack help environment lists them)", cli.Plural(len(searched), "place")),
		Hint: "write config/mcp-servers.json yourself (mcptrack help config shows how), or try mcptrack watch --demo"}
	for _, s := range d.Sources {
		if !s.Valid {
			f.Code, f.Hint = "config_invalid", "mcptrack validate "+printable.Line(s.File, 200)+" shows the problems of this config"
		}
	}
	return f
}

// parts returns the report for people.
func (r *initReport) parts() []table.Part {
	parts := []table.Part{table.Records(r.Sources, func(s draft.Source) []string {
		names := cli.Join(s.Servers, 8)
		switch {
		case s.Valid:
		case len(s.Refused) == 0:
			names = "invalid; mcptrack validate shows why"
		case len(s.Servers) == 0:
			names = "left out, see below"
		default:
			names += fmt.Sprintf("; %d left out, see below", len(s.Refused))
		}
		return []string{s.Host, s.File, names}
	}, "Host", "File", "Servers")}
	var set, asked, refused []string
	for _, v := range r.Variables {
		if v.Line == 0 {
			asked = append(asked, fmt.Sprintf("set %s: %s", v.Name, v.About))
		} else {
			set = append(set, fmt.Sprintf("set %s; its value is in %s:%d", v.Name, printable.Line(v.File, 200), v.Line))
		}
	}
	for _, s := range r.Sources {
		for _, why := range s.Refused {
			refused = append(refused, s.File+": "+why)
		}
	}
	list := func(title string, lines []string) {
		var once []string
		for _, line := range lines {
			if !slices.Contains(once, line) {
				once = append(once, line)
			}
		}
		if len(once) > 0 {
			parts = append(parts, table.Text("\n%s:\n  %s", title, strings.Join(once, "\n  ")))
		}
	}
	list("Secrets in plain text become references", set)
	list("Server cards ask for these values", asked)
	list("Left out", refused)
	return parts
}

// confirm shows what the config would run and send, and asks whether to write it.
func (o *initOptions) confirm(ctx context.Context, env *cli.Env, text []byte, read config.Options) error {
	if o.yes {
		return nil
	}
	read.Keyring = nil
	cfg, problems := config.Parse(text, o.file, read)
	if cfg == nil {
		return problems
	}
	var b bytes.Buffer
	for _, e := range cli.Entries(cfg) {
		e.Show(&b)
	}
	switch err := env.Ask(ctx, b.String(), fmt.Sprintf("Write %s with %s, and approve that?", printable.Line(o.file, 200), cli.Plural(len(cfg.Servers), "server"))); {
	case errors.Is(err, cli.ErrNoTerminal):
		return cli.UsageHint("use --yes to write the config, or --dry-run to print it", "init asks for confirmation, but there is no terminal")
	case errors.Is(err, cli.ErrDeclined):
		return &cli.Failure{Exit: cli.ExitFailed, Code: "declined", Err: errors.New("nothing was written")}
	default:
		return err
	}
}

// approve stores the user's approval of the written config for the folder in which commands will
// find it.
func (o *initOptions) approve(env *cli.Env, g *cli.Globals, text []byte, log *slog.Logger) {
	written := *g
	written.Workspace, written.Config = config.FolderOf(o.file), ""
	if written.Workspace == "" {
		return // commands find the config only by an explicit path, which needs no approval
	}
	p, err := written.Permission(env, o.file)
	if err == nil && p.Needed {
		opts := written.ConfigOptions(env)
		opts.Keyring = nil
		cfg, problems := config.Parse(text, o.file, opts)
		if err = problems.Err(); err == nil {
			err = p.Approve(cli.Entries(cfg))
		}
	}
	if err != nil {
		log.Warn("the approval of the config cannot be stored", "err", err, "hint", "mcptrack trust approves it")
	}
}
