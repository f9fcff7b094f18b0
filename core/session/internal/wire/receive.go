package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

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

// numbered returns a response with its id as a number if it is a number in a text.
func numbered(data []byte) []byte {
	if !hasText(data, `"id"`) {
		return data
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return data
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			break
		}
		if end := int(d.InputOffset()); name == "id" && value[0] == '"' && parseID(value) != 0 {
			return slices.Concat(data[:end-len(value)], unquoted(value), data[end:])
		}
	}
	return data
}

// hasText reports whether a member with this quoted name may have a text as its value, at any depth.
func hasText(data []byte, name string) bool {
	for rest, found := data, true; found; {
		if _, rest, found = bytes.Cut(rest, []byte(name)); bytes.HasPrefix(bytes.TrimLeft(rest, blanks+":"), []byte(`"`)) {
			return found
		}
	}
	return false
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

// message is a notification or request from the server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params Notification    `json:"params"`
}

// receive handles a message from the server. It returns false for a response that the library must
// handle; malformed responses it handles itself. m is the calling goroutine's scratch memory.
func (c *Conn) receive(m *scratch, data []byte) (handled bool) {
	if n, ok := m.seen[string(data)]; ok {
		m.Params = n
		c.cfg.Handler.Notification(&m.Params)
		return true
	}
	if !bytes.Contains(data, []byte(`"method"`)) {
		return c.rejectMalformed(data)
	}
	return c.decode(m, data)
}

// decode is receive for a message that may be a notification or request.
func (c *Conn) decode(m *scratch, data []byte) (handled bool) {
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

// unhandled returns the messages in a line, event or body that the library must handle; see receive.
// Data is one message or, in 2025-03-26, a batch.
func (c *Conn) unhandled(m *scratch, data []byte) (out [][]byte) {
	var batch []json.RawMessage
	if start := bytes.TrimLeft(data, blanks); len(start) == 0 || start[0] != '[' || json.Unmarshal(data, &batch) != nil {
		if !c.receive(m, data) {
			out = [][]byte{numbered(data)}
		}
		return out
	}
	for _, one := range batch {
		if !c.receive(m, one) {
			out = append(out, append(numbered(one), '\n'))
		}
	}
	return out
}

// blanks are the characters that JSON allows between tokens.
const blanks = " \t\r\n"

// undecodable reports data that is not JSON but starts like a message. It may have been a
// notification that was garbled by a crash or by another program writing to the same pipe.
func (c *Conn) undecodable(data []byte) bool {
	if beginsLikeMessage(data) {
		c.cfg.Handler.Undecodable()
	}
	return true
}

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

// torn reports whether the end of a message is missing.
func torn(data []byte) bool {
	data = bytes.TrimRight(data, blanks)
	return len(data) > 0 && data[len(data)-1] != '}' && data[len(data)-1] != ']'
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

// rejectMalformed makes the request fail whose response the library cannot decode, such as an error
// whose code is not an integer. The library would drop the response, and the request would wait
// until its deadline. It returns false if the library must handle data.
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
		ID    ID              `json:"id"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &m) != nil {
		return false
	}
	err := &RPCError{Code: mcp.CodeInternal, Message: "malformed response"}
	if len(m.Error) > 0 {
		err = c.rpcError(malformedError(m.Error))
	}
	c.pending.fail(m.ID, err)
	return true
}

// malformedError returns what stands for the error of a response that cannot be decoded.
func malformedError(raw json.RawMessage) *sdk.JSONRPCErrorDetails {
	return &sdk.JSONRPCErrorDetails{Code: mcp.CodeInternal, Message: "malformed error response: " + string(raw)}
}

// Limits for scratch.seen, whose texts need at most 64 KiB.
const (
	maxSeen     = 128 // maximum number of messages
	maxSeenSize = 512 // maximum bytes per message
)

// scratch is memory that one goroutine reuses to decode messages.
type scratch struct {
	message
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
