package session

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
)

// codeInternal is the code of an error whose own cannot be read.
const codeInternal = -32603

// waiting are the requests that wait for an answer, each with what ends it. The
// transports drop an answer that they cannot decode, and its request would wait
// until its deadline.
type waiting struct {
	mu   sync.Mutex
	ends map[string]context.CancelCauseFunc // by request id
}

// add registers a request; what it returns must be called once it is over.
func (w *waiting) add(id string, end context.CancelCauseFunc) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ends == nil {
		w.ends = map[string]context.CancelCauseFunc{}
	}
	w.ends[id] = end
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.ends, id)
	}
}

// fail ends a request, if there is one.
func (w *waiting) fail(id string, err error) {
	w.mu.Lock()
	end := w.ends[id]
	w.mu.Unlock()
	if end != nil {
		end(err)
	}
}

// look sees a message before the transport does. It fails the request that the
// message answers if the transport will not be able to decode it: mostly an error
// whose code is no integer or whose message is no string.
func (s *Session) look(message []byte) {
	if bytes.HasPrefix(message, []byte(`{"jsonrpc":"2.0","method":`)) { // nearly all there are: of a flood, above all
		return
	}
	if !bytes.Contains(message, []byte(`"error"`)) && bytes.Contains(message, []byte(`"2.0"`)) {
		return
	}
	if json.Unmarshal(message, new(transport.JSONRPCResponse)) == nil {
		return
	}
	var m struct {
		ID     string          `json:"id"`
		Method json.RawMessage `json:"method"`
		Error  json.RawMessage `json:"error"`
	}
	if json.Unmarshal(message, &m) != nil || len(m.Method) > 0 {
		return
	}
	err := &RPCError{Code: codeInternal, Message: "malformed answer"}
	if len(m.Error) > 0 {
		err.Message = s.redact.text("malformed error: " + string(m.Error))
	}
	s.waiting.fail(m.ID, err)
}
