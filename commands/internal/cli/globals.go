package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracing"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/otlp"
	"github.com/mcptrack/mcptrack/output/table"
)

// Globals contains the flags that every command has.
type Globals struct {
	Config    string
	Host      string
	Workspace string // folder searched for a config; empty means the working directory
	trust     bool   // value of --trust: a found config is approved for this run
	approved  bool   // value of --approved: a named config needs approval, too
	noDaemon  bool   // value of --no-daemon
	insecure  bool   // value of --insecure-config
	limit     map[string]string
	logLevel  string
	logFormat string
	color     string
	output    string
	reports   []string // formats of a command with AddReports; nil unless its --output was given
	// reportFiles are the files of a command with AddReports, by format.
	reportFiles map[string]string
	JSON        bool
	Quiet       bool
	demo        bool // value of --demo of a command with AddDemo

	lastRead *config.Config // the config as it was last read; nil before that
	traces   *otlp.Export   // nil if nothing is traced; set by StartTraces

	Format document.Format // output format from --output or --json; set by Resolve
	level  slog.Level
	limits session.Limits // parsed from limit
}

func (g *Globals) AddFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&g.Config, "config", "", "config `FILE` (see mcptrack help environment)")
	f.StringVar(&g.Host, "host", "", "use the config of this `HOST`: an editor or agent, such as cursor")
	f.BoolVar(&g.trust, "trust", false, "approve this folder's config for this run (mcptrack help trust)")
	f.BoolVar(&g.insecure, "insecure-config", false, "read files that other users can change")
	f.BoolVar(&g.noDaemon, "no-daemon", false, "do not use a running daemon")
	f.StringVar(&g.logLevel, "log-level", "warn", "log `LEVEL`: debug, info, warn or error")
	f.StringVar(&g.logFormat, "log-format", "", "log `FORMAT`: text or json")
	f.StringVar(&g.color, "color", "auto", "`WHEN` to use colours: auto, always or never")
	f.StringVarP(&g.output, "output", "o", "", "output `FORMAT`: "+document.Choices()+" (default table)")
	f.BoolVar(&g.JSON, "json", false, "short for --output json")
	f.BoolVarP(&g.Quiet, "quiet", "q", false, "print no progress, hints or warnings")
	f.StringToStringVar(&g.limit, "limit", nil, limitUsage)
	f.Lookup("limit").Hidden = true // see mcptrack help limits
	complete := func(name string, choices ...string) {
		_ = root.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
	}
	complete("host", hosts.Names()...)
	complete("log-level", "debug", "info", "warn", "error")
	complete("log-format", "text", "json")
	complete("color", "auto", "always", "never")
	complete("output", document.Formats()...)
	_ = root.MarkPersistentFlagFilename("config", "json", "jsonc", "toml", "yaml", "yml")
}

// ForClient returns flags with which a client's config is read: the named config, or that of the
// named host, or the first one in the client's folder. approved is the value of --approved.
func (g *Globals) ForClient(config, host, folder string, approved bool) *Globals {
	return &Globals{Config: config, Host: host, Workspace: folder, approved: approved, level: g.level, Quiet: true}
}

// AddApproved adds --approved to a command that entries run which mcptrack connect writes into files of
// a project. The named config then is that of a project, so it needs approval like a config that was
// found in the project's folder, and this folder is the workspace.
func (g *Globals) AddApproved(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&g.approved, "approved", false, "start only what you have approved, also with --config; see mcptrack help trust")
}

// Approved reports whether --approved was given to a command with AddApproved.
func (g *Globals) Approved() bool { return g.approved }

// AddDemo adds --demo to a command that reads its config with Load or Read, which then return a
// config with only the built-in server.
func (g *Globals) AddDemo(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&g.demo, "demo", false, "use the built-in server demo; no config needed")
}

// Demo reports whether --demo was given to a command with AddDemo.
func (g *Globals) Demo() bool { return g.demo }

// Resolve validates the flags and sets the fields derived from them.
func (g *Globals) Resolve(env *Env) error {
	if g.JSON {
		if g.output != "" && g.output != "json" {
			return Usage("--json and --output %s cannot be used together", printable.Line(g.output, 40))
		}
		g.output = "json"
	}
	if g.output == "" {
		g.output = "table"
	}
	var err error
	if g.Format, err = document.ParseFormat(g.output, g.reports...); err != nil {
		return Usage("%w", err)
	}
	if err := cmp.Or(OneOf("log-level", g.logLevel, "debug", "info", "warn", "error"), OneOf("log-format", cmp.Or(g.logFormat, "text"), "text", "json"),
		OneOf("color", g.color, "auto", "always", "never"), g.level.UnmarshalText([]byte(g.logLevel)), g.resolveConfig()); err != nil {
		return err
	}
	if g.limits, err = parseLimits(g.limit); err != nil {
		return err
	}
	if g.Quiet && g.level < slog.LevelError {
		g.level = slog.LevelError
	}
	if g.Config == "" && g.Host == "" {
		g.Config = env.Getenv("MCPTRACK_CONFIG")
	}
	return nil
}

// StartTraces starts to send traces if the environment names a collector. Wrong variables are logged, and
// do not fail the command, because they may be meant for all programs of a machine.
func (g *Globals) StartTraces(ctx context.Context, env *Env) {
	var err error
	if g.traces, err = otlp.Start(ctx, env.LookupEnv, env.Version, g.Logger(env)); err != nil {
		g.Logger(env).Warn("no traces are sent", "err", err)
	}
}

// Tracer returns the tracer of StartTraces, or nil if nothing is traced.
func (g *Globals) Tracer() *tracing.Tracer {
	if g.traces == nil {
		return nil
	}
	return g.traces.Tracer
}

// EndTraces sends the traces that are waiting, for two seconds at most.
func (g *Globals) EndTraces() {
	if g.traces != nil {
		g.traces.Close()
	}
}

// CheckHost returns an error if --host names no host.
func (g *Globals) CheckHost() error {
	if g.Host == "" {
		return nil
	}
	h, err := FindHost(g.Host, "unknown --host %q")
	g.Host = h.Name
	return err
}

// FindHost returns the host that a user named. unknown is the message, with a %q for the name, if there
// is none.
func FindHost(name, unknown string) (hosts.Host, error) {
	h, known := hosts.Find(name)
	if known {
		return h, nil
	}
	names := hosts.Names()
	hint := DidYouMean(name, names, "choose from "+Join(names, 30))
	longer := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, strings.ToLower(name)) })
	address := name
	if host, _, err := net.SplitHostPort(name); err == nil {
		address = host
	}
	if net.ParseIP(address) != nil || address == "localhost" {
		hint = "a HOST is an editor or agent; --addr is the address to listen on, for commands that listen"
	}
	if len(longer) > 1 {
		hint = "choose " + strings.Join(longer, " or ")
	}
	return h, UsageHint(hint, unknown, printable.Line(name, 60))
}

// resolveConfig validates the flags that select the config.
func (g *Globals) resolveConfig() error {
	if err := g.CheckHost(); err != nil {
		return err
	}
	if g.Host != "" && g.Config != "" {
		return Usage("--host and --config cannot be used together")
	}
	if g.demo && (g.Host != "" || g.Config != "") {
		name := "--config"
		if g.Host != "" {
			name = "--host"
		}
		return UsageHint("remove "+name+" or --demo", "--demo uses a built-in server and no config; it cannot be used with %s", name)
	}
	return nil
}

// Print writes what a one-shot command prints to stdout. What is longer than a terminal is shown in a pager.
func (g *Globals) Print(env *Env, out table.Output) error {
	var text bytes.Buffer
	if err := table.Write(&text, g.Format, out, g.Tables(env)); err != nil {
		return err
	}
	if env.Page != nil && env.Size != nil {
		if _, rows := env.Size(); rows > 0 && bytes.Count(text.Bytes(), []byte("\n")) >= rows {
			env.Page(text.String())
			return nil
		}
	}
	_, err := text.WriteTo(env.Out)
	return err
}

// Write writes a result in the output format: it calls table for a table, writes names one per
// line, or writes doc as a document. Commands that print tables of records use Print.
func (g *Globals) Write(w io.Writer, names []string, doc any, text func() error) error {
	if g.Format.Table() {
		return text()
	}
	return table.Write(w, g.Format, table.Output{Document: doc, Names: names}, table.Options{})
}

// Tables returns the options for tables on stdout.
func (g *Globals) Tables(env *Env) table.Options {
	return table.Options{Wide: g.Format.Wide(), Width: env.Width(), Colour: g.Colours(env, env.OutTTY)}
}

// Tell prints a line to stderr for the user at a terminal: what a command does, or what to do next.
// It prints nothing with --quiet, or if stderr is no terminal. The arguments must be printable.
func (g *Globals) Tell(env *Env, format string, args ...any) {
	if env.ErrTTY && !g.Quiet {
		fmt.Fprintf(env.Err, format+"\n", args...)
	}
}

// WantsJSON reports whether failures must be reported as JSON, even if the command line could not
// be parsed.
func (g *Globals) WantsJSON(args []string) bool {
	if g.JSON || g.output == "json" {
		return true
	}
	for i, a := range args {
		if a == "--" {
			return false
		}
		if a == "--json" || a == "-ojson" || a == "--output=json" || a == "-o=json" ||
			(a == "-o" || a == "--output") && i+1 < len(args) && args[i+1] == "json" {
			return true
		}
	}
	return false
}

// Colours reports whether output to a stream is coloured. tty reports whether the stream is a
// terminal.
func (g *Globals) Colours(env *Env, tty bool) bool {
	switch g.color {
	case "always":
		return true
	case "never":
		return false
	}
	if v, ok := env.LookupEnv("NO_COLOR"); ok && v != "" {
		return false
	}
	if v := env.Getenv("CLICOLOR_FORCE"); v != "" && v != "0" {
		return true
	}
	return tty && env.Getenv("TERM") != "dumb"
}
