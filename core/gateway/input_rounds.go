package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracing"
)

const (
	// roundStatePrefix is the prefix of the requestState in results from an input round.
	roundStatePrefix = "mcptrack-round:"
	maxOpenInputs    = 64      // maximum number of unanswered input requests per round
	maxInputBytes    = 4 << 20 // maximum size in bytes of the unanswered input requests per round
	maxKeptResult    = 1 << 20 // maximum size in bytes of a result that is kept while no client is waiting
	// maxWaitingRounds is the maximum number of rounds that wait for their client (see package
	// fair), and thereby of results kept for clients that never fetch them.
	maxWaitingRounds = maxOwnSessions
	// inputTimeout is how long a round waits for the client to repeat its request with answers.
	inputTimeout = 15 * time.Minute
)

var errInputTimeout = errors.New("the client did not respond to the input request in time")

// inputRound is a request from a modern client to a legacy server, in a session that is used
// exclusively for this request until it is answered. If the server sends a request during this
// time, the client receives a result that requires input, and repeats its request with the answers.
type inputRound struct {
	capabilities json.RawMessage         // capabilities of the client
	owner        string                  // principal of the client
	key          [32]byte                // identifies the request; see inputRoundKey
	cancel       context.CancelCauseFunc // cancels the request that was sent to the server
	// opened wakes wait when there are unanswered input requests. request and answer send.
	opened wake.Channel
	done   chan struct{}   // closed after raw and err have been set
	raw    json.RawMessage // the server's result
	err    error

	queues *queues // for progress

	mu      sync.Mutex
	last    int                // number of the most recent input request
	open    []*inputRequest    // input requests that are not answered yet
	current *mcpserver.Request // the client's request in progress; nil until the client repeats it
}

// inputRequest is a request from the server that the client has not answered yet.
type inputRequest struct {
	key, method string // key is the name of the request in inputRequests.
	params      json.RawMessage
	answer      chan json.RawMessage // capacity 1; receives at most one value; never closed
}

// request turns a request from the server into an input request for the client, and waits for the
// answer.
func (round *inputRound) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	q := &inputRequest{method: method, params: params, answer: make(chan json.RawMessage, 1)}
	round.mu.Lock()
	size := len(params)
	for _, o := range round.open {
		size += len(o.params)
	}
	if len(round.open) == maxOpenInputs || size > maxInputBytes {
		round.mu.Unlock()
		return nil, &session.RPCError{Code: mcp.CodeInternal, Message: "too many requests to the client are pending"}
	}
	round.last++
	q.key = "q" + strconv.Itoa(round.last)
	round.open = append(round.open, q)
	round.mu.Unlock()
	round.opened.Send()
	select {
	case raw := <-q.answer:
		return raw, nil
	case <-ctx.Done():
		round.mu.Lock()
		defer round.mu.Unlock()
		round.open = slices.DeleteFunc(round.open, func(o *inputRequest) bool { return o == q })
		return nil, context.Cause(ctx)
	}
}

// message forwards a notification from the server on the stream of the client's request, if a
// request that asks for log messages is in progress.
func (round *inputRound) message(method string, params json.RawMessage) {
	round.mu.Lock()
	r := round.current
	round.mu.Unlock()
	if r != nil && logLevel(r) != nil {
		r.Notify(method, params)
	}
}

// report forwards progress to the client's request, if one is in progress.
func (round *inputRound) report(p session.Progress) {
	round.mu.Lock()
	defer round.mu.Unlock()
	if round.current != nil && round.current.ProgressToken() != nil {
		round.queues.progress(round.current, p)
	}
}

// answer processes the inputResponses of a repeated request. Input requests that remain unanswered
// are sent to the client again.
func (round *inputRound) answer(given json.RawMessage) {
	answers := fields(given)
	round.mu.Lock()
	defer round.mu.Unlock()
	round.open = slices.DeleteFunc(round.open, func(q *inputRequest) bool {
		raw := answers[q.key]
		if !isObject(raw) {
			return false
		}
		q.answer <- raw
		return true
	})
	if len(round.open) > 0 {
		round.opened.Send()
	}
}

// attach sets r as the client's request in progress; nil means that there is none.
func (round *inputRound) attach(r *mcpserver.Request) {
	round.mu.Lock()
	defer round.mu.Unlock()
	round.current = r
}

// inputRequired returns a result that asks the client for input, or nil if all input requests are
// answered. The client answers by repeating its request with state in the requestState.
func (round *inputRound) inputRequired(state string) json.RawMessage {
	round.mu.Lock()
	defer round.mu.Unlock()
	if len(round.open) == 0 {
		return nil
	}
	var asked []rawjson.Member
	for _, q := range round.open {
		ask := []rawjson.Member{{Name: "method", Value: quote(q.method)}}
		if q.params != nil {
			ask = append(ask, rawjson.Member{Name: "params", Value: q.params})
		}
		asked = append(asked, rawjson.Member{Name: q.key, Value: writeMembers(ask)})
	}
	return writeMembers([]rawjson.Member{
		{Name: "resultType", Value: json.RawMessage(`"input_required"`)},
		{Name: "inputRequests", Value: writeMembers(asked)},
		{Name: "requestState", Value: quote(roundStatePrefix + state)},
	})
}

// settled reports whether all input requests are answered.
func (round *inputRound) settled() bool {
	round.mu.Lock()
	defer round.mu.Unlock()
	return len(round.open) == 0
}

// unattended reports whether the client has no request in progress.
func (round *inputRound) unattended() bool {
	round.mu.Lock()
	defer round.mu.Unlock()
	return round.current == nil
}

// inputRounds holds the input rounds that wait for their client to repeat its request. The zero
// value is ready to use.
type inputRounds struct {
	mu      sync.Mutex
	room    fair.Limit              // limits the number of rounds in byState
	byState map[string]waitingRound // keyed by the requestState that the client must send, without prefix
}

// waitingRound is a round that waits for its client, with the timer that limits the wait.
type waitingRound struct {
	*inputRound
	expire *time.Timer
}

// put keeps a round until the client resumes it with the returned state. After inputTimeout, the
// round's request is cancelled. ok is false if too many rounds are waiting.
func (s *inputRounds) put(round *inputRound) (state string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byState == nil {
		s.byState, s.room.Max = map[string]waitingRound{}, maxWaitingRounds
	}
	if !s.room.Take(round.owner) {
		return "", false
	}
	state = rand.Text()
	s.byState[state] = waitingRound{round, time.AfterFunc(inputTimeout, func() {
		s.mu.Lock()
		s.remove(state)
		s.mu.Unlock()
		round.cancel(errInputTimeout)
	})}
	return state, true
}

// take removes and returns the round that waits for the given state. It returns nil if there is
// none, or if key shows that the round belongs to another request (see inputRoundKey).
func (s *inputRounds) take(state string, key [32]byte) *inputRound {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.byState[state]
	if !ok || w.key != key {
		return nil
	}
	w.expire.Stop()
	s.remove(state)
	return w.inputRound
}

// remove removes a round if it is still waiting. s.mu must be held.
func (s *inputRounds) remove(state string) {
	if w, ok := s.byState[state]; ok {
		delete(s.byState, state)
		s.room.Give(w.owner)
	}
}

// close removes all rounds; their requests end when the sessions are closed.
func (s *inputRounds) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for state, w := range s.byState {
		w.expire.Stop()
		w.cancel(context.Canceled)
		s.remove(state)
	}
}

// wait waits for the result of a round, or for input requests that the client has to answer first,
// and returns the corresponding result for r, the client's request.
func (s *inputRounds) wait(ctx context.Context, round *inputRound, r *mcpserver.Request) (json.RawMessage, error) {
	round.attach(r)
	defer func() {
		round.attach(nil)
		round.queues.flush(ctx, r) // all progress must be sent before the response
	}()
	for {
		select {
		case <-round.done:
			return round.raw, round.err
		case <-ctx.Done():
			round.cancel(context.Cause(ctx))
			<-round.done // returns immediately, because requests end with their context
			return nil, context.Cause(ctx)
		case <-round.opened:
		}
		if round.settled() {
			continue
		}
		state, ok := s.put(round)
		if !ok {
			round.cancel(errInputTimeout)
			return nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "too many requests are waiting for input from clients"}
		}
		if raw := round.inputRequired(state); raw != nil {
			return raw, nil
		}
		s.take(state, round.key)
	}
}

// beginInputRound sends a request in a session that is used exclusively for it, or in the session
// that clients share (see Callers). It returns nil if neither is needed, because the server is not in the
// legacy era or because the client cannot be asked for input and wants no log messages. It also returns
// nil if no session can be opened and the config allows sharing the server's session.
func (rt *route) beginInputRound(ctx context.Context, q session.Request) (*inputRound, error) {
	g := rt.g
	capabilities := declared(rt.r.Capabilities)
	srv, _ := g.entry(rt.server)
	if asked := rt.state().asks && (string(capabilities) != "{}" || logLevel(rt.r) != nil); !asked && !srv.Unshared() {
		return nil, nil
	}
	round := &inputRound{capabilities: rt.r.Capabilities, owner: rt.r.Principal, key: rt.inputRoundKey(q), queues: &g.queues, opened: wake.New(), done: make(chan struct{})}
	inside := *rt
	if !srv.Unshared() && logLevel(rt.r) == nil && g.opts.Callers.takes(rt.server, capabilities) {
		inside.round = round
		return round, g.runRound(ctx, &inside, q)
	}
	era := session.Era("")
	if st := g.exports.Load().servers[rt.server]; st.asks && !(srv.Unshared() && st.other == session.EraModern) { // modern servers send no requests to clients
		era = session.EraLegacy
	}
	s := g.sessions.acquire(ctx, rt.r, rt.server, capabilities, era)
	if s == nil && srv.Unshared() {
		return nil, errNoSession
	}
	if s == nil {
		return nil, nil
	}
	inside.session, inside.round = s, round
	return round, g.runRound(ctx, &inside, q)
}

// runRound sends the request of a round in the background.
func (g *Gateway) runRound(ctx context.Context, inside *route, q session.Request) error {
	round, s := inside.round, inside.session
	on, cancel := context.WithCancelCause(g.life) // must outlive the client's request
	round.cancel = cancel
	on = tracing.Continue(on, ctx)
	q.Progress, q.Timeout = round.report, max(q.Timeout, inputTimeout+g.opts.CallTimeout)
	running := g.run(func(context.Context) {
		defer cancel(nil)
		round.raw, round.err = inside.perform(on, q)
		clean := on.Err() == nil && round.settled()
		if len(round.raw) > maxKeptResult && round.unattended() {
			round.raw, round.err = nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "the server sent its result before the client answered the input requests, and the result is too large to keep"}
		}
		if s != nil {
			g.sessions.release(s, clean) // must precede the client's next request
		}
		close(round.done)
	})
	if !running {
		cancel(nil)
		return session.ErrClosed
	}
	return nil
}

// resumeInputRound resumes the round of a request that the client repeats with answers. state comes
// from its requestState.
func (rt *route) resumeInputRound(ctx context.Context, q session.Request, state string) (json.RawMessage, error) {
	round := rt.g.inputs.take(state, rt.inputRoundKey(q))
	if round == nil {
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "the requestState is unknown or has expired; repeat the request without it"}
	}
	round.answer(q.Params["inputResponses"])
	return rt.g.inputs.wait(ctx, round, rt.r)
}

// inputRoundKey returns a hash of everything that a request and its repetition have in common: all
// parameters except requestState, inputResponses and _meta.
func (rt *route) inputRoundKey(q session.Request) [32]byte {
	same := map[string]json.RawMessage{}
	for name, value := range q.Params {
		if name != "_meta" && name != "requestState" && name != "inputResponses" {
			same[name] = value
		}
	}
	return sha256.Sum256(encode([]any{q.Method, rt.server, rt.r.Principal, same}))
}

// stateOf returns the requestState of a repeated request without its prefix. ok is false if the
// request has no requestState with this prefix.
func stateOf(params map[string]json.RawMessage, prefix string) (state string, ok bool) {
	if json.Unmarshal(params["requestState"], &state) != nil {
		return "", false
	}
	return strings.CutPrefix(state, prefix)
}
