package feed

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/printable"
)

// startTimeout is how long a request waits for a hub that is about to start.
const startTimeout = 2 * time.Second

// Feed serves the VibeChat feed, GET /api/mcp/resource-events: updates and errors
// of resources.
func (h *Hub) Feed() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, true) })
}

// Events serves all events, GET /events, with the filters ?type=, ?server= (globs,
// comma-separated or repeated) and ?uri= (a glob, repeated); a parameter that it does not know
// is refused. With ?ongap=latest, a client
// whose position in the log has expired continues with new events rather than with the
// oldest ones that are left.
func (h *Hub) Events() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, false) })
}

func (h *Hub) serve(w http.ResponseWriter, r *http.Request, feed bool) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, http.StatusMethodNotAllowed, "Method not allowed", "only GET")
		return
	}
	q, err := parseQuery(r, feed)
	if err != nil {
		refuse(w, http.StatusBadRequest, "Bad query", err.Error())
		return
	}
	if err := h.available(r.Context()); err != nil {
		refuse(w, http.StatusInternalServerError, "Resource tracker is unavailable", printable.Reason(err, 500))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	c := newClient(h, w)
	c.ctx, c.cancel, c.feed, c.query = ctx, cancel, feed, q
	c.headers()
	if !h.admit(c) {
		h.counts.refused.Add(1)
		// Spread over time, so that clients do not all reconnect at the same moment.
		_ = c.write(eventstream.AppendRetry(nil, 5*time.Second+rand.N(5*time.Second)))
		return
	}
	defer h.leave(c)
	h.counts.closed(c.run())
}

// available waits until the hub has opened the log, and returns why there is nothing to stream.
func (h *Hub) available(ctx context.Context) error {
	if h.opts.Unavailable != nil {
		if err := h.opts.Unavailable(); err != nil {
			return err
		}
	}
	select {
	case <-h.first:
		return nil
	default:
	}
	wait := time.NewTimer(startTimeout)
	defer wait.Stop()
	select {
	case <-h.first:
		return nil
	case <-h.last: // admit refuses the client
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-wait.C:
		return errStarting
	}
}

// admit registers the client and gives it the ring to read from. It reports false if
// the hub is full or shutting down.
func (h *Hub) admit(c *client) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing || h.ring == nil || len(h.clients) >= h.opts.MaxClients {
		return false
	}
	h.handlers.Add(1)
	h.clients[c] = struct{}{}
	h.counts.accepted.Add(1)
	c.ring = h.ring
	return true
}

func (h *Hub) leave(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, c)
	h.handlers.Done()
}

// refuse answers a request with an error instead of a stream.
func refuse(w http.ResponseWriter, status int, what, details string) {
	body, _ := json.Marshal(struct { // two strings always encode
		Error   string `json:"error"`
		Details string `json:"details"`
	}{what, printable.Line(details, 512)})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func ofEpoch(id, epoch string) bool {
	return len(id) > len(epoch) && id[:len(epoch)] == epoch && id[len(epoch)] == '-'
}
