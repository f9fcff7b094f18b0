package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/completion"
	"github.com/mcptrack/mcptrack/commands/internal/draft"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/guarded"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/table"
)

type listOptions struct {
	cli.ConnectFlags
	daemon  cli.DaemonUse
	kind    catalog.Kind // item kind to list; empty lists the servers themselves
	servers []string
}

func newList(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts listOptions
	cmd := &cobra.Command{
		Use:   "list [KIND] [SERVER...]",
		Short: "List servers, or their resources, tools and other items",
		Long: `KIND is servers, resources, templates, prompts, tools, skills or events; the default is
servers.

Connects to all enabled servers in the config, or to the named ones, prints what they
offer, and exits. SERVER may also be the URL of a server that is in no config, or a domain
whose server card says where its servers are; see mcptrack init --help. A running daemon that follows the same config answers for them; see
mcptrack help daemon. Servers that do not support a kind list nothing. Tables also show
disabled servers. Events are the types of MCP Events that "events" in the config lists;
see mcptrack help events. Skills are shown with their number of files and their size;
--json has all files and their digests. Invalid skills are left out, and a warning says why;
so is a list that a server refuses, hangs on or dies of, if the server answers another one.

States are ready, needs login, not configured, not approved, disabled and failed; in JSON
they are those of events: Ready, NeedsAuth, Unconfigured, Unapproved, Disabled and Failed.
On a terminal long texts are shortened, unless -o wide is used; in a pipe never.

With -o template=... the template is run once for each server or item; numbers can be
compared, and missing keys print nothing.`,
		Example: `  mcptrack list
  mcptrack list tools docs
  mcptrack list tools https://docs.example/mcp
  mcptrack list events
  mcptrack list skills
  mcptrack list resources --demo
  mcptrack list resources --json | jq -r '.[].uri'
  mcptrack list -o 'template={{if .resources}}{{.id}} {{.resources}}{{end}}'`,
		ValidArgsFunction: completeList(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.kind, opts.servers = "", args
			if len(args) > 0 && slices.Contains(listKinds(), args[0]) {
				opts.servers = args[1:]
				if args[0] != "servers" {
					opts.kind = catalog.Kind(args[0])
				}
			}
			return opts.Run(cmd, func(ctx context.Context) error { return runList(ctx, env, g, opts) })
		},
	}
	opts.Add(cmd)
	opts.daemon.AddVerbose(cmd)
	g.AddDemo(cmd)
	return cmd
}

// listKinds returns the words that are valid as first argument.
func listKinds() []string {
	kinds := []string{"servers"}
	for _, k := range catalog.Kinds() {
		kinds = append(kinds, string(k))
	}
	return append(kinds, string(catalog.Events))
}

func runList(ctx context.Context, env *cli.Env, g *cli.Globals, opts listOptions) error {
	ids, addresses, err := opts.split(env, g)
	if err != nil {
		return err
	}
	cfg := &config.Config{}
	var servers []config.Server
	if len(addresses) == 0 || len(ids) > 0 {
		if cfg, err = g.Load(ctx, env, g.Logger(env)); err != nil {
			return err
		}
		cfg = g.Through(ctx, env, cfg)
		var misspelled []string // words that the first argument may have been meant as
		if opts.kind == "" {
			misspelled = listKinds()
		}
		if servers, err = cli.SelectServers(cfg, ids, misspelled...); err != nil {
			return err
		}
	}
	there, dial, err := reached(ctx, env, g, addresses)
	if err != nil {
		return err
	}
	servers = append(servers, there...)
	var kinds []catalog.Kind
	if opts.kind != "" {
		kinds = []catalog.Kind{opts.kind}
	}
	beside, answered, stop := cli.Asking(env, g, len(servers))
	defer stop()
	use := opts.daemon
	switch use.Own = opts.Own(); {
	case opts.kind == catalog.Events:
		use.Own = "it does not know which events servers offer"
	case len(addresses) > 0:
		use.Own = "it knows only the servers of its config"
	}
	reports, ok := askDaemon(ctx, env, g, use, servers, kinds)
	if !ok {
		reports = session.Probe(ctx, servers, session.ProbeOptions{
			Dial: dial, Session: opts.SessionOptions(beside, g), Kinds: kinds, Tracked: opts.kind == "", Progress: func(session.Report) { answered() }})
	}
	stop()
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), cli.ErrTimeout) {
		return ctx.Err()
	}
	if !g.Demo() && len(addresses) == 0 {
		remember(env, cfg.Path, func(n completion.Names) {
			for _, r := range reports {
				for kind, list := range r.Lists {
					n.Learn(r.Server.ID, kind, list)
				}
				if r.Err == nil {
					n.Use(r.Server)
				}
			}
		})
	}
	shown := reports
	if g.Format.Table() && opts.kind == "" && len(opts.servers) == 0 {
		shown = withDisabled(reports, cfg)
	}
	if err := writeList(env, g, opts.kind, shown); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return unreachable(reports, g.Format.Table() && opts.kind == "")
}

// split divides the servers that the user named into ids of the config and addresses. An id of the config
// takes precedence over a domain.
func (o *listOptions) split(env *cli.Env, g *cli.Globals) (ids []string, addresses []servercard.Address, err error) {
	for _, text := range o.servers {
		if !servercard.IsAddress(text) {
			ids = append(ids, text)
			continue
		}
		if !strings.Contains(text, "://") {
			cfg, err := g.Read(env, slog.New(slog.DiscardHandler))
			if err == nil && slices.ContainsFunc(cfg.Servers, func(srv config.Server) bool { return srv.ID == text }) {
				ids = append(ids, text)
				continue
			}
		}
		a, err := servercard.ParseAddress(text)
		if err != nil {
			return nil, nil, cli.Usage("SERVER: %w", err) // the text may contain a password
		}
		addresses = append(addresses, a)
	}
	return ids, addresses, nil
}

// reached returns the servers at addresses: the endpoint itself, if the user wrote a URL that may be one,
// and otherwise the servers that cards lead to. dial connects to them and to servers of the config.
func reached(ctx context.Context, env *cli.Env, g *cli.Globals, addresses []servercard.Address) ([]config.Server, session.DialFunc, error) {
	if len(addresses) == 0 {
		return nil, env.Dial, nil
	}
	d, guards := draft.New(), map[string]*guarded.Guard{} // by id
	for _, a := range addresses {
		found, err := (*servercard.Result)(nil), error(nil)
		if !a.Named || !a.Endpoint() {
			found, err = servercard.Discover(ctx, a, servercard.Options{})
		}
		if none, ok := errors.AsType[*servercard.NotFoundError](err); ok && a.Named && !none.Unreachable && !a.Document() {
			g.Logger(env).Info("no server card; trying the URL itself", "tried", len(none.Tried))
			err = nil // a server may be at the root of its host
		}
		switch {
		case err != nil:
			return nil, nil, noCard(err)
		case found == nil:
			if err := d.AddURL(a.URL); err != nil {
				return nil, nil, cli.Usage("%w", err)
			}
			continue
		}
		for _, id := range d.AddCards(a, found.Cards) {
			guards[id] = found.Guard
		}
		for _, c := range found.Cards {
			g.Logger(env).Info("server card", "url", c.From, "server", c.Label())
		}
	}
	text, err := d.Text()
	if err != nil {
		return nil, nil, err
	}
	cfg, problems := config.Parse(text, "the server card", g.ConfigOptions(env))
	if cfg == nil {
		return nil, nil, problems
	}
	return cfg.Servers, func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		if guard := guards[srv.ID]; guard != nil {
			if u, err := url.Parse(srv.URL.Reveal()); err == nil && !guard.Proxied(u) {
				opts.DialContext = guard.DialContext
			}
		}
		return env.Dialer()(ctx, srv, opts)
	}, nil
}

// withDisabled adds reports for the servers that are disabled in the config.
func withDisabled(reports []session.Report, cfg *config.Config) []session.Report {
	all := slices.Clone(reports)
	for _, srv := range cfg.Servers {
		if !srv.Enabled && srv.Transport != config.TransportCatalog {
			all = append(all, session.Report{Server: srv})
		}
	}
	slices.SortFunc(all, func(a, b session.Report) int { return strings.Compare(a.Server.ID, b.Server.ID) })
	return all
}

// unreachable returns a failure if any server could not be reached, and nil otherwise. reported
// means that the printed table already shows the failure.
func unreachable(reports []session.Report, reported bool) error {
	var failed []string
	for _, r := range reports {
		if r.Err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", r.Server.ID, r.Err))
		}
	}
	return cli.NotReached(failed, len(reports), reported)
}

// serverRow is an element of the array that list servers --json prints.
type serverRow struct {
	ID              string           `json:"id"`
	Transport       config.Transport `json:"transport"`
	State           event.State      `json:"state"`
	ProtocolVersion string           `json:"protocolVersion"`
	Era             session.Era      `json:"era"`
	ServerName      string           `json:"serverName"`
	ServerVersion   string           `json:"serverVersion"`
	Tracked         bool             `json:"tracked"`
	Capabilities    any              `json:"capabilities"`
	Resources       int              `json:"resources"`
	Templates       int              `json:"templates"`
	Prompts         int              `json:"prompts"`
	Tools           int              `json:"tools"`
	Skills          int              `json:"skills"`
	Error           string           `json:"error,omitempty"`
}

func newServerRow(r session.Report) serverRow {
	row := serverRow{ID: r.Server.ID, Transport: r.Info.Transport, State: r.State(),
		ProtocolVersion: r.Info.ProtocolVersion, Era: r.Info.Era,
		ServerName: r.Info.ServerName, ServerVersion: r.Info.ServerVersion,
		Tracked: r.Server.Tracked(), Capabilities: map[string]any{},
		Resources: len(r.Lists[catalog.Resources]), Templates: len(r.Lists[catalog.Templates]),
		Prompts: len(r.Lists[catalog.Prompts]), Tools: len(r.Lists[catalog.Tools]), Skills: len(r.Lists[catalog.Skills])}
	if row.Transport == "" {
		row.Transport = r.Server.Transport
	}
	if len(r.Info.RawCapabilities) > 0 {
		row.Capabilities = r.Info.RawCapabilities
	}
	if r.Err != nil {
		row.Error = r.Err.Error()
	}
	return row
}

func writeList(env *cli.Env, g *cli.Globals, kind catalog.Kind, reports []session.Report) error {
	tables := g.Tables(env)
	switch {
	case g.Format.Table() && kind == "":
		return table.Servers(env.Out, reports, tables)
	case g.Format.Table():
		return table.Items(env.Out, kind, reports, tables)
	case g.Format.Name == "name":
		return writeNames(env, kind, reports)
	case kind == "":
		rows := make([]serverRow, 0, len(reports))
		for _, r := range reports {
			rows = append(rows, newServerRow(r))
		}
		return document.Write(env.Out, g.Format, rows)
	}
	items, err := listItems(kind, reports)
	if err != nil {
		return err
	}
	return document.Write(env.Out, g.Format, items)
}

// listItems returns the items as the servers sent them, each with a leading serverId. Object
// members keep their order and formatting.
func listItems(kind catalog.Kind, reports []session.Report) ([]json.RawMessage, error) {
	items := []json.RawMessage{}
	for _, r := range reports {
		id, err := json.Marshal(r.Server.ID)
		if err != nil {
			return nil, err
		}
		for _, it := range sorted(kind, r) {
			invalid := ""
			if kind == catalog.Tools {
				invalid = r.Invalid[it.Key]
			}
			item, err := withServer(id, invalid, it.Raw)
			if err != nil {
				return nil, fmt.Errorf("server %s: %w", r.Server.ID, err)
			}
			items = append(items, item)
		}
	}
	return items, nil
}

// withServer inserts serverId, and invalid unless it is empty, before the members of an object. It
// drops existing members with these names.
func withServer(id []byte, invalid string, raw json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	_, has := members["serverId"]
	_, claims := members["invalid"]
	if has || claims && invalid != "" {
		delete(members, "serverId")
		if invalid != "" {
			delete(members, "invalid")
		}
		var err error
		if raw, err = json.Marshal(members); err != nil {
			return nil, err
		}
	}
	out := append([]byte(`{"serverId":`), id...)
	if invalid != "" {
		why, err := json.Marshal(invalid)
		if err != nil {
			return nil, err
		}
		out = append(append(out, `,"invalid":`...), why...)
	}
	rest := bytes.TrimSpace(raw)[1:]
	if len(members) > 0 {
		out = append(out, ',')
	}
	return append(out, rest...), nil
}

// sorted returns the items of one kind, sorted by name or URI.
func sorted(kind catalog.Kind, r session.Report) catalog.List {
	return slices.SortedFunc(slices.Values(r.Lists[kind]), func(a, b catalog.Item) int { return strings.Compare(a.Key, b.Key) })
}

// writeNames writes the id of each server or, for each item, the server's id, a tab, and the item's
// URI or name.
func writeNames(env *cli.Env, kind catalog.Kind, reports []session.Report) error {
	var b strings.Builder
	for _, r := range reports {
		id := printable.Line(r.Server.ID, 0)
		if kind == "" {
			b.WriteString(id + "\n")
		}
		for _, it := range sorted(kind, r) {
			b.WriteString(id + "\t" + printable.Line(it.Key, 0) + "\n")
		}
	}
	_, err := io.WriteString(env.Out, b.String())
	return err
}
