package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/process"
)

// Notification is a notification from the server, with the members of params that a session uses. A
// member that is missing or has the wrong type is zero.
type Notification struct {
	Method        string                  `json:"-"`
	Malformed     bool                    `json:"-"` // whether a member had the wrong type
	Raw           json.RawMessage         `json:"-"` // a copy of all params; only for MCP Events
	Meta          meta                    `json:"_meta"`
	URI           string                  `json:"uri"`
	RequestID     ID                      `json:"requestId"`
	Honoured      *mcp.SubscriptionFilter `json:"notifications"` // in an acknowledgement; nil if absent
	ProgressToken ID                      `json:"progressToken"`
	Progress      *float64                `json:"progress"`
	Total         float64                 `json:"total"`
	Message       string                  `json:"message"`
}

// ID is the id of a request that this client sent, which it also uses as the request's progress token.
// It is an integer above 0, because some servers do not answer requests with other ids.
type ID int64

// UnmarshalJSON implements [json.Unmarshaler]. The value is 0, which is never an id, unless raw is an
// integer. Some servers keep ids as texts; "5" is 5.
func (id *ID) UnmarshalJSON(raw []byte) error {
	*id = parseID(raw)
	return nil
}

func parseID(raw []byte) ID {
	n, err := strconv.ParseFloat(string(unquoted(raw)), 64) // some servers answer 5 as 5.0
	if err != nil || n != math.Trunc(n) {
		return 0
	}
	return ID(n)
}

func unquoted(raw []byte) []byte {
	if len(raw) > 1 && raw[0] == '"' {
		return raw[1 : len(raw)-1]
	}
	return raw
}

type meta struct {
	Subscription SubscriptionID `json:"io.modelcontextprotocol/subscriptionId"`
}

// SubscriptionID identifies the subscriptions/listen to which a notification belongs.
type SubscriptionID struct {
	Present bool
	ID      ID
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *SubscriptionID) UnmarshalJSON(raw []byte) error {
	s.Present, s.ID = true, parseID(raw)
	return nil
}

// message is a message from the server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params Notification    `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// handle handles the messages in a line or event: one or, in 2025-03-26, a batch. m is the calling
// goroutine's scratch memory. Data that is not JSON may have been a notification that was garbled by a
// crash or by another program writing to the same pipe, if it starts like a message.
func (c *Conn) handle(m *scratch, data []byte) {
	if !c.receive(m, data) && beginsLikeMessage(data) {
		c.cfg.Handler.Undecodable()
	}
}

// receive is handle without a report of what is not JSON: it returns false. Afterwards, m contains the
// last message.
func (c *Conn) receive(m *scratch, data []byte) (decoded bool) {
	if n, ok := m.seen[string(data)]; ok {
		m.Params = n
		c.cfg.Handler.Notification(&m.Params)
		return true
	}
	var batch []json.RawMessage
	if start := bytes.TrimLeft(data, blanks); len(start) == 0 || start[0] != '[' || json.Unmarshal(data, &batch) != nil {
		return c.receiveOne(m, data)
	}
	for _, one := range batch {
		c.receiveOne(m, one)
	}
	return true
}

func (c *Conn) receiveOne(m *scratch, data []byte) (decoded bool) {
	m.message = message{ID: m.ID[:0]}
	if err := json.Unmarshal(data, &m.message); err != nil {
		if _, m.Params.Malformed = errors.AsType[*json.UnmarshalTypeError](err); !m.Params.Malformed {
			return false
		}
	}
	switch {
	case m.Method == "":
		c.answer(m)
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

// answer passes a response to the request that waits for it.
func (c *Conn) answer(m *scratch) {
	id, failed := parseID(m.ID), len(m.Error) > 0 && string(m.Error) != "null"
	if id == 0 && failed {
		id = m.request
	}
	f, ok := c.pending.take(id)
	if !ok {
		return
	}
	a := answer{result: m.Result}
	if failed {
		a.result = nil
		a.err, _ = c.rpcError(m.Error)
	}
	f.answer <- a
	if c.http != nil && m.request != id { // the HTTP request may never end
		time.AfterFunc(restPatience, f.cancel)
	}
}

// blanks are the characters that JSON allows between tokens.
const blanks = " \t\r\n"

// tooLong handles a line that was skipped because of its length. A response fails its request; any
// other line may have been a notification.
func (c *Conn) tooLong(line *process.LongLineError) {
	// Only an "id" next to the first or last brace is certain to belong to the message.
	const number, version, blank = `"id"\s*:\s*(\d+)\s*`, `"jsonrpc"\s*:\s*"2\.0"\s*`, `\s*`
	atHead := regexp.MustCompile(`^\{` + blank + `(?:` + version + `,` + blank + `)?` + number + `,`)
	atTail := regexp.MustCompile(`,` + blank + number + `(?:,` + blank + version + `)?\}` + blank + `$`)
	found := atHead.FindSubmatch(line.Head)
	if found == nil {
		found = atTail.FindSubmatch(line.Tail)
	}
	if found == nil {
		c.cfg.Handler.Undecodable()
		return
	}
	c.pending.fail(parseID(found[1]), &TooLargeError{"line", "line", int64(line.Limit)})
}

// beginsLikeMessage reports whether data starts with a member of an object, or with an object in a
// batch. A single brace or bracket is not sufficient, because log lines also start with them.
func beginsLikeMessage(data []byte) bool {
	data = bytes.TrimLeft(data, blanks)
	if len(data) == 0 {
		return false
	}
	rest := bytes.TrimLeft(data[1:], blanks)
	return len(rest) > 0 && (data[0] == '{' && rest[0] == '"' || data[0] == '[' && rest[0] == '{')
}

// defaultAnswer returns the response to a request that no client answers: an empty result for ping,
// and an error for any other method. The session declares no capability for these methods, but a
// server that calls one anyway must not be left waiting.
func defaultAnswer(id json.RawMessage, method string) []byte {
	if method == mcp.MethodPing {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"method not found"}}`, id, mcp.CodeMethodNotFound)
}

// Limits for scratch.seen, whose texts need at most 64 KiB.
const (
	maxSeen     = 128 // maximum number of messages
	maxSeenSize = 512 // maximum bytes per message
)

// scratch is memory that one goroutine reuses to decode messages.
type scratch struct {
	message
	// request is the request in whose HTTP response the messages are; 0 if they are in none. An error
	// without an id, from a server that could not read the request, answers it.
	request ID
	// seen caches decoded notifications that only announce a change, keyed by the text of the
	// message. A server that announces the same change repeatedly sends the same text, and decoding
	// it would be most of the work.
	seen map[string]Notification
}

// remember caches the notification that was just decoded from data, if it is suitable for seen.
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
		for text := range m.seen { // evicts an arbitrary entry
			delete(m.seen, text)
			break
		}
	}
	m.seen[string(data)] = m.Params
}

// maxInbound limits how many requests from the server are answered at the same time.
const maxInbound = 32

// inbound tracks the requests from the server that are being answered. The zero value is ready to
// use.
type inbound struct {
	mu     sync.Mutex
	n      int                           // requests whose response is being created or sent; at most maxInbound
	cancel map[string]context.CancelFunc // unanswered requests, by id as JSON
}

// add registers a request. repeated reports that a request with this id is already being answered.
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

// remove removes the id of a request that has been answered.
func (i *inbound) remove(id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.cancel, id)
}

// done releases the slot of a request, so that another can be answered.
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

// serve lets the client answer a request from the server. If the request is repeated, as after a
// stream was resumed, only one response is sent.
func (c *Conn) serve(id json.RawMessage, method string, params json.RawMessage) {
	ctx, cancel := context.WithCancel(c.ctx)
	if ok, repeated := c.inbound.add(string(id), cancel); !ok {
		cancel()
		if repeated {
			return
		}
		c.reply(encodeAnswer(id, nil, &RPCError{Code: mcp.CodeInternal, Message: "too many concurrent requests"}))
		return
	}
	if c.cfg.Handler.Asked != nil {
		c.cfg.Handler.Asked(method)
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

// forClient passes a notification to Handler.ClientMessage if only a client can use it, and reports
// whether it did. A notifications/cancelled cancels a request that is being answered.
func (c *Conn) forClient(method string, data []byte) bool {
	if c.cfg.Handler.Request != nil && method == mcp.NotificationCancelled {
		var m struct {
			Params struct {
				ID json.RawMessage `json:"requestId"`
			} `json:"params"`
		}
		_ = json.Unmarshal(data, &m) // without an id, nothing is cancelled
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

// paramsOf returns a copy of a message's params, or nil if it has none.
func paramsOf(data []byte) json.RawMessage {
	var m struct {
		Params json.RawMessage `json:"params"`
	}
	_ = json.Unmarshal(data, &m) // data is valid JSON
	return m.Params
}

func encodeAnswer(id, result json.RawMessage, err error) []byte {
	answer := struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result,omitempty"`
		Error   *RPCError       `json:"error,omitempty"`
	}{"2.0", id, result, nil}
	if err != nil {
		answer.Result = nil
		if e, ok := errors.AsType[*RPCError](err); ok {
			answer.Error = e
		} else {
			answer.Error = &RPCError{Code: mcp.CodeInternal, Message: err.Error()}
		}
	} else if result == nil {
		answer.Result = json.RawMessage("{}")
	}
	b, _ := json.Marshal(answer) // of raw messages that were decoded before
	return b
}
