package gateway

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/printable"
)

// encode returns decoded JSON or strings as JSON on one line, without HTML escapes.
func encode(v any) json.RawMessage {
	b, _ := printable.Marshal(v) // cannot fail for decoded JSON and strings
	return b
}

func quote(s string) []byte { return encode(s) }

// fields decodes the members of a JSON object. It returns nil for any other value.
func fields(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

func isNumber(raw json.RawMessage) bool {
	var n float64
	return string(raw) != "null" && json.Unmarshal(raw, &n) == nil
}

func isBool(raw json.RawMessage) bool { return string(raw) == "true" || string(raw) == "false" }

// jsonMember is a member of a JSON object.
type jsonMember struct {
	name  string
	value json.RawMessage
	at    int // offset of the value in the object
}

// readMembers returns the members of a JSON object in order, or nil for any other value. They share the
// memory of raw, which is valid JSON: results may be large, so nothing is decoded but the names.
func readMembers(raw json.RawMessage) []jsonMember {
	at := skipSpace(raw, 0)
	if at == len(raw) || raw[at] != '{' {
		return nil
	}
	members := []jsonMember{}
	for at = skipSpace(raw, at+1); at < len(raw) && raw[at] == '"'; at = skipSpace(raw, at+1) {
		end := at + valueEnd(raw[at:])
		name := string(raw[at+1 : max(at+1, end-1)])
		if strings.Contains(name, `\`) || !utf8.ValidString(name) {
			_ = json.Unmarshal(raw[at:end], &name) // it is a string
		}
		at = skipSpace(raw, skipSpace(raw, end)+1) // after the colon
		end = at + valueEnd(raw[min(at, len(raw)):])
		members = append(members, jsonMember{name, slices.Clip(raw[min(at, len(raw)):min(end, len(raw))]), at})
		if at = skipSpace(raw, end); at >= len(raw) || raw[at] != ',' {
			break
		}
	}
	return members
}

// readElements returns the elements of a JSON array, or nil for any other value; see readMembers.
func readElements(raw json.RawMessage) []json.RawMessage {
	at := skipSpace(raw, 0)
	if at == len(raw) || raw[at] != '[' {
		return nil
	}
	elements := []json.RawMessage{}
	for at = skipSpace(raw, at+1); at < len(raw) && raw[at] != ']'; at = skipSpace(raw, at+1) {
		end := at + valueEnd(raw[at:])
		elements = append(elements, slices.Clip(raw[at:end]))
		if at = skipSpace(raw, end); at >= len(raw) || raw[at] != ',' {
			break
		}
	}
	return elements
}

func skipSpace(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\r' || b[at] == '\n') {
		at++
	}
	return at
}

// valueEnd returns the length of the JSON value at the start of b.
func valueEnd(b []byte) int {
	depth := 0
	for at := 0; at < len(b); at++ {
		switch b[at] {
		case '"':
			at += stringEnd(b[at:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return at
			}
			continue
		default:
			continue
		}
		if depth < 0 {
			return at // the end of what contains a number or literal
		}
		if depth == 0 {
			return at + 1
		}
	}
	return len(b)
}

// stringEnd returns the length of the JSON string at the start of b.
func stringEnd(b []byte) int {
	for at := 1; ; {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 {
			return len(b)
		}
		at += i + 1
		escapes := 0
		for k := at - 2; k > 0 && b[k] == '\\'; k-- {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}

// writeMembers encodes members as a JSON object; it is the inverse of readMembers.
func writeMembers(members []jsonMember) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(m.name))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// within applies f to a member of a JSON object, if present, and reports whether it changed. The
// order of the members is preserved. If several members have that name, f is applied to all of
// them.
func within(raw json.RawMessage, name string, f func(json.RawMessage) (json.RawMessage, bool)) (json.RawMessage, bool) {
	members, changed := readMembers(raw), false
	for i, m := range members {
		if m.name != name {
			continue
		}
		if value, ok := f(m.value); ok {
			members[i].value, changed = value, true
		}
	}
	if !changed {
		return raw, false
	}
	return writeMembers(members), true
}

// each applies f to the elements of a JSON array and reports whether any of them changed.
func each(raw json.RawMessage, f func(json.RawMessage) (json.RawMessage, bool)) (json.RawMessage, bool) {
	list, changed := readElements(raw), false
	for i, e := range list {
		if value, ok := f(e); ok {
			list[i], changed = value, true
		}
	}
	if !changed {
		return raw, false
	}
	return encode(list), true
}
