package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// resumed is the key of the value that Resumed sets.
type resumed struct{}

// Resumed returns a context for a connection whose client is already initialized, and has lost an earlier
// connection. Its handshake, which is repeated, does not fail because the server is down now.
func Resumed(ctx context.Context) context.Context { return context.WithValue(ctx, resumed{}, true) }

// ready waits until the server of a transparent gateway has been reached once. It returns why that failed:
// in an attempt that began after the call, or shortly before. A server that has been reached is served as
// far as its lists are known, whether it is connected or not.
func (g *Gateway) ready(ctx context.Context) error {
	servers := g.servers()
	if len(servers) == 0 && g.enabled.Load() != nil {
		return errors.New("the config no longer has the server for this client: it is removed, disabled (set \"enabled\": true), or \"clients\" hides it")
	}
	if len(servers) != 1 || g.httpCatalog(servers[0].ID) != nil || ctx.Value(resumed{}) != nil {
		return nil
	}
	id, limit := servers[0].ID, max(g.opts.Wait, servers[0].ConnectTimeout)
	if servers[0].Transport == config.TransportStdio { // a program that runs may still start
		limit = g.connecting(servers[0])
	}
	if st, _ := g.tracker.Snapshot().Server(id); st.Info.Era != "" {
		return nil // without waking it
	}
	defer g.tracker.Demand(id)()
	err := g.await(ctx, limit, func() (bool, error) {
		st, _ := g.tracker.Snapshot().Server(id)
		switch {
		case st.Info.Era != "":
			return true, nil
		case st.State == event.Backoff && time.Since(st.Since) > g.opts.Grace: // the reason may be gone
			g.tracker.RetrySoon(id)
		case st.State == event.Pending, st.State == event.Connecting && time.Since(st.Since) < limit:
		default:
			return false, g.down(id)
		}
		return false, nil
	})
	switch {
	case errors.Is(err, tracker.ErrNotConnected):
		return g.down(id)
	case err != nil:
		return err
	}
	return g.flush(ctx)
}

// neverReached reports whether the server is one that has not been reached yet, and is not asleep.
func neverReached(st status.ServerStatus) bool {
	return st.Info.Era == "" && !st.Connected() && !st.Dormant() && st.State != event.Disabled && st.State != event.Pending
}

// down returns the error for a request to a server that is not connected: the reason and what to do.
func (g *Gateway) down(id string) *mcpserver.Error {
	st, _ := g.tracker.Snapshot().Server(id)
	name := g.alias().line(id)
	why, then := strings.ReplaceAll(cmp.Or(st.Error, st.Reason, "it does not answer"), id, name), ""
	switch st.State {
	case event.NeedsAuth, event.Unapproved: // the reason says what to do
	case event.Unconfigured:
		then = "; set what is missing, and try again"
	case event.Connecting:
		why = cmp.Or(st.Error, "it has not answered since it was started "+time.Since(st.Since).Round(time.Second).String()+" ago")
		then = "; try again, or give it more time with \"connectTimeout\""
	default:
		then = "; mcptrack doctor says what to do, and the next request tries it again"
	}
	return &mcpserver.Error{Code: mcp.CodeInternal, Message: fmt.Sprintf("server %s: %s%s", name, printable.Line(why, 1000), then)}
}

// unlistedError returns the error for a tool or prompt that no server lists. If its name is one of a server that
// has never been reached, that is the reason.
func (g *Gateway) unlistedError(what, name string) error {
	snap, servers := g.tracker.Snapshot(), g.servers()
	for _, srv := range servers {
		of := len(servers) == 1 || strings.HasPrefix(name, onlyNameBytes(g.alias().of(srv.ID)+"_"))
		if st, ok := snap.Server(srv.ID); of && ok && neverReached(st) {
			return g.down(srv.ID)
		}
	}
	return unknown(what, name)
}
