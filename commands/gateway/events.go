package gateway

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/tracing"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/metrics"
	"github.com/mcptrack/mcptrack/output/web"
	"github.com/mcptrack/mcptrack/output/webhook"
)

// eventsFlags contains the flags for gateway --events.
type eventsFlags struct {
	cli.JournalFlags
	cli.RetentionFlags
	on    bool
	allow []string
	modes []string
	keys  string // file with the keys that encrypt subscriptions on a cluster
	tools bool   // --change-tools

	unverified webhook.URLs // parsed from allow
}

func (o *eventsFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.on, "events", false, "serve MCP Events to clients")
	f.StringArrayVar(&o.allow, "events-allow", nil, "send to webhooks at URLs that match this `GLOB` without a challenge (repeatable)")
	modes := []string{string(mcpevents.Poll), string(mcpevents.Push), string(mcpevents.Webhook)}
	f.StringSliceVar(&o.modes, "events-modes", modes, "`MODES` in which events are delivered")
	_ = f.MarkHidden("events-modes") // clients choose among the modes themselves
	f.StringVar(&o.keys, "events-key-file", "", "`FILE` (mode 0600) with the key of subscriptions on --nats")
	_ = cmd.MarkFlagFilename("events-key-file")
	for _, name := range []string{"events-allow", "events-key-file"} { // see mcptrack help mcp-events
		_ = f.MarkHidden(name)
	}
	f.BoolVar(&o.tools, "change-tools", false, "add tools that report and await changes")
	o.JournalFlags.Add(cmd)
	f.Lookup("data-dir").Usage = "`DIR` for events and calls"
	f.Lookup("nats").Usage = "`URL` of a NATS cluster for events; calls stay in memory"
	o.RetentionFlags.Add(cmd)
}

// stores reports whether events and calls are stored.
func (o *eventsFlags) stores() bool { return o.on || o.tools || o.Dir != "" || o.NATS != "" }

// parse validates the flags.
func (o *eventsFlags) parse(cmd *cobra.Command) error {
	for _, mode := range o.modes {
		if err := cli.OneOf("events-modes", mode, "poll", "push", "webhook"); err != nil {
			return err
		}
	}
	for _, name := range []string{"events-modes", "events-allow", "events-key-file"} {
		if cmd.Flags().Changed(name) && !o.on {
			return cli.Usage("--%s needs --events", name)
		}
	}
	for _, name := range []string{"nats-credentials", "durability", "retain", "retain-bytes"} {
		if cmd.Flags().Changed(name) && !o.stores() {
			return cli.Usage("--%s needs --data-dir, --nats, --events or --change-tools", name)
		}
	}
	switch {
	case !o.stores():
		return nil
	case !o.on:
		return o.RetentionFlags.Parse()
	}
	if o.keys != "" && o.NATS == "" {
		return cli.Usage("--events-key-file requires --nats; without --nats, webhook subscriptions are stored in the data directory")
	}
	var err error
	if o.unverified, err = webhook.ParseURLs(o.allow); err != nil {
		return cli.UsageHint("for example --events-allow 'https://*.example.com/hooks/**'", "--events-allow: %w", err)
	}
	return o.RetentionFlags.Parse()
}

// eventLog is what a gateway stores: events and calls, and the webhooks that deliver the events. All views share it.
type eventLog struct {
	logger     *slog.Logger
	log        journal.Log
	calls      calls.Store
	counts     *metrics.Metrics       // nil if nobody can read them; set before a client is served
	subscribed *webhook.Subscriptions // webhooks that clients subscribed; nil if not offered
	fixed      *webhook.Webhooks      // webhooks in the config; nil without --events
	tokens     *web.Tokens            // tokens of the clients
}

// open opens the log, without its webhooks. The caller must close it.
func (o *eventsFlags) open(ctx context.Context, env *cli.Env, logger *slog.Logger, isDemo bool, tokens *web.Tokens) (*eventLog, error) {
	e := &eventLog{logger: logger, tokens: tokens}
	flags, keep := o.JournalFlags, o.Keep
	if o.tools {
		keep.Content = keptTexts
	}
	switch {
	case !o.stores():
		e.log, e.calls = journal.NewMemory(journal.MemoryOptions{}), new(calls.Memory)
		return e, nil
	case flags.Dir == "" && flags.NATS == "" && (isDemo || !o.on): // several gateways cannot share a directory
		e.log = journal.NewMemory(cli.MemoryLog(keep.Content))
	default:
		if flags.Dir == "" && flags.NATS == "" {
			flags.Dir = env.GatewayDir()
		}
		var err error
		if e.log, err = flags.Open(ctx, env, logger, keep); err != nil {
			return nil, err
		}
	}
	e.calls = cli.Calls(e.log)
	return e, nil
}

// keptTexts limits the total size, in bytes, of the texts kept for the diffs of --change-tools.
const keptTexts = 64 << 20

// openWebhooks loads the webhook subscriptions, and the delivery positions of the webhooks in the config. whole has the
// events of the config's webhooks, of returns the view of the client with a name, or nil, and publish publishes an event.
func (o *eventsFlags) openWebhooks(ctx context.Context, e *eventLog, tracer *tracing.Tracer, whole *view, of func(name string) *view, publish func(event.Payload)) error {
	local := o.unverified.Local()
	if len(local) > 0 {
		e.logger.Warn("--events-allow lets webhooks reach services on this machine; use it only for tests")
	}
	sender := webhook.NewSender(local)
	sender.Tracer = tracer
	stored, err := webhook.OpenRecords(e.log)
	if err != nil {
		return err
	}
	e.fixed = webhook.NewWebhooks(webhook.WebhookOptions{Log: e.log, Records: stored, Reader: whole.reader, Sender: sender, Scope: whole.scope, Publish: publish, Logger: e.logger})
	if !e.tokens.Set() {
		return nil
	}
	var keys *webhook.Keys
	if o.NATS != "" {
		if o.keys == "" {
			e.logger.Info("clients cannot create webhook subscriptions; with --nats this requires --events-key-file")
			return nil
		}
		if keys, err = webhook.ReadKeys(o.keys); err != nil {
			return cli.Usage("--events-key-file: %w", err)
		}
	}
	e.subscribed, err = webhook.New(ctx, webhook.Options{
		Log: e.log, Records: stored, Keys: keys, Reader: whole.reader, Sender: sender, Scope: whole.scope, Of: func(name string) (*mcpevents.Reader, mcpevents.Scope) {
			if v := of(name); v != nil {
				return v.reader, v.scope
			}
			return nil, mcpevents.Scope{}
		}, Holds: e.tokens.Holds, Allow: o.unverified, Logger: e.logger,
	})
	return err
}

// recheck ends the webhook subscriptions of clients whose tokens were removed.
func (e *eventLog) recheck() {
	if e.subscribed != nil {
		e.subscribed.Recheck()
	}
}

func (e *eventLog) close() {
	if err := e.log.Close(); err != nil {
		e.logger.Warn("cannot store the last events", "err", err)
	}
}

// routes returns the HTTP routes for hooks and operators. If no events are stored, operators have only the
// calls.
func (e *eventLog) routes(version string, from *engine.Engine, received *hook.Receiver, whole *view) map[string]http.Handler {
	t, streams := from.Tracker(), func() int { return 0 }
	if whole.service != nil {
		streams = whole.service.Streams
	}
	page := dashboard.New(dashboard.Options{Version: version, Snapshot: t.Snapshot, Servers: from.Servers, Cluster: from.Cluster, Calls: e.calls.Read,
		Hooks:    func(*http.Request) []hook.Status { return received.Status() },
		Webhooks: e.endpoints, Deliveries: e.deliveries, Events: e.log, Clients: streams}).Routes()
	routes := map[string]http.Handler{hook.Path: cli.HookRoute(received), "GET /api/calls": e.unrestricted(e.unlessSeveral(page["GET /api/calls"]))}
	if whole.reader == nil {
		return routes
	}
	e.counts = metrics.New(metrics.Options{
		Version: version, Snapshot: t.Snapshot, Journal: e.log.Stats, Reloads: from.Reloads, LockChanges: from.LockChanges, Cluster: from.Cluster, Hooks: received.Status,
		Webhooks: e.delivered, Deliveries: e.deliveries, Streams: streams, StrayAnswers: whole.gw.Server().StrayAnswers,
	})
	routes["GET /metrics"] = e.counts.Handler()
	for _, pattern := range []string{"GET /api/status", "GET /api/servers"} {
		routes[pattern] = page[pattern]
	}
	for pattern, h := range routes {
		if pattern != hook.Path {
			routes[pattern] = e.unrestricted(h)
		}
	}
	return routes
}

// unrestricted refuses the requests of clients of the config, which may not see everything.
func (e *eventLog) unrestricted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := e.tokens.Client(r); name != "" {
			http.Error(w, "client "+name+" of the config may not see this", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// unlessSeveral refuses requests if the tokens have more than one name, because what h serves is about
// all clients.
func (e *eventLog) unlessSeveral(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e.tokens.Several() {
			http.Error(w, "the calls of several clients are not served; mcptrack calls --data-dir reads them", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// called records a call.
func (e *eventLog) called(c calls.Call) {
	e.calls.Add(c)
	if e.counts != nil {
		e.counts.Called(c)
	}
}

func (e *eventLog) delivered() map[webhook.Source]webhook.Stats {
	all := map[webhook.Source]webhook.Stats{}
	if e.fixed != nil {
		all[webhook.FromConfig] = e.fixed.Stats()
	}
	if e.subscribed != nil {
		all[webhook.FromSubscription] = e.subscribed.Stats()
	}
	return all
}

func (e *eventLog) deliveries() (all []webhook.Deliverer) {
	if e.fixed != nil {
		all = e.fixed.Deliverers()
	}
	if e.subscribed != nil {
		all = append(all, e.subscribed.Deliverers()...)
	}
	return all
}

// endpoints returns the webhooks that the requesting client may see: its own subscriptions if the
// tokens have more than one name, and all webhooks otherwise.
func (e *eventLog) endpoints(r *http.Request) (all []webhook.EndpointStatus) {
	several, client := e.tokens.Several(), e.tokens.Identify(r)
	if e.fixed != nil && !several {
		all = e.fixed.Endpoints()
	}
	if e.subscribed != nil {
		all = append(all, e.subscribed.Endpoints(func(owner string) bool { return !several || owner == client })...)
	}
	return all
}

// readers returns the engine parts that deliver events to webhooks.
func (e *eventLog) readers() (parts []engine.Part) {
	if e.subscribed != nil {
		parts = append(parts, engine.Reader(e.subscribed.Run))
	}
	if e.fixed != nil {
		parts = append(parts, engine.Reader(e.fixed.Run))
	}
	return parts
}

// apply applies the webhooks of a new config.
func (e *eventLog) apply(cfg *config.Config) {
	if e.fixed != nil {
		e.fixed.Apply(cfg.Webhooks)
	}
}
