package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/process"
)

// Notification is a notification of the server: the members of params that a session
// acts on. A member that is missing or has a wrong type is zero.
type Notification struct {
	Method        string                  `json:"-"`
	Malformed     bool                    `json:"-"` // a member had a wrong type
	Raw           json.RawMessage         `json:"-"` // all params, a copy; only of MCP Events
	Meta          meta                    `json:"_meta"`
	URI           string                  `json:"uri"`
	RequestID     string                  `json:"requestId"`     // ours are strings; "" for any other
	Honoured      *mcp.SubscriptionFilter `json:"notifications"` // of an acknowledgement; nil if absent
	ProgressToken string                  `json:"progressToken"` // ours are strings; "" for any other
	Progress      *float64                `json:"progress"`
	Total         float64                 `json:"total"`
	Message       string                  `json:"message"`
}

type meta struct {
	Subscription SubscriptionID `json:"io.modelcontextprotocol/subscriptionId"`
}

// SubscriptionID names the subscriptions/listen that a notification belongs to.
type SubscriptionID struct {
	Present bool
	ID      string // "" if it is not a string: the ids that we send are strings
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *SubscriptionID) UnmarshalJSON(raw []byte) error {
	s.Present = true
	if raw[0] == '"' {
		return json.Unmarshal(raw, &s.ID)
	}
	return nil
}

// message is a notification or a request of the server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params Notification    `json:"params"`
}

// receive handles a message of the server. It reports false for an answer, which the
// transport has to handle, unless the transport could not decode it. m is scratch space
// of the calling goroutine.
func (c *Conn) receive(m *scratch, data []byte) (handled bool) {
	if n, ok := m.seen[string(data)]; ok {
		m.Params = n
		c.cfg.Handler.Notification(&m.Params)
		return true
	}
	if !bytes.Contains(data, []byte(`"method"`)) {
		return c.rejectMalformed(data)
	}
	m.message = message{ID: m.ID[:0]}
	if err := json.Unmarshal(data, &m.message); err != nil {
		if _, m.Params.Malformed = errors.AsType[*json.UnmarshalTypeError](err); !m.Params.Malformed {
			return c.undecodable(data)
		}
	}
	switch {
	case m.Method == "":
		return c.rejectMalformed(data)
	case len(m.ID) == 0 || string(m.ID) == "null":
		m.Params.Method = m.Method
		if strings.HasPrefix(m.Method, mcp.EventsNotificationPrefix) {
			m.Params.Raw = paramsOf(data)
		}
		if !c.forClient(m.Method, data) {
			m.remember(data)
			c.cfg.Handler.Notification(&m.Params)
		}
	case m.Method != mcp.MethodPing && c.cfg.Handler.Request != nil:
		c.serve(bytes.Clone(m.ID), m.Method, paramsOf(data))
	default:
		c.reply(defaultAnswer(m.ID, m.Method))
	}
	return true
}

// undecodable reports data that is not JSON, but begins like a message: it may have been
// a notification, before a crash or another writer to the same pipe spoilt it.
func (c *Conn) undecodable(data []byte) bool {
	if beginsLikeMessage(data) {
		c.cfg.Handler.Undecodable()
	}
	return true
}

// tooLong handles a line that was skipped because of its length: it fails the request that it
// answers. Any other may have been a notification.
func (c *Conn) tooLong(line *process.LongLineError) {
	// The members beside the first brace, and beside the last, belong to the message,
	// wherever else "id" occurs.
	const id, version, blank = `"id"\s*:\s*"([^"\\]*)"\s*`, `"jsonrpc"\s*:\s*"2\.0"\s*`, `\s*`
	atHead := regexp.MustCompile(`^\{` + blank + `(?:` + version + `,` + blank + `)?` + id + `,`)
	atTail := regexp.MustCompile(`,` + blank + id + `(?:,` + blank + version + `)?\}` + blank + `$`)
	found := atHead.FindSubmatch(line.Head)
	if found == nil {
		found = atTail.FindSubmatch(line.Tail)
	}
	if found == nil {
		c.cfg.Handler.Undecodable()
		return
	}
	c.pending.fail(string(found[1]), &TooLargeError{"line", "line", int64(line.Limit)})
}

// beginsLikeMessage reports whether data begins with a member of an object, or an object
// in a batch: lines of logs begin with a brace or a bracket, too.
func beginsLikeMessage(data []byte) bool {
	const blank = " \t\r\n"
	data = bytes.TrimLeft(data, blank)
	if len(data) == 0 {
		return false
	}
	rest := bytes.TrimLeft(data[1:], blank)
	return len(rest) > 0 && (data[0] == '{' && rest[0] == '"' || data[0] == '[' && rest[0] == '{')
}

// torn reports whether data lacks the end of a message.
func torn(data []byte) bool {
	data = bytes.TrimRight(data, " \t\r\n")
	return len(data) > 0 && data[len(data)-1] != '}' && data[len(data)-1] != ']'
}

// answer returns the answer to a request of the server that no client answers: an empty
// result for ping, and an error for any other method. No capability was offered for
// these; a server that calls one all the same must not wait.
func defaultAnswer(id json.RawMessage, method string) []byte {
	if method == mcp.MethodPing {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"method not found"}}`, id, mcp.CodeMethodNotFound)
}

// rejectMalformed fails the request whose answer the transport cannot decode, mostly
// an error whose code is not an integer or whose message is not a string: the
// transport would drop the answer, and the request would wait until its deadline. It
// reports false if data is left to the transport.
func (c *Conn) rejectMalformed(data []byte) bool {
	if torn(data) && !json.Valid(data) {
		return c.undecodable(data)
	}
	if !bytes.Contains(data, []byte(`"error"`)) && bytes.Contains(data, []byte(`"2.0"`)) {
		return false
	}
	if json.Unmarshal(data, new(transport.JSONRPCResponse)) == nil {
		return false
	}
	var m struct {
		ID    string          `json:"id"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &m) != nil {
		return false
	}
	err := &RPCError{Code: mcp.CodeInternal, Message: "malformed response"}
	if len(m.Error) > 0 {
		err.Message = c.cfg.Redact("malformed error response: " + string(m.Error))
	}
	c.pending.fail(m.ID, err)
	return true
}

// Bounds of scratch.seen, so that its texts take 64 KiB at most.
const (
	maxSeen     = 128 // messages
	maxSeenSize = 512 // bytes of a message
)

// scratch is the memory in which one goroutine decodes messages.
type scratch struct {
	message
	// seen holds decoded notifications that say no more than that something changed, by
	// the text of their messages. A server that announces the same change again and again
	// sends the same text, and decoding it would be most of the work.
	seen map[string]Notification
}

// remember adds the notification that was decoded last, from data, to seen if it belongs
// there.
func (m *scratch) remember(data []byte) {
	switch m.Method {
	case mcp.NotificationResourceUpdated, mcp.NotificationResourcesChanged, mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged:
	default:
		return
	}
	if len(data) > maxSeenSize || m.Params.Malformed {
		return
	}
	if m.seen == nil {
		m.seen = make(map[string]Notification)
	}
	if len(m.seen) >= maxSeen {
		for text := range m.seen { // any
			delete(m.seen, text)
			break
		}
	}
	m.seen[string(data)] = m.Params
}

// maxInbound bounds the requests of a server that are being answered.
const maxInbound = 32

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
		result, err := c.cfg.Handler.Request(ctx, method, params)
		c.inbound.remove(string(id))
		switch {
		case ctx.Err() != nil: // a cancelled request is not answered
		case c.http != nil:
			c.postAnswer(encodeAnswer(id, result, err))
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
func (c *Conn) forClient(method string, data []byte) bool {
	if c.cfg.Handler.Request != nil && method == mcp.NotificationCancelled {
		var m struct {
			Params struct {
				ID json.RawMessage `json:"requestId"`
			} `json:"params"`
		}
		_ = json.Unmarshal(data, &m) // without an id nothing is stopped
		c.inbound.stop(string(m.Params.ID))
		return false
	}
	ours := method == mcp.NotificationMessage || strings.HasPrefix(method, "notifications/elicitation/") ||
		method == mcp.NotificationTask || method == mcp.NotificationTaskStatus
	if !ours || c.cfg.Handler.ClientMessage == nil {
		return false
	}
	c.cfg.Handler.ClientMessage(method, paramsOf(data))
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
