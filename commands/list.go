package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"sort"
	"strconv"
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
	"github.com/mcptrack/mcptrack/core/skill"
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
		Long: `Connects to the servers of the config, prints what they offer, and exits. KIND is
servers (the default), resources, templates, prompts, tools, skills or events. SERVER is
a name in the config, or the URL or domain of a server that is in no config.

The table shortens long texts on a terminal; -o wide does not. -o template=... applies to
each server or item. For events, see mcptrack help events.`,
		Example: `  mcptrack list
  mcptrack list tools docs
  mcptrack list tools https://docs.example/mcp
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
	cli.MainFlags(cmd, "json", "output", "timeout", "demo", "verbose")
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
	beside, answered, stop := cli.Asking(env, g, servers)
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
			Dial: dial, Session: opts.SessionOptions(beside, g), Kinds: kinds, Tracked: opts.kind == "", Progress: func(r session.Report) { answered(r.Server.ID) }})
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
			}
		})
	}
	shown := reports
	if g.Format.Table() && opts.kind == "" && len(opts.servers) == 0 {
		shown = withDisabled(reports, cfg)
	}
	out := serverList(shown)
	if opts.kind != "" {
		if out, err = itemList(opts.kind, shown); err != nil {
			return err
		}
	}
	none := "no " + string(opts.kind)
	switch {
	case len(reports) == 0:
		none = cli.NoServers(cfg)
	case !slices.ContainsFunc(reports, func(r session.Report) bool { return r.Err == nil }):
		none = "no server answered"
	}
	out.Parts[0] = out.Parts[0].Or("%s", none)
	if err := g.Print(env, out); err != nil {
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
	sort.Slice(all, func(i, j int) bool { return all[i].Server.ID < all[j].Server.ID })
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
	ID              string          `json:"id"`
	Transport       string          `json:"transport"`
	State           event.State     `json:"state"`
	ProtocolVersion string          `json:"protocolVersion"`
	Era             string          `json:"era"`
	ServerName      string          `json:"serverName"`
	ServerVersion   string          `json:"serverVersion"`
	Tracked         bool            `json:"tracked"`
	Capabilities    json.RawMessage `json:"capabilities"`
	Resources       int             `json:"resources"`
	Templates       int             `json:"templates"`
	Prompts         int             `json:"prompts"`
	Tools           int             `json:"tools"`
	Skills          int             `json:"skills"`
	Error           string          `json:"error,omitempty"`
}

func newServerRow(r session.Report) serverRow {
	s := cli.Probed(r)
	row := serverRow{s.ID, s.Transport, s.State, s.ProtocolVersion, s.Era, s.ServerName, s.ServerVersion, r.Server.Tracked(),
		r.Info.RawCapabilities, len(r.Lists[catalog.Resources]), s.Templates, s.Prompts, s.Tools, s.Skills, s.Error}
	if len(row.Capabilities) == 0 {
		row.Capabilities = json.RawMessage("{}")
	}
	return row
}

// serverList returns what list servers prints.
func serverList(reports []session.Report) table.Output {
	rows := make([]serverRow, 0, len(reports))
	skills := false // few servers have any
	for _, r := range reports {
		rows, skills = append(rows, newServerRow(r)), skills || len(r.Lists[catalog.Skills]) > 0
	}
	servers := cli.ServerTable(reports, cli.Probed, func(r session.Report) []string {
		row := newServerRow(r)
		cells := []string{row.Transport, row.ProtocolVersion, row.ServerName, row.ServerVersion, strconv.FormatBool(row.Tracked)}
		for _, kind := range catalog.Kinds() {
			count := ""
			if list, ok := r.Lists[kind]; ok {
				count = strconv.Itoa(len(list))
			}
			cells = append(cells, count)
		}
		return cells
	}, append([]string{"Transport", "Protocol", "Name", "Version", "Tracked"}, listKinds()[1:len(listKinds())-1]...)...)
	servers = servers.Roomy("Transport").Wide("Name", "Version", "Tracked")
	if !skills {
		servers = servers.Wide(string(catalog.Skills))
	}
	return table.Output{Document: rows, Parts: []table.Part{servers}}
}

// listed is an item of a server.
type listed struct {
	server, key string
	catalog.Descriptor
	raw     json.RawMessage
	invalid string // why the tool must not be called; empty if it may
}

// itemFields are the members that items of servers may have.
func itemFields() []string {
	return []string{"serverId", "invalid", "name", "title", "description", "icons", "annotations", "_meta", "uri", "mimeType", "size",
		"uriTemplate", "arguments", "inputSchema", "outputSchema", "execution", "files", "delivery", "payloadSchema"}
}

// itemList returns what list prints for a kind of items. Its document has the items as the servers sent
// them, each with a leading serverId.
func itemList(kind catalog.Kind, reports []session.Report) (table.Output, error) {
	out, items := table.Output{Fields: itemFields(), Names: []string{}}, []listed{}
	docs := []json.RawMessage{}
	for _, r := range reports {
		for _, it := range r.Lists[kind] {
			item := listed{server: r.Server.ID, key: it.Key, Descriptor: it.Describe(), raw: it.Raw}
			if kind == catalog.Tools {
				item.invalid = r.Invalid[it.Key]
			}
			doc, err := item.document()
			if err != nil {
				return out, fmt.Errorf("server %s: %w", r.Server.ID, err)
			}
			docs, items = append(docs, doc), append(items, item)
			out.Names = append(out.Names, item.server+"\t"+printable.Line(item.key, 0))
		}
	}
	var more func(listed) []string // cells between the key and the description
	heads := map[catalog.Kind][]string{
		catalog.Resources: {"URI", "Name", "Type", "Size"}, catalog.Templates: {"URI Template", "Name", "Type"},
		catalog.Skills: {"URI", "Name", "Files", "Size"}, catalog.Events: {"Event", "Delivery"}, catalog.Prompts: {"Name"}, catalog.Tools: {"Name"},
	}
	switch kind {
	case catalog.Resources:
		more = func(i listed) []string { return []string{i.Name, i.MimeType, i.bytes()} }
	case catalog.Templates:
		more = func(i listed) []string { return []string{i.Name, i.MimeType} }
	case catalog.Skills:
		more = func(i listed) []string { return append([]string{i.Name}, i.files()...) }
	case catalog.Events:
		more = func(i listed) []string { return []string{i.delivery()} }
	default:
		more = func(listed) []string { return nil }
	}
	of := table.Records(items, func(i listed) []string {
		description := i.Description
		if i.invalid != "" {
			description = "INVALID (" + i.invalid + ") " + description
		}
		return slices.Concat([]string{i.server, i.key}, more(i), []string{description})
	}, slices.Concat([]string{"Server"}, heads[kind], []string{"Description"})...)
	if kind == catalog.Resources || kind == catalog.Templates {
		of = of.Wide("Description")
	}
	out.Document, out.Parts = docs, []table.Part{of}
	return out, nil
}

// document returns the item with leading members serverId and, unless it is empty, invalid. Existing members
// with these names are dropped; the others keep their order and formatting.
func (i listed) document() (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(i.raw, &members); err != nil {
		return nil, err
	}
	ours, err := json.Marshal(struct {
		ServerID string `json:"serverId"`
		Invalid  string `json:"invalid,omitempty"`
	}{i.server, i.invalid})
	if err != nil {
		return nil, err
	}
	raw, all := i.raw, len(members)
	delete(members, "serverId")
	if i.invalid != "" {
		delete(members, "invalid")
	}
	if len(members) < all {
		if raw, err = json.Marshal(members); err != nil {
			return nil, err
		}
	}
	if ours = ours[:len(ours)-1]; len(members) > 0 {
		ours = append(ours, ',')
	}
	return append(ours, bytes.TrimSpace(raw)[1:]...), nil
}

// bytes returns the size of a resource.
func (i listed) bytes() string {
	if i.Size == nil {
		return ""
	}
	return strconv.FormatInt(*i.Size, 10)
}

// files returns the number and the size of a skill's files.
func (i listed) files() []string {
	e, err := skill.Parse(i.raw)
	switch {
	case err != nil:
		return []string{"", ""}
	case e.Dynamic():
		return []string{"generated", ""}
	}
	return []string{strconv.Itoa(len(e.Files)), strconv.FormatInt(e.Size(), 10)}
}

// delivery returns the delivery modes that an event type supports.
func (i listed) delivery() string {
	var t struct {
		Delivery []string `json:"delivery"`
	}
	_ = json.Unmarshal(i.raw, &t) // a malformed event type has no modes
	return strings.Join(t.Delivery, ", ")
}
