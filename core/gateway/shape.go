package gateway

import (
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// member describes a member of a list item, as far as clients validate it.
type member struct {
	name     string
	required bool
	want     string // the expected type, for messages
	is       func(json.RawMessage) bool
}

// shape returns the members of the items of a kind, as in
// https://modelcontextprotocol.io/specification/2025-11-25/schema and the schema of
// 2026-07-28. Other members are forwarded unchanged.
func shape(k catalog.Kind) []member {
	text := func(name string) member { return member{name: name, want: "a string", is: isString} }
	object := func(name string) member { return member{name: name, want: "an object", is: isObject} }
	need := func(m member) member {
		m.required = true
		return m
	}
	members := []member{text("title"), text("description"), object("_meta"), {name: "icons", want: "a list of icons", is: isIcons}}
	switch k {
	case catalog.Tools:
		return append(members,
			member{name: "inputSchema", required: true, want: `a schema of type "object"`, is: isObjectSchema},
			object("outputSchema"), object("execution"),
			member{name: "annotations", want: "an object of hints", is: isHints})
	case catalog.Prompts:
		return append(members, member{name: "arguments", want: "a list of arguments", is: isArguments})
	default:
		return append(members, need(text("name")), text("mimeType"),
			member{name: "size", want: "a number", is: isNumber},
			member{name: "annotations", want: "an object of annotations", is: isAnnotations})
	}
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

func isNumber(raw json.RawMessage) bool {
	var n float64
	return string(raw) != "null" && json.Unmarshal(raw, &n) == nil
}

func isBool(raw json.RawMessage) bool { return string(raw) == "true" || string(raw) == "false" }

// fields decodes the members of an object; nil for any other value.
func fields(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	return m
}

// have reports whether is holds for each of the named members; one that is absent counts as
// valid.
func have(m map[string]json.RawMessage, is func(json.RawMessage) bool, names ...string) bool {
	for _, name := range names {
		if raw, there := m[name]; there && !is(raw) {
			return false
		}
	}
	return true
}

// elements reports whether raw is an array of objects that satisfy are.
func elements(raw json.RawMessage, are func(map[string]json.RawMessage) bool) bool {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		return false
	}
	for _, e := range list {
		if m := fields(e); m == nil || !are(m) {
			return false
		}
	}
	return true
}

func isObjectSchema(raw json.RawMessage) bool {
	m := fields(raw)
	return string(m["type"]) == `"object"` && have(m, isObject, "properties")
}

func isHints(raw json.RawMessage) bool {
	m := fields(raw)
	return m != nil && have(m, isString, "title") &&
		have(m, isBool, "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
}

func isIcons(raw json.RawMessage) bool {
	return elements(raw, func(m map[string]json.RawMessage) bool {
		return isString(m["src"]) && have(m, isString, "mimeType")
	})
}

func isArguments(raw json.RawMessage) bool {
	return elements(raw, func(m map[string]json.RawMessage) bool {
		return isString(m["name"]) && have(m, isString, "title", "description") && have(m, isBool, "required")
	})
}

func isAnnotations(raw json.RawMessage) bool {
	m := fields(raw)
	if m == nil || !have(m, isString, "lastModified") {
		return false
	}
	if p, there := m["priority"]; there {
		var n float64
		if string(p) == "null" || json.Unmarshal(p, &n) != nil || n < 0 || n > 1 {
			return false
		}
	}
	if a, there := m["audience"]; there {
		var roles []string
		if json.Unmarshal(a, &roles) != nil || roles == nil {
			return false
		}
		for _, r := range roles {
			if r != "user" && r != "assistant" {
				return false
			}
		}
	}
	return true
}
