package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/mcp"
)

const maxID = 1024 // maximum bytes of a request id, which responses repeat

// message is one message from a client: a request if it has an id, a notification if not, or the
// response to a request from the server.
type message struct {
	id     json.RawMessage
	method string
	params json.RawMessage            // an object or nil
	fields map[string]json.RawMessage // members of params
	meta   map[string]json.RawMessage // members of params._meta
	result json.RawMessage            // only in a response
	failed json.RawMessage            // the error, only in a response
}

func (m *message) isAnswer() bool { return m.method == "" }

// version returns the protocol version in a modern message, or an empty string for a legacy
// message.
func (m *message) version() string { return text(m.meta[mcp.MetaProtocolVersion]) }

// idKey returns a map key for a request id. Strings that are equal but escaped differently have the
// same key.
func idKey(id json.RawMessage) string {
	if len(id) > 0 && id[0] == '"' {
		return "s" + text(id)
	}
	return "n" + string(id)
}

// idText returns a request id without quotes.
func idText(id json.RawMessage) string { return idKey(id)[1:] }

// text decodes a JSON string, and returns "" for any other value.
func text(raw json.RawMessage) string {
	switch n := len(raw); {
	case n == 0:
		return ""
	case n > 1 && raw[0] == '"' && bytes.IndexByte(raw[1:], '"') == n-2 && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw):
		return string(raw[1 : n-1]) // most texts need no decoding
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// isID reports whether a JSON value is a valid request id.
func isID(id json.RawMessage) bool {
	return len(id) > 0 && len(id) <= maxID && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// parse decodes a message strictly, so that no proxy can interpret it differently: member names are
// case-sensitive and must be unique. A member of the message or of its params that is null is absent. A byte
// order mark is ignored.
// After an error, the message still contains the request id, if
// there is one.
func parse(data []byte) (*message, *Error) {
	m := &message{}
	if data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))); len(data) > 0 && data[0] == '[' {
		return m, errNoBatches()
	}
	if !json.Valid(data) || !utf8.Valid(data) {
		return m, errorf(mcp.CodeParse, "the message is not valid UTF-8 JSON")
	}
	top, err := members(data)
	if err != nil {
		return m, err
	}
	_, result := top["result"]
	_, failed := top["error"]
	for _, name := range []string{"params", "result", "error"} {
		if string(top[name]) == "null" {
			delete(top, name)
		}
	}
	if id, ok := top["id"]; ok {
		if !isID(id) {
			return m, errorf(mcp.CodeInvalidRequest, "the id must be a string or a number of at most %d bytes", maxID)
		}
		m.id = id
	}
	if text(top["jsonrpc"]) != "2.0" {
		return m, errorf(mcp.CodeInvalidRequest, `"jsonrpc" must be "2.0"`)
	}
	if raw, ok := top["method"]; ok {
		if m.method = text(raw); m.method == "" {
			return m, errorf(mcp.CodeInvalidRequest, `"method" must be a string`)
		}
	} else if !result && !failed {
		return m, errorf(mcp.CodeInvalidRequest, `"method" is missing`)
	} else {
		m.result, m.failed = top["result"], top["error"]
		return m, nil
	}
	if m.params = top["params"]; m.params == nil {
		return m, nil
	}
	if m.fields, err = members(m.params); err != nil {
		return m, errorf(mcp.CodeInvalidParams, "params: %s", err.Message)
	}
	maps.DeleteFunc(m.fields, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	if raw, ok := m.fields["_meta"]; ok {
		if m.meta, err = members(raw); err != nil {
			return m, errorf(mcp.CodeInvalidParams, "params._meta: %s", err.Message)
		}
	}
	return m, nil
}

// answer encodes the response to a request on one line, without a newline.
func answer(id, result json.RawMessage, failed *Error) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	what, body := `,"result":`, result
	if failed != nil {
		what, body = `,"error":`, failed.encode()
	}
	b := make([]byte, 0, len(id)+len(body)+48)
	b = append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
	return append(append(append(b, what...), body...), '}')
}

// notification encodes a notification. It returns nil if the params cannot be encoded.
func notification(method string, params any) []byte {
	b, err := json.Marshal(struct {
		JSONRPC string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{"2.0", method, params})
	if err != nil {
		return nil
	}
	return b
}

// member is a name and value to add to a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// with returns obj on one line with members added. Members that obj already has keep their values,
// except that members of _meta are overwritten.
func with(obj json.RawMessage, more []member) (json.RawMessage, error) {
	fields, failed := object(obj)
	if failed != nil {
		return nil, failed
	}
	var add []member
	merged := false
	for _, m := range more {
		there := fields[m.name]
		if there == nil {
			add = append(add, m)
		} else if m.name == "_meta" {
			ours, failed := object(m.value)
			theirs, err := object(there)
			if failed == nil && err == nil { // an invalid _meta stays unchanged
				maps.Copy(theirs, ours)
				fields[m.name], merged = encode(theirs), true
			}
		}
	}
	if merged {
		for _, m := range add {
			fields[m.name] = m.value
		}
		return json.Marshal(fields)
	}
	obj = oneLine(obj)
	if len(add) == 0 {
		return obj, nil
	}
	b := append(make([]byte, 0, len(obj)+256), obj[:len(obj)-1]...)
	return append(appendMembers(b, len(fields) == 0, add), '}'), nil
}

// errUnfinished reports that a Func requested input from a legacy client, which cannot supply it.
var errUnfinished = errors.New("the server requests input from the client, which requires protocol version " + mcp.ModernVersion)

// withoutEra returns obj on one line without the members that exist only in the modern era.
func withoutEra(obj json.RawMessage) (json.RawMessage, error) {
	fields, failed := object(obj)
	if failed != nil {
		return nil, failed
	}
	if kind := text(fields["resultType"]); kind != "" && kind != "complete" {
		return nil, errUnfinished
	}
	before := len(fields)
	for _, name := range []string{"resultType", "ttlMs", "cacheScope"} {
		delete(fields, name)
	}
	meta, failed := object(fields["_meta"])
	server := failed == nil && meta[mcp.MetaServerInfo] != nil
	if server {
		delete(meta, mcp.MetaServerInfo)
		if fields["_meta"] = encode(meta); len(meta) == 0 {
			delete(fields, "_meta")
		}
	}
	if !server && len(fields) == before {
		return oneLine(obj), nil
	}
	return json.Marshal(fields)
}

// oneLine converts valid JSON to one line of valid UTF-8, for stdio or an event stream.
func oneLine(raw json.RawMessage) json.RawMessage {
	if bytes.ContainsAny(raw, "\n\r") {
		var line bytes.Buffer
		line.Grow(len(raw))
		_ = json.Compact(&line, raw) // raw is valid JSON
		raw = line.Bytes()
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
	}
	return bytes.TrimSpace(raw)
}

// appendMembers appends members to a JSON object. Their names must need no escaping.
func appendMembers(b []byte, first bool, members []member) []byte {
	for _, m := range members {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(b, '"'), m.name...)
		b = append(append(b, '"', ':'), m.value...)
	}
	return b
}

// maxMembers limits the memory for a decoded object, because a map entry is much larger than the
// shortest member.
const maxMembers = 10_000

// object decodes the members of a JSON object. Their names must be unique.
func object(data []byte) (map[string]json.RawMessage, *Error) {
	if !json.Valid(data) {
		return nil, &Error{Code: mcp.CodeParse, Message: "not JSON"}
	}
	return members(data)
}

// members decodes the members of an object in JSON that is known to be valid. The values share the
// memory of data.
//
// It does not use encoding/json, which matches struct fields case-insensitively, keeps the last of
// several duplicate members, and copies every value into a map.
func members(data []byte) (map[string]json.RawMessage, *Error) {
	data = bytes.Trim(data, " \t\r\n")
	if len(data) == 0 || data[0] != '{' {
		return nil, errorf(mcp.CodeInvalidRequest, "not an object")
	}
	found := make(map[string]json.RawMessage, 4)
	for m, end, ok := rawjson.Next(data, 0); ok; m, end, ok = rawjson.Next(data, end) {
		if len(found) == maxMembers {
			return nil, errorf(mcp.CodeInvalidRequest, "an object has more than %d members", maxMembers)
		}
		if _, twice := found[m.Name]; twice {
			return nil, errorf(mcp.CodeInvalidRequest, "a member occurs twice")
		}
		found[m.Name] = m.Value
	}
	return found, nil
}
