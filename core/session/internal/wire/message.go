package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

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
		if !c.message(m.Method, data) {
			m.remember(data)
			c.cfg.Handler.Notification(&m.Params)
		}
	case m.Method != mcp.MethodPing && c.cfg.Handler.Client.Request != nil:
		c.serve(bytes.Clone(m.ID), m.Method, paramsOf(data))
	default:
		c.reply(answer(m.ID, m.Method))
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
func answer(id json.RawMessage, method string) []byte {
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
