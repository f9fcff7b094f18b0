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
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	// roundStatePrefix begins the requestState in the results of an input round.
	roundStatePrefix = "mcptrack-round:"
	maxOpenInputs    = 64      // open input requests of a round
	maxInputBytes    = 4 << 20 // bytes of the open input requests of a round
	maxKeptResult    = 1 << 20 // bytes of a result for which no client waits
	// maxWaitingRounds bounds the rounds that wait for their client (see package fair), and
	// so the results that are kept for clients that never fetch them.
	maxWaitingRounds = maxClientSessions
	// inputTimeout is how long a client may take to repeat a request with answers.
	inputTimeout = 15 * time.Minute
	// inputDebounce is how long the gateway waits after an input request of the server, so
	// that requests that the server sends together reach the client in one result.
	inputDebounce = 5 * time.Millisecond
)

var errInputTimeout = errors.New("the client did not respond to the input request in time")

// inputRound is a request of a modern client to a legacy server, in a session that belongs to
// that client alone until the request is answered. A request of the server becomes a result
// that requires input; the client repeats its request with answers.
type inputRound struct {
	capabilities json.RawMessage         // of the client
	owner        string                  // the client's principal
	key          [32]byte                // see inputRoundKey
	cancel       context.CancelCauseFunc // cancels the request at the server
	// opened wakes wait: input requests are open. Capacity 1, sent to by request and answer,
	// received by wait; never closed.
	opened chan struct{}
	done   chan struct{}   // closed once raw and err are set
	raw    json.RawMessage // the server's result
	err    error

	mu       sync.Mutex
	last     int                // number of the last input request
	open     []*inputRequest    // not answered yet
	current  *mcpserver.Request // the client's request in progress; nil until it is repeated
	progress *progress          // of current; nil if current asks for none
}

// inputRequest is a request of the server that the client has not answered yet.
type inputRequest struct {
	key, method string // key is its name in inputRequests
	params      json.RawMessage
	answer      chan json.RawMessage // capacity 1, sent to at most once, never closed
}

// request opens an input request for a request of the server, and waits for its answer.
func (round *inputRound) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if !canAnswer(round.capabilities, method) {
		return nil, notFound()
	}
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
	signal(round.opened)
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

// message forwards a notification of the server on the stream of the client's request, if a
// request is in progress that asks for log messages.
func (round *inputRound) message(method string, params json.RawMessage) {
	round.mu.Lock()
	r := round.current
	round.mu.Unlock()
	if r != nil && logLevel(r) != nil {
		r.Notify(method, params)
	}
}

func (round *inputRound) begin(*mcpserver.Request) {}
func (round *inputRound) end(*mcpserver.Request)   {}

func (round *inputRound) report(p session.Progress) {
	round.mu.Lock()
	defer round.mu.Unlock()
	if round.progress != nil {
		round.progress.put(p)
	}
}

// answer takes the inputResponses of a repeated request. Input requests that they do not
// answer are sent to the client again.
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
		signal(round.opened)
	}
}

// attach makes r the client's request in progress; nil: there is none.
func (round *inputRound) attach(r *mcpserver.Request) {
	var p *progress
	if r != nil && r.ProgressToken() != nil {
		p = newProgress(r, r.ProgressToken())
	}
	round.mu.Lock()
	old := round.progress
	round.current, round.progress = r, p
	round.mu.Unlock()
	if old != nil {
		old.end()
	}
}

// inputRequired returns the result that asks the client for input; nil if no input request is
// open. The client answers by repeating its request with state in the requestState.
func (round *inputRound) inputRequired(state string) json.RawMessage {
	round.mu.Lock()
	defer round.mu.Unlock()
	if len(round.open) == 0 {
		return nil
	}
	var asked []jsonMember
	for _, q := range round.open {
		ask := []jsonMember{{name: "method", value: quote(q.method)}}
		if q.params != nil {
			ask = append(ask, jsonMember{name: "params", value: q.params})
		}
		asked = append(asked, jsonMember{name: q.key, value: writeMembers(ask)})
	}
	return writeMembers([]jsonMember{
		{name: "resultType", value: json.RawMessage(`"input_required"`)},
		{name: "inputRequests", value: writeMembers(asked)},
		{name: "requestState", value: quote(roundStatePrefix + state)},
	})
}

// settled reports whether no input request is open.
func (round *inputRound) settled() bool {
	round.mu.Lock()
	defer round.mu.Unlock()
	return len(round.open) == 0
}

// unattended reports whether no request of the client is in progress.
func (round *inputRound) unattended() bool {
	round.mu.Lock()
	defer round.mu.Unlock()
	return round.current == nil
}

// inputRounds holds the input rounds that wait for their client to repeat the request. The
// zero value is ready.
type inputRounds struct {
	mu      sync.Mutex
	room    fair.Limit              // the rounds in byState
	byState map[string]waitingRound // by the requestState that the client must send, without prefix
}

// waitingRound is a round that waits for its client, and the timer that ends the wait.
type waitingRound struct {
	*inputRound
	expire *time.Timer
}

// put keeps a round until the client resumes it with the state returned, at most for
// inputTimeout; then its request is cancelled. It reports false if too many rounds wait.
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

// take removes and returns the round that waits under a state; nil if there is none, or if
// key shows that it belongs to another request (see inputRoundKey).
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

// remove forgets a round, if it is still there. s.mu must be held.
func (s *inputRounds) remove(state string) {
	if w, ok := s.byState[state]; ok {
		delete(s.byState, state)
		s.room.Give(w.owner)
	}
}

// close forgets all rounds; their requests end with the sessions.
func (s *inputRounds) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for state, w := range s.byState {
		w.expire.Stop()
		w.cancel(context.Canceled)
		s.remove(state)
	}
}

// wait returns the result of a round, or the input requests that the client has to answer
// first. r is the client's request.
func (s *inputRounds) wait(ctx context.Context, round *inputRound, r *mcpserver.Request) (json.RawMessage, error) {
	round.attach(r)
	defer round.attach(nil)
	for {
		select {
		case <-round.done:
			return round.raw, round.err
		case <-ctx.Done():
			round.cancel(context.Cause(ctx))
			<-round.done // immediately: requests end with their context
			return nil, context.Cause(ctx)
		case <-round.opened:
		}
		more := time.NewTimer(inputDebounce)
		select {
		case <-more.C:
		case <-round.done:
		case <-ctx.Done():
		}
		more.Stop()
		if round.settled() || ctx.Err() != nil {
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

// beginInputRound sends a request in a pooled session that it has to itself. It returns nil
// if the request needs no such session, because the server is not of the legacy era or the
// client can be asked nothing and wants no log messages, or if no session can be opened and
// the server may be shared.
func (rt *route) beginInputRound(ctx context.Context, q session.Request) (*inputRound, error) {
	g := rt.g
	capabilities := declared(rt.r.Capabilities)
	srv, _ := g.entry(rt.server)
	if asked := rt.state().asks && (string(capabilities) != "{}" || logLevel(rt.r) != nil); !asked && !srv.Unshared {
		return nil, nil
	}
	era := session.Era("")
	if st := g.view.Load().servers[rt.server]; st.asks && !(srv.Unshared && st.other == session.EraModern) { // modern servers send no requests
		era = session.EraLegacy
	}
	s := g.sessions.acquire(ctx, rt.r, rt.server, capabilities, era)
	if s == nil && srv.Unshared {
		return nil, errNoSession
	}
	if s == nil {
		return nil, nil
	}
	round := &inputRound{capabilities: rt.r.Capabilities, owner: rt.r.Principal, key: rt.inputRoundKey(q), opened: make(chan struct{}, 1), done: make(chan struct{})}
	on, cancel := context.WithCancelCause(g.life) // outlives the client's request
	round.cancel = cancel
	s.setClient(round, false)
	q.Progress, q.Timeout = round.report, max(q.Timeout, inputTimeout+g.opts.CallTimeout)
	inside := *rt
	inside.session = s
	g.wg.Go(func() {
		defer cancel(nil)
		round.raw, round.err = inside.perform(on, q)
		clean := on.Err() == nil && round.settled()
		if len(round.raw) > maxKeptResult && round.unattended() {
			round.raw, round.err = nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: "the server sent its result before the client answered the input requests, and the result is too large to keep"}
		}
		g.sessions.release(s, clean) // before the client can make its next request
		close(round.done)
	})
	return round, nil
}

// resumeInputRound resumes the round of a request that the client repeats with answers.
// state is from its requestState.
func (rt *route) resumeInputRound(ctx context.Context, q session.Request, state string) (json.RawMessage, error) {
	round := rt.g.inputs.take(state, rt.inputRoundKey(q))
	if round == nil {
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "the requestState is unknown or has expired; repeat the request without it"}
	}
	round.answer(q.Params["inputResponses"])
	return rt.g.inputs.wait(ctx, round, rt.r)
}

// inputRoundKey hashes what a request and its repetition have in common: everything except
// requestState, inputResponses and _meta.
func (rt *route) inputRoundKey(q session.Request) [32]byte {
	same := map[string]json.RawMessage{}
	for name, value := range q.Params {
		if name != "_meta" && name != "requestState" && name != "inputResponses" {
			same[name] = value
		}
	}
	return sha256.Sum256(encode([]any{q.Method, rt.server, rt.r.Principal, same}))
}

// stateOf returns the requestState of a repeated request without its prefix; false if the
// request has no requestState with this prefix.
func stateOf(params map[string]json.RawMessage, prefix string) (state string, ok bool) {
	if json.Unmarshal(params["requestState"], &state) != nil {
		return "", false
	}
	return strings.CutPrefix(state, prefix)
}
