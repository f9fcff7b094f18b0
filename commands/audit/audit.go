// Package audit implements the audit command, which checks whether servers do what they say.
//
// Rules are a table (rules.go), from which the help topic audit-rules is made. What a server offers is
// checked by pure functions (items.go, schema.go); how it answers, with a session (server.go, probe.go)
// and, over HTTP, with requests that a session does not send (http.go).
//
// An audit has no effects: the tool that it calls, and the prompt and the resource that it asks for, are
// ones that no server has. Everything that a server sends is untrusted. Each request, and the audit of each server, has
// a time limit; servers are audited concurrently.
//
// Why no library for schemas: google/jsonschema-go checks neither the names of types nor patterns of
// ECMA-262, and santhosh-tekuri/jsonschema compiles the schemas of all dialects whenever mcptrack starts.
package audit

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/report"
	"github.com/mcptrack/mcptrack/output/table"
)

// Manual contains the help page of this package, as Markdown.
//
//go:embed *.md
var Manual embed.FS

type options struct {
	cli.ConnectFlags
	failOn, skip []string
	servers      []string
}

// Command returns the audit command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "audit [SERVER...]",
		Short: "Check whether servers do what they say",
		Long: `Checks whether servers do what they say: the same lists in every session, valid schemas,
working subscriptions, consistent annotations, no hidden characters, errors for what does
not exist and, over HTTP, logins and no access for pages of other sites.

An audit changes nothing: it calls and reads only what does not exist.

The command fails if it finds an error. --fail-on selects another severity, or rules by
id or name; --skip omits rules (see mcptrack help audit-rules). -o wide shows each
item of a finding; -o sarif and -o markdown are for CI.`,
		Example: `  mcptrack audit
  mcptrack audit --demo --fail-on note
  mcptrack audit docs --fail-on warning --skip title,A022
  mcptrack audit -o sarif > audit.sarif
  mcptrack audit --json | jq -r '.findings[].message'`,
		ValidArgsFunction: cli.CompleteServerArgs(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.servers = args
			return opts.Run(cmd, func(ctx context.Context) error { return run(ctx, env, g, opts) })
		},
	}
	opts.Add(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&opts.failOn, "fail-on", []string{string(lock.Error)}, "fail on this severity (error, warning, note) or worse, or on these `RULES`")
	f.StringSliceVar(&opts.skip, "skip", nil, "omit these `RULES`, by id or name")
	var names []string
	for _, r := range rules() {
		names = append(names, cobra.CompletionWithDesc(r.ID, r.Name))
	}
	complete := func(flag string, choices []string) {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
	}
	complete("fail-on", append([]string{"error", "warning", "note"}, names...))
	complete("skip", names)
	g.AddDemo(cmd)
	g.AddReports(cmd)
	cli.MainFlags(cmd, "output", "fail-on", "skip", "demo", "timeout")
	return cmd
}

// maxServers limits how many servers are audited concurrently.
const maxServers = 16

func run(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) error {
	fails, err := selection("fail-on", opts.failOn, severities())
	if err != nil {
		return err
	}
	skips, err := selection("skip", opts.skip, nil)
	if err != nil {
		return err
	}
	cfg, err := g.Load(ctx, env, g.Logger(env))
	if err != nil {
		return err
	}
	cfg = g.Through(ctx, env, cfg)
	servers, err := cli.SelectServers(cfg, opts.servers)
	if err != nil {
		return err
	}
	beside, answered, stop := cli.Asking(env, g, servers)
	defer stop()
	a := auditor{env.Dialer(), opts.SessionOptions(beside, g)}
	results := make([]*result, len(servers))
	var group errgroup.Group
	group.SetLimit(maxServers)
	for i, srv := range servers {
		group.Go(func() error {
			results[i] = a.run(ctx, srv)
			answered(srv.ID)
			return nil
		})
	}
	_ = group.Wait() // no function fails
	stop()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), cli.ErrTimeout) {
		return ctx.Err()
	}
	rep := newReport(env, cfg, results, fails, skips)
	written, err := g.WriteReport(env.Out, func() *report.Report { return rep })
	if !written && err == nil {
		err = g.Print(env, newOutput(rep, results, g.Format.Wide()))
	}
	if err != nil {
		return err
	}
	return outcome(ctx, rep, len(servers))
}

// outcome returns the failure that a report means for the command, or nil.
func outcome(ctx context.Context, rep *report.Report, servers int) error {
	failing := 0
	for _, f := range rep.Findings {
		if !f.Accepted {
			failing++
		}
	}
	if failing > 0 {
		return &cli.Failure{Exit: cli.ExitFound, Code: "found", Err: fmt.Errorf("%s that --fail-on selects", cli.Plural(failing, "finding")),
			Hint: "mcptrack help audit-rules says what to do about each"}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var failed []string
	for _, f := range rep.Failures {
		failed = append(failed, f.Server+": "+f.Reason)
	}
	return cli.NotReached(failed, servers, false)
}

func severities() (names []string) {
	for _, s := range lock.Severities() {
		names = append(names, string(s))
	}
	return names
}

// selection returns the ids of the rules that the values of a flag select. A severity, if the flag
// accepts any, selects its rules and the rules of worse ones.
func selection(flag string, values, severe []string) (map[string]bool, error) {
	selected := map[string]bool{}
	for _, value := range values {
		worst := slices.Index(severe, value)
		if rule, ok := find(value); ok {
			selected[rule.ID] = true
			continue
		}
		if worst < 0 {
			candidates := slices.Clone(severe)
			for _, r := range rules() {
				candidates = append(candidates, r.ID, r.Name)
			}
			return nil, cli.UsageHint(cli.DidYouMean(value, candidates, "mcptrack help audit-rules lists the rules"), "--%s: there is no rule %q", flag, printable.Line(value, 60))
		}
		for _, r := range rules() {
			if slices.Index(severe, string(r.Severity)) <= worst {
				selected[r.ID] = true
			}
		}
	}
	return selected, nil
}

// newReport returns the report on all servers. Findings of rules in skips are omitted; findings of rules
// that are not in fails are accepted.
func newReport(env *cli.Env, cfg *config.Config, results []*result, fails, skips map[string]bool) *report.Report {
	rep := &report.Report{Command: "audit", Version: env.Version, Place: report.Location{File: cfg.Path, Line: 1},
		Advice: "`mcptrack help audit-rules` says what to do about each rule."}
	for _, rule := range rules() {
		rep.Rules = append(rep.Rules, report.Rule(rule))
	}
	rep.Root, _ = os.Getwd() // without it, files are reported by their names
	located := cli.Located(cfg)
	for _, r := range results {
		place := located(r.srv.ID)
		if r.err != nil {
			rep.Failures = append(rep.Failures, report.Failure{Server: r.srv.ID, Reason: reason(r.err)})
		} else {
			rep.Servers = append(rep.Servers, r.srv.ID)
		}
		for _, f := range r.findings {
			rule, _ := find(f.rule)
			if skips[rule.ID] {
				continue
			}
			rep.Findings = append(rep.Findings, report.Finding{Server: r.srv.ID, Item: f.item, Rule: rule.ID, Severity: rule.Severity,
				Message: f.message, Help: rule.Help, Location: place, Accepted: !fails[rule.ID]})
		}
	}
	sort.SliceStable(rep.Findings, func(i, j int) bool {
		a, b := &rep.Findings[i], &rep.Findings[j]
		return cmp.Or(strings.Compare(a.Server, b.Server), a.Severity.Rank()-b.Severity.Rank(),
			strings.Compare(a.Rule, b.Rule), strings.Compare(a.Message, b.Message), strings.Compare(a.Item, b.Item)) < 0
	})
	return rep
}

// document is what audit --json prints.
type document struct {
	Passed      bool      `json:"passed"`
	Servers     []audited `json:"servers"`
	Findings    []shown   `json:"findings"`
	Unreachable []string  `json:"unreachable"` // ids; the reasons are on stderr
}

type audited struct {
	ID              string      `json:"id"`
	Era             session.Era `json:"era"`
	OtherEra        session.Era `json:"otherEra,omitempty"`
	ProtocolVersion string      `json:"protocolVersion"`
	Tools           int         `json:"tools"`
	Prompts         int         `json:"prompts"`
	Templates       int         `json:"templates"`
	Resources       int         `json:"resources"`
	ToolBytes       int         `json:"toolBytes"`
	ToolTokens      int         `json:"toolTokens"`
}

type shown struct {
	ServerID string        `json:"serverId"`
	Item     string        `json:"item,omitempty"`
	ID       string        `json:"id"`
	Rule     string        `json:"rule"`
	Severity lock.Severity `json:"severity"`
	Message  string        `json:"message"`
	Help     string        `json:"help"`
	Fails    bool          `json:"fails"`
	items    []string      // of all findings that a row of the table shows
}

// newOutput returns what the command prints: a table with a row for each finding or, unless it is wide, for
// several that differ only in their items, and a line for each server and for all.
func newOutput(rep *report.Report, results []*result, wide bool) table.Output {
	doc := document{Passed: true, Servers: []audited{}, Findings: []shown{}, Unreachable: []string{}}
	out := table.Output{Names: []string{}}
	var rows []shown
	for _, f := range rep.Findings {
		rule, _ := find(f.Rule)
		s := shown{f.Server, f.Item, f.Rule, rule.Name, f.Severity, f.Message, f.Help, !f.Accepted, nil}
		doc.Findings = append(doc.Findings, s)
		doc.Passed = doc.Passed && f.Accepted
		out.Names = append(out.Names, strings.TrimSpace(f.Server+" "+f.Rule+" "+f.Item))
		if last := len(rows) - 1; last < 0 || wide || !rows[last].alike(s) {
			rows = append(rows, s)
		}
		last := &rows[len(rows)-1]
		last.items = append(last.items, f.Item)
	}
	if len(rows) > 0 {
		out.Parts = []table.Part{table.Records(rows, func(s shown) []string {
			return []string{s.ServerID, string(s.Severity), s.ID, s.Rule, cli.Join(s.items, maxNamed), s.Message}
		}, "Server", "Severity", "Id", "Rule", "Item", "Finding").Roomy("Id").Wrapped(), table.Text("")}
	}
	for _, r := range results {
		if r.err != nil {
			continue
		}
		doc.Servers = append(doc.Servers, audited{r.srv.ID, r.info.Era, r.info.Other, r.info.ProtocolVersion,
			r.counts[catalog.Tools], r.counts[catalog.Prompts], r.counts[catalog.Templates], r.counts[catalog.Resources],
			r.sizes[catalog.Tools], r.sizes[catalog.Tools] / bytesPerToken})
		out.Parts = append(out.Parts, table.Text("%s: %s", printable.Line(r.srv.ID, 0), r.summary()))
	}
	for _, f := range rep.Failures {
		doc.Unreachable = append(doc.Unreachable, f.Server)
		doc.Passed = false
	}
	out.Document, out.Parts = doc, append(out.Parts, table.Text("%s", rep.Summary()))
	return out
}

func (s shown) alike(other shown) bool {
	return s.ServerID == other.ServerID && s.Rule == other.Rule && s.Message == other.Message
}

// maxNamed is how many items a row of a table names.
const maxNamed = 2

// summary says what was audited of a server.
func (r *result) summary() string {
	var parts []string
	for _, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Templates, catalog.Resources} {
		if n := r.counts[k]; n > 0 {
			parts = append(parts, cli.Plural(n, strings.TrimSuffix(string(k), "s")))
		}
	}
	text := cmp.Or(strings.Join(parts, ", "), "no items")
	if n := r.sizes[catalog.Tools]; n > 0 {
		text += fmt.Sprintf("; its tools take %d bytes, about %d tokens, of every conversation", n, n/bytesPerToken)
	}
	return text + "; version " + r.info.ProtocolVersion + eras(r.info)
}

func eras(info session.Info) string {
	if info.Other == "" {
		return ""
	}
	return " and the " + string(info.Other) + " era"
}
