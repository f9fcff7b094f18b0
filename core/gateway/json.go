package gateway

import (
	"bytes"
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/printable"
)

// encode returns decoded JSON or strings as JSON on one line, without HTML escapes.
func encode(v any) json.RawMessage {
	b, _ := printable.Marshal(v) // cannot fail for decoded JSON and strings
	return b
}

func quote(s string) []byte { return encode(s) }

// fields returns the members of a JSON object, which share its memory. It returns nil for any other value.
func fields(raw json.RawMessage) map[string]json.RawMessage {
	members := rawjson.Members(raw)
	if members == nil {
		return nil
	}
	m := make(map[string]json.RawMessage, len(members))
	for _, one := range members {
		m[one.Name] = one.Value
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

// writeMembers encodes members as a JSON object; it is the inverse of rawjson.Members.
func writeMembers(members []rawjson.Member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quote(m.Name))
		b.WriteByte(':')
		b.Write(m.Value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// within applies f to a member of a JSON object, if present, and reports whether it changed. The
// order of the members is preserved. If several members have that name, f is applied to all of
// them.
func within(raw json.RawMessage, name string, f func(json.RawMessage) (json.RawMessage, bool)) (json.RawMessage, bool) {
	members, changed := rawjson.Members(raw), false
	for i, m := range members {
		if m.Name != name {
			continue
		}
		if value, ok := f(m.Value); ok {
			members[i].Value, changed = value, true
		}
	}
	if !changed {
		return raw, false
	}
	return writeMembers(members), true
}

// each applies f to the elements of a JSON array and reports whether any of them changed.
func each(raw json.RawMessage, f func(json.RawMessage) (json.RawMessage, bool)) (json.RawMessage, bool) {
	list, changed := rawjson.Elements(raw), false
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
