package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// unattended reports whether no request of the client is in progress.
func (d *round) unattended() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now == nil
}

// rounds holds the rounds that wait for their client to repeat the request. The zero value
// is ready.
type rounds struct {
	mu      sync.Mutex
	room    fair.Limit         // those in byState
	byState map[string]waiting // by the requestState that the client has to send, without prefix
}

// waiting is a round that waits for its client, and the timer that ends the wait.
type waiting struct {
	*round
	expire *time.Timer
}

// maxWaiting bounds the rounds that wait for their client (see package fair), and so the results
// that are kept for clients that do not come for them.
const maxWaiting = maxOwn

// put keeps a round until the client continues it with the state returned, at most for
// roundPatience; then its request is cancelled. It reports false if too many rounds wait.
func (s *rounds) put(d *round) (state string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byState == nil {
		s.byState, s.room.Max = map[string]waiting{}, maxWaiting
	}
	if !s.room.Take(d.owner) {
		return "", false
	}
	state = rand.Text()
	s.byState[state] = waiting{d, time.AfterFunc(roundPatience, func() {
		s.mu.Lock()
		s.remove(state)
		s.mu.Unlock()
		d.cancel(errNoAnswer)
	})}
	return state, true
}

// take removes and returns the round that put keeps under a state; nil if there is none, or
// if its request is another one than the key says (see roundKey).
func (s *rounds) take(state string, key [32]byte) *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.byState[state]
	if !ok || w.key != key {
		return nil
	}
	w.expire.Stop()
	s.remove(state)
	return w.round
}

// remove forgets a round, if it is still there. s.mu must be held.
func (s *rounds) remove(state string) {
	if w, ok := s.byState[state]; ok {
		delete(s.byState, state)
		s.room.Give(w.owner)
	}
}

// close forgets all rounds; their requests end with the sessions.
func (s *rounds) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for state, w := range s.byState {
		w.expire.Stop()
		w.cancel(context.Canceled)
		s.remove(state)
	}
}

// beginRound sends a request in a session that is lent for it alone. It returns nil if the
// request needs no such session, because the server is not of the legacy era or the client
// can be asked nothing and wants no log messages, or if no session can be opened and the
// server may be shared.
func (w *way) beginRound(ctx context.Context, q session.Request) (*round, error) {
	g := w.g
	capabilities := declared(w.r.Capabilities)
	srv, _ := entryOf(g.wanted(), w.server)
	if asked := w.v.asks[w.server] && (string(capabilities) != "{}" || logLevel(w.r) != nil); !asked && !srv.Unshared {
		return nil, nil
	}
	o := g.clients.lend(ctx, w.r, w.server, capabilities)
	if o == nil && srv.Unshared {
		return nil, errNoSession
	}
	if o == nil {
		return nil, nil
	}
	d := &round{client: w.r.Capabilities, owner: w.r.Principal, key: w.roundKey(q), asked: make(chan struct{}, 1), over: make(chan struct{})}
	on, cancel := context.WithCancelCause(g.clients.ctx) // outlives the client's request
	d.cancel = cancel
	o.speakFor(d, false)
	q.Progress, q.Timeout = d.report, max(q.Timeout, roundPatience+g.opts.CallTimeout)
	inside := *w
	inside.fixed = o
	g.clients.wg.Go(func() {
		defer cancel(nil)
		d.raw, d.err = inside.perform(on, q)
		clean := on.Err() == nil && d.settled()
		if len(d.raw) > maxKept && d.unattended() {
			d.raw, d.err = nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "the server sent its result before the client answered the input requests, and the result is too large to keep"}
		}
		g.clients.giveBack(o, clean) // before the client can make its next request
		close(d.over)
	})
	return d, nil
}

// wait returns the result of a round, or the questions that the client has to answer first.
// r is the client's request.
func (s *rounds) wait(ctx context.Context, d *round, r *mcpserver.Request) (json.RawMessage, error) {
	d.attach(r)
	defer d.attach(nil)
	for {
		select {
		case <-d.over:
			return d.raw, d.err
		case <-ctx.Done():
			d.cancel(context.Cause(ctx))
			<-d.over // at once: requests end with their context
			return nil, context.Cause(ctx)
		case <-d.asked:
		}
		more := time.NewTimer(gather)
		select {
		case <-more.C:
		case <-d.over:
		case <-ctx.Done():
		}
		more.Stop()
		if d.questions("") == nil || ctx.Err() != nil {
			continue
		}
		state, ok := s.put(d)
		if !ok {
			d.cancel(errNoAnswer)
			return nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "too many requests are waiting for input from clients"}
		}
		if raw := d.questions(state); raw != nil {
			return raw, nil
		}
		s.take(state, d.key)
	}
}

// continueRound continues the round of a request that the client repeats with answers.
// state is from its requestState.
func (w *way) continueRound(ctx context.Context, q session.Request, state string) (json.RawMessage, error) {
	d := w.g.rounds.take(state, w.roundKey(q))
	if d == nil {
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "the requestState is unknown or has expired; repeat the request without it"}
	}
	d.answer(q.Params["inputResponses"])
	return w.g.rounds.wait(ctx, d, w.r)
}

// roundKey hashes what a request and its repetition have in common: everything but
// requestState, inputResponses and _meta.
func (w *way) roundKey(q session.Request) [32]byte {
	same := map[string]json.RawMessage{}
	for name, value := range q.Params {
		if name != "_meta" && name != "requestState" && name != "inputResponses" {
			same[name] = value
		}
	}
	return sha256.Sum256(encode([]any{q.Method, w.server, w.r.Principal, same}))
}

// stateOf returns the requestState of a repeated request without its prefix; false if it
// has none with this prefix.
func stateOf(params map[string]json.RawMessage, prefix string) (state string, ok bool) {
	if json.Unmarshal(params["requestState"], &state) != nil {
		return "", false
	}
	return strings.CutPrefix(state, prefix)
}

// logLevel is the level of messages that a client of the modern era wants during a
// request; nil if it wants none.
func logLevel(r *mcpserver.Request) json.RawMessage {
	level := fields(fields(r.Params)["_meta"])[mcp.MetaLogLevel]
	if !r.Modern() || !isString(level) {
		return nil
	}
	return level
}
