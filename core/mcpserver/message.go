package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/mcp"
)

const maxID = 1024 // bytes of a request id, which responses repeat

// message is one message of a client: a request if it has an id, else a notification; or the
// response to one of our requests.
type message struct {
	id     json.RawMessage
	method string
	params json.RawMessage            // an object, or nil
	fields map[string]json.RawMessage // of params
	meta   map[string]json.RawMessage // params._meta
	result json.RawMessage            // of a response
	failed json.RawMessage            // the error of a response
}

func (m *message) isAnswer() bool { return m.method == "" }

// version returns the protocol version of a modern message; "" for others.
func (m *message) version() string { return text(m.meta[mcp.MetaProtocolVersion]) }

// idKey normalizes a request id: differently escaped forms of a string have the same key.
func idKey(id json.RawMessage) string {
	if len(id) > 0 && id[0] == '"' {
		return "s" + text(id)
	}
	return "n" + string(id)
}

func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// isID reports whether a JSON value can be the id of a request.
func isID(id json.RawMessage) bool {
	return len(id) > 0 && len(id) <= maxID && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// parse is strict where two parsers could disagree: member names are case-sensitive and unique. If
// it fails, the message holds the id, if there is one.
func parse(data []byte) (*message, *Error) {
	m := &message{}
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '[' {
		return m, errorf(mcp.CodeInvalidRequest, "batches are not supported")
	}
	if !json.Valid(data) || !utf8.Valid(data) {
		return m, errorf(mcp.CodeParse, "the message is not JSON in UTF-8")
	}
	top, err := members(data)
	if err != nil {
		return m, err
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
	} else if top["result"] == nil && top["error"] == nil {
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
	if raw, ok := m.fields["_meta"]; ok {
		if m.meta, err = members(raw); err != nil {
			return m, errorf(mcp.CodeInvalidParams, "params._meta: %s", err.Message)
		}
	}
	return m, nil
}

// answer encodes the response to a request in one line, without the line end.
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

// notification encodes a notification; nil if the params cannot be encoded.
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

// member is one member to add to an object.
type member struct {
	name  string
	value json.RawMessage
}

// with returns obj in one line with members added. Existing members keep their values; existing
// members of _meta do not.
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
			if failed == nil && err == nil { // else leave an invalid _meta unchanged
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

// errUnfinished is the error of a result that requests input from a legacy client.
var errUnfinished = errors.New("the server requests input from the client, which needs protocol version " + mcp.ModernVersion)

// withoutEra returns obj in one line without the members that exist only in the modern era.
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

// oneLine converts valid JSON to one line of valid UTF-8, for output or an event.
func oneLine(raw json.RawMessage) json.RawMessage {
	if bytes.ContainsAny(raw, "\n\r") {
		var line bytes.Buffer
		line.Grow(len(raw))
		_ = json.Compact(&line, raw) // it is valid
		raw = line.Bytes()
	}
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
	}
	return bytes.TrimSpace(raw)
}

// appendMembers appends members whose names need no escaping.
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

// maxMembers bounds the memory of a decoded object: a map entry is far larger than the shortest
// member.
const maxMembers = 10_000

// object decodes the members of a JSON object. Their names must be unique.
func object(data []byte) (map[string]json.RawMessage, *Error) {
	if !json.Valid(data) {
		return nil, errorf(mcp.CodeParse, "not JSON")
	}
	return members(data)
}

// members is object for valid JSON. The values share the memory of data.
//
// It does not use encoding/json, which matches struct fields case-insensitively, keeps the last of
// duplicate members, and copies every value into a map.
func members(data []byte) (map[string]json.RawMessage, *Error) {
	data = bytes.Trim(data, " \t\r\n")
	if len(data) == 0 || data[0] != '{' {
		return nil, errorf(mcp.CodeInvalidRequest, "not an object")
	}
	found := make(map[string]json.RawMessage, 4)
	for rest := skipSpace(data[1:]); rest[0] != '}'; {
		end := stringEnd(rest)
		name := rest[1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = []byte(text(json.RawMessage(rest[:end])))
		}
		rest = skipSpace(skipSpace(rest[end:])[1:]) // the colon
		end = valueEnd(rest)
		if len(found) == maxMembers {
			return nil, errorf(mcp.CodeInvalidRequest, "an object has more than %d members", maxMembers)
		}
		if _, twice := found[string(name)]; twice {
			return nil, errorf(mcp.CodeInvalidRequest, "a member occurs twice")
		}
		found[string(name)] = slices.Clip(json.RawMessage(rest[:end]))
		if rest = skipSpace(rest[end:]); rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return found, nil
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// stringEnd returns the length of the string at the beginning of b.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// valueEnd returns the length of the value at the beginning of b.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(b)
}
