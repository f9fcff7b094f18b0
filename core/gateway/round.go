package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	// roundState is the prefix of the requestState in the questions of a round.
	roundState   = "mcptrack-round:"
	maxQuestions = 64      // open at the same time in a round
	maxAsked     = 4 << 20 // bytes of the questions that are open in a round
	maxKept      = 1 << 20 // bytes of a result for which no client waits
	// roundPatience is how long a client may take to repeat a request with answers.
	roundPatience = 15 * time.Minute
	// gather is how long the gateway waits after a question of the server, so that
	// questions which it asks together reach the client in one result.
	gather = 5 * time.Millisecond
)

var errNoAnswer = errors.New("the client did not respond to the input request in time")

// round is a request of a client of the modern era to a server of the legacy one, in a
// session that speaks for that client alone until the request is answered. What the server
// asks becomes a result that requires input; the client repeats the request with answers.
type round struct {
	client json.RawMessage         // the client's capabilities
	owner  string                  // the client's principal
	key    [32]byte                // see roundKey
	cancel context.CancelCauseFunc // cancels the request at the server
	// asked wakes wait: questions are open. Capacity 1, sent to by request and answer,
	// received by wait; never closed.
	asked chan struct{}
	over  chan struct{}   // closed once raw and err are set
	raw   json.RawMessage // the server's result
	err   error

	mu       sync.Mutex
	last     int                // number of the last question
	open     []*question        // those that are not answered yet
	now      *mcpserver.Request // the client's request in progress; nil until it is repeated
	progress *progress          // of now; nil if now asks for none
}

// question is a request of the server that the client has not answered yet.
type question struct {
	key, method string // key is its name in inputRequests
	params      json.RawMessage
	answer      chan json.RawMessage // capacity 1, sent to at most once, never closed
}

// request makes a request of the server a question to the client, and waits for its answer.
func (d *round) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	if !canAnswer(d.client, method) {
		return nil, notFound()
	}
	q := &question{method: method, params: params, answer: make(chan json.RawMessage, 1)}
	d.mu.Lock()
	size := len(params)
	for _, o := range d.open {
		size += len(o.params)
	}
	if len(d.open) == maxQuestions || size > maxAsked {
		d.mu.Unlock()
		return nil, &session.RPCError{Code: mcp.CodeInternal, Message: "too many requests to the client are pending"}
	}
	d.last++
	q.key = "q" + strconv.Itoa(d.last)
	d.open = append(d.open, q)
	d.mu.Unlock()
	d.wake()
	select {
	case raw := <-q.answer:
		return raw, nil
	case <-ctx.Done():
		d.mu.Lock()
		defer d.mu.Unlock()
		d.open = slices.DeleteFunc(d.open, func(o *question) bool { return o == q })
		return nil, context.Cause(ctx)
	}
}

func (d *round) wake() {
	select {
	case d.asked <- struct{}{}:
	default:
	}
}

// message forwards a notification of the server on the stream of the client's request, if
// one is in progress that asks for log messages.
func (d *round) message(method string, params json.RawMessage) {
	d.mu.Lock()
	r := d.now
	d.mu.Unlock()
	if r != nil && logLevel(r) != nil {
		r.Notify(method, params)
	}
}

func (d *round) begin(*mcpserver.Request) {}
func (d *round) end(*mcpserver.Request)   {}

func (d *round) report(p session.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.progress != nil {
		d.progress.put(p)
	}
}

// answer takes the answers of a repeated request, its inputResponses. Questions that they
// do not answer are asked again.
func (d *round) answer(given json.RawMessage) {
	answers := fields(given)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = slices.DeleteFunc(d.open, func(q *question) bool {
		raw := answers[q.key]
		if !isObject(raw) {
			return false
		}
		q.answer <- raw
		return true
	})
	if len(d.open) > 0 {
		d.wake()
	}
}

// attach makes r the client's request in progress; nil: there is none.
func (d *round) attach(r *mcpserver.Request) {
	var p *progress
	if r != nil && r.ProgressToken() != nil {
		p = newProgress(r, r.ProgressToken())
	}
	d.mu.Lock()
	old := d.progress
	d.now, d.progress = r, p
	d.mu.Unlock()
	if old != nil {
		old.end()
	}
}

// questions returns the result that asks the client for input; nil if no question is open.
// The client answers by repeating the request with state in its requestState.
func (d *round) questions(state string) json.RawMessage {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.open) == 0 {
		return nil
	}
	var asked []jsonMember
	for _, q := range d.open {
		ask := []jsonMember{{name: "method", value: quote(q.method)}}
		if q.params != nil {
			ask = append(ask, jsonMember{name: "params", value: q.params})
		}
		asked = append(asked, jsonMember{name: q.key, value: writeMembers(ask)})
	}
	return writeMembers([]jsonMember{
		{name: "resultType", value: json.RawMessage(`"input_required"`)},
		{name: "inputRequests", value: writeMembers(asked)},
		{name: "requestState", value: quote(roundState + state)},
	})
}

// settled reports whether no question of the server is open.
func (d *round) settled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.open) == 0
}
