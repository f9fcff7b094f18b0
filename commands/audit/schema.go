package audit

import (
	"encoding/json"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// maxSchema limits the bytes of a schema of which more than the type is checked.
const maxSchema = 1 << 20

// checkSchema returns why a schema is not a valid JSON Schema of an object, or "" if it is: a keyword has a
// value of another type, or a reference leads out of the schema or to nothing. Patterns are not checked,
// because JSON Schema uses the syntax of ECMA-262. The schema must not be nested too deeply.
func checkSchema(raw json.RawMessage) (problem string) {
	var doc any
	if json.Unmarshal(raw, &doc) != nil {
		return "is not JSON"
	}
	root, ok := doc.(map[string]any)
	switch {
	case !ok:
		return "is not an object"
	case root["type"] != "object":
		return `does not have "type": "object"`
	case len(raw) > maxSchema:
		return ""
	}
	c := schemaCheck{root: root, named: map[string]any{}}
	c.name(root, "")
	if c.schema(root, ""); c.problem == "" {
		return ""
	}
	return "is not valid: " + printable.Line(c.problem, 200)
}

// A schemaCheck checks a schema and those within it.
type schemaCheck struct {
	root    any            // the nearest schema around that has an $id, or the whole; pointers begin here
	base    string         // its $id
	named   map[string]any // schemas by their $id
	older   bool           // its dialect is older than 2020-12
	problem string         // the first that was found
}

// name collects the schemas that have an $id.
func (c *schemaCheck) name(v any, base string) {
	switch v := v.(type) {
	case map[string]any:
		if id := idOf(v); id != "" {
			base = resolve(base, id)
			c.named[base] = v
		}
		for _, in := range v {
			c.name(in, base)
		}
	case []any:
		for _, in := range v {
			c.name(in, base)
		}
	}
}

// idOf returns the $id of a schema without its fragment, or "".
func idOf(schema map[string]any) string {
	id, _ := schema["$id"].(string)
	id, _, _ = strings.Cut(id, "#")
	return id
}

// resolve returns a reference as an absolute one, if that is possible.
func resolve(base, to string) string {
	if b, err := url.Parse(base); err == nil {
		if u, err := b.Parse(to); err == nil {
			return u.String()
		}
	}
	return to
}

// schema checks a schema, which is at a JSON pointer of the root.
func (c *schemaCheck) schema(v any, at string) {
	members, is := v.(map[string]any)
	if _, trivial := v.(bool); !is && !trivial {
		c.require(false, at)
	}
	defer func(outer schemaCheck) {
		outer.problem = c.problem
		*c = outer
	}(*c)
	if id := idOf(members); id != "" {
		c.root, c.base = v, resolve(c.base, id)
	}
	if dialect, named := members["$schema"].(string); named {
		c.older = !strings.Contains(dialect, "2020-12")
	}
	for _, keyword := range slices.Sorted(maps.Keys(members)) {
		if c.problem != "" {
			return
		}
		c.keyword(keyword, members[keyword], at+"/"+keyword)
	}
}

func (c *schemaCheck) require(ok bool, at string) {
	if !ok && c.problem == "" {
		c.problem = strings.TrimPrefix(at, "/") + " has a value that JSON Schema does not allow"
	}
}

func (c *schemaCheck) keyword(keyword string, v any, at string) {
	list, isList := v.([]any)
	members, isObject := v.(map[string]any)
	text, isString := v.(string)
	number, isNumber := v.(float64)
	_, isBool := v.(bool)
	switch keyword {
	case "$ref":
		c.require(isString, at)
		c.reference(text, at)
	case "$schema", "title", "description", "pattern", "format":
		c.require(isString, at)
	case "type":
		types := list
		if isString {
			types = []any{v}
		}
		c.require(len(types) > 0 && !slices.ContainsFunc(types, func(t any) bool {
			return !slices.Contains([]any{"array", "boolean", "integer", "null", "number", "object", "string"}, t)
		}), at)
	case "required":
		c.require(isList && !slices.ContainsFunc(list, func(v any) bool { _, is := v.(string); return !is }), at)
	case "enum", "examples":
		c.require(isList, at)
	case "uniqueItems", "deprecated", "readOnly", "writeOnly":
		c.require(isBool, at)
	case "minimum", "maximum", "multipleOf":
		c.require(isNumber, at)
	case "exclusiveMinimum", "exclusiveMaximum":
		c.require(isNumber || isBool && c.older, at)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains":
		c.require(isNumber && number >= 0 && number == math.Trunc(number), at)
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		c.require(isObject, at)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			c.schema(members[name], at+"/"+name)
		}
	case "allOf", "anyOf", "oneOf", "prefixItems":
		c.require(len(list) > 0, at)
		c.schemas(list, at)
	case "items":
		if c.older && isList {
			c.schemas(list, at)
			return
		}
		c.schema(v, at)
	case "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems":
		c.schema(v, at)
	}
}

func (c *schemaCheck) schemas(list []any, at string) {
	for i, v := range list {
		c.schema(v, at+"/"+strconv.Itoa(i))
	}
}

// reference checks that a reference leads to a place in the schema, or to the schema of a dialect. Anchors are
// not looked up.
func (c *schemaCheck) reference(to, at string) {
	address, pointer, _ := strings.Cut(to, "#")
	in, known := c.root, true
	if address != "" {
		in, known = c.named[resolve(c.base, address)]
	}
	if decoded, err := url.PathUnescape(pointer); err == nil {
		pointer = decoded
	}
	_, found := catalog.At(in, pointer)
	switch {
	case c.problem != "", strings.Contains(address, "//json-schema.org/"):
	case !known:
		c.problem = strings.TrimPrefix(at, "/") + " refers to " + to + ", which clients do not load"
	case strings.HasPrefix(pointer, "/") && !found:
		c.problem = strings.TrimPrefix(at, "/") + " refers to " + to + ", which the schema does not have"
	}
}

// undescribed returns the parameters of an input schema that have no description, sorted.
func undescribed(schema json.RawMessage) []string {
	var s struct {
		Properties map[string]map[string]any `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil // a property may be true or false
	}
	maps.DeleteFunc(s.Properties, func(_ string, p map[string]any) bool {
		text, _ := p["description"].(string)
		return text != "" || p["$ref"] != nil
	})
	return slices.Sorted(maps.Keys(s.Properties))
}
