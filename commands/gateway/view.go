package gateway

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
	"github.com/mcptrack/mcptrack/core/gateway/changetools"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/textdiff"
)

// view is a gateway for some of its clients, with what it serves beside the items of servers.
type view struct {
	client  string // of the config; empty for the view of everything
	gw      *gateway.Gateway
	index   *gateway.Index // nil if it is not served
	guard   *guard.Guard   // nil without a lock
	scope   mcpevents.Scope
	reader  *mcpevents.Reader  // nil if no events are stored
	service *mcpevents.Service // nil without --events
	cancel  context.CancelFunc // ends run; nil before it
}

// quiet is for the views of clients, which say nothing that the view of everything says, too.
var quiet = slog.New(slog.DiscardHandler)

// newView creates the view of a client, or of everything, without its gateway.
func (s *service) newView(client string, log *slog.Logger) (v *view, err error) {
	v = &view{client: client}
	if v.guard, err = s.newGuard(log); err != nil || !s.events.stores() {
		return v, err
	}
	v.scope = mcpevents.Scope{
		Server: func(id string) bool { return v.gw.ExportsServer(id) },
		Item: func(server string, k catalog.Kind, key, stored string) (string, bool) {
			return v.gw.Exports(server, k, key, v.known(stored))
		},
		Unapproved: func(server string, k catalog.Kind, key, stored string) (string, bool) {
			return v.gw.Unapproved(server, k, key, v.known(stored))
		},
	}
	v.reader = mcpevents.NewReader(s.record.log, v.scope)
	return v, nil
}

// known returns the name of an item that was stored with an event, unless it is not its name in this view.
func (v *view) known(stored string) string {
	if v.client != "" {
		return ""
	}
	return stored
}

// clientView creates the view of a client.
func (s *service) clientView(client string) (*view, error) {
	v, err := s.newView(client, quiet)
	if err != nil {
		return nil, err
	}
	return v, s.build(v, gateway.Options{Logger: quiet, Called: func(c calls.Call) {
		c.Client = client
		s.record.called(c)
	}})
}

// build creates the gateway of a view. of has the options that are not the same for all views.
func (s *service) build(v *view, of gateway.Options) (err error) {
	if s.cfg.Index.Enabled {
		index := capindex.Options{Source: func() capindex.Capabilities { return v.gw.Capabilities() }, Expose: s.cfg.Index.Expose, TTL: s.cfg.Index.TTL}
		if v.index, err = gateway.NewIndex(index); err != nil {
			return err
		}
	}
	of.Tracker, of.Dial, of.Session, of.Launch = s.engine.Tracker(), s.env.Dial, s.SessionOptions(s.env, s.g), s.env.Launch
	of.OnDown, of.CallTimeout, of.Allow, of.Deny = gateway.OnDown(s.onDown), s.callTimeout, s.allow, s.deny
	of.Transparent, of.Key, of.Guard, of.Changed = s.instead && len(s.Servers) == 1, s.key, v.guard, v.index.Changed
	of.Serve = mcpserver.Options{Name: "mcptrack-gateway", Title: "mcptrack gateway", Version: s.env.Version, Principal: s.clients.tokens.Principal, Tracer: s.g.Tracer(), Logger: s.log,
		SessionDir: s.sessionDir(v.client), Events: s.handlers(v)}
	of.Local = v.index.Local()
	if s.events.tools {
		tools := changetools.New(changetools.Options{Reader: v.reader, Text: s.record.log.Contents().Get, Diff: textdiff.Unified,
			Readable: func(ctx context.Context, r *mcpserver.Request, server, uri string) bool {
				return v.gw.MayReadTexts(ctx, r, server, uri)
			}})
		of.Serve.Instructions = changetools.Instructions
		of.Local.Tools = append(of.Local.Tools, gateway.LocalTool{Descriptor: changetools.SinceTool(), Call: tools.Since},
			gateway.LocalTool{Descriptor: changetools.WaitTool(), Call: tools.Wait})
	}
	v.gw, err = gateway.New(of)
	return err
}

// handlers returns the event handlers of a view. Without --events they only identify clients.
func (s *service) handlers(v *view) (h mcpserver.Events) {
	if s.events.on {
		opts := mcpevents.Options{Reader: v.reader, Modes: []mcpevents.Mode{}}
		for _, mode := range []mcpevents.Mode{mcpevents.Poll, mcpevents.Push} {
			if slices.Contains(s.events.modes, string(mode)) {
				opts.Modes = append(opts.Modes, mode)
			}
		}
		if !slices.Contains(s.events.modes, string(mcpevents.Webhook)) {
			opts.NoWebhooks = "--events-modes leaves out webhooks"
		} else if s.record.subscribed != nil {
			opts.Webhooks = s.record.subscribed.Handle
		} else if s.events.NATS != "" && s.events.keys == "" {
			opts.NoWebhooks = "with --nats, webhooks require --events-key-file"
		}
		v.service = mcpevents.New(opts)
		h = v.service.Handlers()
	}
	h.Identify = s.clients.tokens.Identify
	return h
}

// sessionDir returns the directory for the sessions of a client, or of everybody else, in the data directory.
func (s *service) sessionDir(client string) string {
	dir := s.SessionDir(s.dataDir(s.env, s.g))
	if dir == "" || client == "" {
		return dir
	}
	return filepath.Join(filepath.Dir(dir), "clients", client)
}

// run keeps the view up to date until ctx ends, except for its reader of events.
func (v *view) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	parts.Go(func() { v.index.Run(ctx, v.gw.Server()) })
	if v.guard != nil {
		parts.Go(func() { _ = v.guard.Run(ctx) }) // until ctx ends
	}
	err := v.gw.Run(ctx)
	cancel()
	parts.Wait()
	return err
}

// read follows the events until ctx ends. It begins once the gateway exports its servers: until then the scope shows
// nothing, and the webhooks that continue after a restart would pass over their events.
func (v *view) read(ctx context.Context) error {
	if err := v.gw.Applied(ctx); err != nil {
		return err
	}
	return v.reader.Run(ctx)
}

// end ends the sessions of the view's client, and everything in it.
func (v *view) end() {
	v.gw.Server().EndSessions(func(string) bool { return false })
	v.gw.Close()
	if v.cancel != nil {
		v.cancel()
	}
}
