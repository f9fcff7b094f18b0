package wire

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// maxInbound bounds the requests of a server that are being answered.
const maxInbound = 32

// Client is the client behind a connection of the legacy era; its functions may be nil.
type Client struct {
	// Request answers a request of the server, on a goroutine of its own. ctx ends when
	// the server cancels the request or the connection ends. An [*RPCError] is answered
	// as it is.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Message gets the notifications of which only a client makes use: log messages, and
	// those of elicitation and tasks. It is called by the goroutine that reads from the
	// server.
	Message func(method string, params json.RawMessage)
}

// inbound are the requests of the server that are being answered. The zero value is
// ready.
type inbound struct {
	mu     sync.Mutex
	n      int                           // being answered, or their answers being sent: at most maxInbound
	cancel map[string]context.CancelFunc // of those without an answer yet, by the request's id, as the server wrote it in JSON
}

// add registers a request. repeated means that one with this id is being answered already.
func (i *inbound) add(id string, cancel context.CancelFunc) (ok, repeated bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.cancel == nil {
		i.cancel = map[string]context.CancelFunc{}
	}
	if i.cancel[id] != nil {
		return false, true
	}
	if i.n == maxInbound {
		return false, false
	}
	i.n++
	i.cancel[id] = cancel
	return true, false
}

// remove forgets the id of a request that has been answered.
func (i *inbound) remove(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.cancel, id)
}

// done makes room for another request.
func (i *inbound) done() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n--
}

func (i *inbound) stop(id string) {
	i.mu.Lock()
	cancel := i.cancel[id]
	i.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// serve lets the client answer a request of the server. A request that is repeated while it is
// being answered, as by a stream that is resumed, gets that one answer.
func (c *Conn) serve(id json.RawMessage, method string, params json.RawMessage) {
	ctx, cancel := context.WithCancel(c.ctx)
	if ok, repeated := c.inbound.add(string(id), cancel); !ok {
		cancel()
		if repeated {
			return
		}
		c.reply(encodeAnswer(id, nil, &RPCError{Code: mcp.CodeInternal, Message: "too many requests at the same time"}))
		return
	}
	if !c.group.Go(func() {
		defer cancel()
		defer c.inbound.done()
		result, err := c.cfg.Handler.Client.Request(ctx, method, params)
		c.inbound.remove(string(id))
		switch {
		case ctx.Err() != nil: // a cancelled request is not answered
		case c.http != nil:
			postAnswer(c, encodeAnswer(id, result, err))
		default:
			c.reply(encodeAnswer(id, result, err))
		}
	}) {
		c.inbound.remove(string(id))
		c.inbound.done()
		cancel()
	}
}

// message gives a notification to the client if it is one of those for Client.Message; it
// reports whether it did. notifications/cancelled stops the answer to a request.
func (c *Conn) message(method string, data []byte) bool {
	if c.cfg.Handler.Client.Request != nil && method == mcp.NotificationCancelled {
		var m struct {
			Params struct {
				ID json.RawMessage `json:"requestId"`
			} `json:"params"`
		}
		_ = json.Unmarshal(data, &m) // without an id nothing is stopped
		c.inbound.stop(string(m.Params.ID))
		return false
	}
	forClient := method == mcp.NotificationMessage || strings.HasPrefix(method, "notifications/elicitation/") ||
		method == mcp.NotificationTask || method == mcp.NotificationTaskStatus
	if !forClient || c.cfg.Handler.Client.Message == nil {
		return false
	}
	c.cfg.Handler.Client.Message(method, paramsOf(data))
	return true
}

// paramsOf returns a copy of the params of a message; nil if there are none.
func paramsOf(data []byte) json.RawMessage {
	var m struct {
		Params json.RawMessage `json:"params"`
	}
	_ = json.Unmarshal(data, &m) // valid: the message was decoded
	return m.Params
}

func encodeAnswer(id, result json.RawMessage, err error) []byte {
	type rpcError struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	}
	answer := struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result,omitempty"`
		Error   *rpcError       `json:"error,omitempty"`
	}{"2.0", id, result, nil}
	if err != nil {
		answer.Result, answer.Error = nil, &rpcError{Code: mcp.CodeInternal, Message: err.Error()}
		if e, ok := errors.AsType[*RPCError](err); ok {
			answer.Error = &rpcError{e.Code, e.Message, e.Data}
		}
	} else if result == nil {
		answer.Result = json.RawMessage("{}")
	}
	b, _ := json.Marshal(answer) // of raw messages that were decoded before
	return b
}
