package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Clients validate whole lists and results: the official TypeScript SDK rejects all tools because of
// one member of one tool. So what a server sends is mended before clients get it: a member that is
// null is absent, a member with another value than clients accept is left out, and so is an element
// of a list. Only an item without a member that is required is left out itself. Members that are not
// specified are forwarded unchanged.

// shape returns a value as clients accept it. If they would reject it, problem completes a sentence
// about the value, such as "is not a string".
type shape func(m *mender, raw json.RawMessage) (mended json.RawMessage, problem string)

// mender collects what is left out of one value.
type mender struct {
	path []string
	left []string
}

func (m *mender) leave(name, problem string) {
	path := strings.ReplaceAll(strings.Join(append(slices.Clone(m.path), name), "."), ".[]", "[]")
	what := path + " (it " + problem + ")"
	if !slices.Contains(m.left, what) {
		m.left = append(m.left, what)
	}
}

func (m *mender) within(name string, of shape, raw json.RawMessage) (json.RawMessage, string) {
	m.path = append(m.path, name)
	defer func() { m.path = m.path[:len(m.path)-1] }()
	return of(m, raw)
}

// shapeMember is a member of an object that clients validate.
type shapeMember struct {
	name     string
	of       shape
	required bool
}

func required(name string, of shape) shapeMember { return shapeMember{name, of, true} }
func optional(name string, of shape) shapeMember { return shapeMember{name: name, of: of} }

// value returns the shape of values for which is returns true, which are described by want.
func value(want string, is func(json.RawMessage) bool) shape {
	return func(_ *mender, raw json.RawMessage) (json.RawMessage, string) {
		if !is(raw) {
			return nil, "is not " + want
		}
		return raw, ""
	}
}

func textShape(m *mender, raw json.RawMessage) (json.RawMessage, string) {
	return value("a string", isString)(m, raw)
}

func objectShape(m *mender, raw json.RawMessage) (json.RawMessage, string) {
	return value("an object", isObject)(m, raw)
}

func boolShape(m *mender, raw json.RawMessage) (json.RawMessage, string) {
	return value("true or false", isBool)(m, raw)
}

func oneOf(values ...string) shape {
	return value(`"`+strings.Join(values, `" or "`)+`"`, func(raw json.RawMessage) bool {
		var text string
		return isString(raw) && json.Unmarshal(raw, &text) == nil && slices.Contains(values, text)
	})
}

func objectOf(members ...shapeMember) shape {
	return func(m *mender, raw json.RawMessage) (json.RawMessage, string) { return m.object(members, raw) }
}

func (m *mender) object(members []shapeMember, raw json.RawMessage) (json.RawMessage, string) {
	if !isObject(raw) {
		return nil, "is not an object"
	}
	all, changed := rawjson.Members(raw), false
	kept := all[:0]
	for _, one := range all {
		i := slices.IndexFunc(members, func(s shapeMember) bool { return s.name == one.Name })
		if i < 0 {
			kept = append(kept, one)
			continue
		}
		if string(one.Value) == "null" {
			changed = true
			continue
		}
		mended, problem := m.within(one.Name, members[i].of, one.Value)
		switch {
		case problem == "":
			changed = changed || !bytes.Equal(mended, one.Value)
			one.Value = mended
			kept = append(kept, one)
		case members[i].required:
			return nil, "has a member " + one.Name + " that " + problem
		default:
			changed = true
			m.leave(one.Name, problem)
		}
	}
	for _, s := range members {
		if s.required && !slices.ContainsFunc(kept, func(one rawjson.Member) bool { return one.Name == s.name }) {
			return nil, "has no " + s.name
		}
	}
	if !changed {
		return raw, ""
	}
	return writeMembers(kept), ""
}

func elementsOf(of shape) shape {
	return func(m *mender, raw json.RawMessage) (json.RawMessage, string) { return m.elements(of, raw) }
}

func (m *mender) elements(of shape, raw json.RawMessage) (json.RawMessage, string) {
	all := rawjson.Elements(raw)
	if all == nil {
		return nil, "is not a list"
	}
	kept, changed := all[:0], false
	for _, e := range all {
		mended, problem := m.within("[]", of, e)
		if problem != "" {
			m.leave("[]", problem)
			changed = true
			continue
		}
		changed = changed || !bytes.Equal(mended, e)
		kept = append(kept, mended)
	}
	if !changed {
		return raw, ""
	}
	return encode(kept), ""
}

// schemaOf returns the shape of a JSON Schema. Clients accept only objects as schemas of properties.
func schemaOf(members ...shapeMember) shape {
	properties := func(_ *mender, raw json.RawMessage) (json.RawMessage, string) {
		if !isObject(raw) {
			return nil, "is not an object"
		}
		all, changed := rawjson.Members(raw), false
		for i, p := range all {
			if isObject(p.Value) {
				continue
			}
			all[i].Value, changed = json.RawMessage(`{}`), true
			if string(p.Value) == "false" {
				all[i].Value = json.RawMessage(`{"not":{}}`)
			}
		}
		if !changed {
			return raw, ""
		}
		return writeMembers(all), ""
	}
	return objectOf(append(members, optional("$schema", textShape), optional("properties", properties), optional("required", elementsOf(textShape)))...)
}

// itemShape returns the shape of the items of a kind, according to
// https://modelcontextprotocol.io/specification/2025-11-25/schema and the schema of 2026-07-28.
func itemShape(k catalog.Kind) shape {
	text := textShape
	members := []shapeMember{required(k.KeyField(), text), optional("title", text), optional("description", text), optional("_meta", objectShape), optional("icons", elementsOf(iconShape))}
	switch k {
	case catalog.Tools:
		return objectOf(append(members,
			required("inputSchema", schemaOf(required("type", oneOf("object")))),
			optional("outputSchema", schemaOf()),
			optional("execution", objectOf(optional("taskSupport", oneOf("required", "optional", "forbidden")))),
			optional("annotations", objectOf(optional("title", text), optional("readOnlyHint", boolShape), optional("destructiveHint", boolShape),
				optional("idempotentHint", boolShape), optional("openWorldHint", boolShape))))...)
	case catalog.Prompts:
		return objectOf(append(members, optional("arguments", elementsOf(objectOf(
			required("name", text), optional("title", text), optional("description", text), optional("required", boolShape)))))...)
	default:
		return objectOf(append(members, resourceMembers()...)...)
	}
}

func resourceMembers() []shapeMember {
	return []shapeMember{required("name", textShape), optional("mimeType", textShape), optional("size", value("a number", isNumber)), optional("annotations", annotationsShape)}
}

func iconShape(m *mender, raw json.RawMessage) (json.RawMessage, string) {
	return objectOf(required("src", textShape), optional("mimeType", textShape), optional("sizes", elementsOf(textShape)), optional("theme", oneOf("light", "dark")))(m, raw)
}

func annotationsShape(m *mender, raw json.RawMessage) (json.RawMessage, string) {
	return objectOf(
		optional("audience", elementsOf(oneOf("user", "assistant"))),
		optional("priority", value("a number from 0 to 1", func(raw json.RawMessage) bool {
			var n float64
			return isNumber(raw) && json.Unmarshal(raw, &n) == nil && n >= 0 && n <= 1
		})),
		optional("lastModified", value("a time with a date and an offset", func(raw json.RawMessage) bool {
			var text string
			var at time.Time
			return json.Unmarshal(raw, &text) == nil && at.UnmarshalText([]byte(text)) == nil // in RFC 3339, strictly
		})))(m, raw)
}

// forClient returns the result of a request as the client accepts it. Content that is a string is a text,
// and content of a tool that is not a list is the only block. Instead of content that the client would
// reject, it gets a text that says so.
func forClient(r *mcpserver.Request, raw json.RawMessage) json.RawMessage {
	content := func(m *mender, raw json.RawMessage) (json.RawMessage, string) {
		if isString(raw) {
			return encode(map[string]json.RawMessage{"type": quote("text"), "text": raw}), ""
		}
		mended, problem := blockShape(r.Version)(m, raw)
		if problem == "" {
			return mended, ""
		}
		return instead(raw, problem), ""
	}
	blocks := func(m *mender, raw json.RawMessage) (json.RawMessage, string) {
		if len(raw) > 0 && raw[0] != '[' {
			raw = slices.Concat([]byte("["), raw, []byte("]"))
		}
		return elementsOf(content)(m, raw)
	}
	optionally := optional("_meta", objectShape)
	var of shape
	switch r.Method {
	case mcp.MethodGetPrompt:
		message := func(m *mender, raw json.RawMessage) (json.RawMessage, string) {
			if len(raw) > 0 && raw[0] == '[' {
				return elementsOf(content)(m, raw)
			}
			return content(m, raw)
		}
		of = objectOf(optionally, optional("description", textShape), optional("messages", elementsOf(objectOf(required("role", textShape), required("content", message)))))
	case mcp.MethodReadResource:
		entry := objectOf(append(contentsMembers(), optional("text", textShape), optional("blob", base64Shape))...)
		of = objectOf(optionally, optional("contents", elementsOf(func(m *mender, raw json.RawMessage) (json.RawMessage, string) {
			if mended, problem := entry(m, raw); problem == "" {
				return mended, ""
			}
			return raw, ""
		})))
	default:
		structured := func(_ *mender, raw json.RawMessage) (json.RawMessage, string) { return raw, "" }
		if !r.Modern() {
			structured = objectShape
		}
		of = objectOf(optionally, optional("content", blocks), optional("structuredContent", structured), optional("isError", boolShape))
	}
	if mended, problem := of(new(mender), raw); problem == "" {
		return mended
	}
	return raw
}

// taskForClient is like forClient for the result of a tasks/… request. bounded is applied to the result of a call.
func taskForClient(r *mcpserver.Request, raw json.RawMessage, bounded func(json.RawMessage) json.RawMessage) json.RawMessage {
	if r.Method == mcp.MethodTaskResult {
		return forClient(r, bounded(raw))
	}
	raw, _ = within(raw, "result", func(result json.RawMessage) (json.RawMessage, bool) { return forClient(r, bounded(result)), true })
	return raw
}

// instead returns a text block that stands for a content block that clients reject.
func instead(block json.RawMessage, problem string) json.RawMessage {
	var kind, uri string
	is := fields(block)
	_ = json.Unmarshal(is["type"], &kind) // stays empty if it is not a string
	_ = json.Unmarshal(is["uri"], &uri)
	what := "content"
	if kind != "" {
		what += " of type " + printable.Line(kind, 50)
	}
	text := "[mcptrack left out " + what + ", which this client does not accept: it " + problem + "]"
	if kind == "resource_link" && uri != "" {
		text += " " + printable.Line(uri, maxURI)
	}
	return encode(map[string]string{"type": "text", "text": text})
}

// blockShape returns the shape of a content block in a protocol version.
func blockShape(version string) shape {
	text := textShape
	also := func(members ...shapeMember) shape {
		return objectOf(append(members, optional("annotations", annotationsShape), optional("_meta", objectShape))...)
	}
	embedded := func(m *mender, raw json.RawMessage) (json.RawMessage, string) {
		mended, problem := objectOf(append(contentsMembers(), required("text", text), optional("blob", base64Shape))...)(m, raw)
		if problem == "" {
			return mended, ""
		}
		return objectOf(append(contentsMembers(), required("blob", base64Shape), optional("text", text))...)(m, raw)
	}
	return func(m *mender, raw json.RawMessage) (json.RawMessage, string) {
		kind := ""
		for _, m := range rawjson.Members(raw) {
			if m.Name == "type" {
				kind = string(m.Value)
			}
		}
		switch {
		case kind == `"text"`:
			return also(required("text", text))(m, raw)
		case kind == `"image"`, kind == `"audio"` && version >= "2025-03-26":
			return also(required("data", base64Shape), required("mimeType", text))(m, raw)
		case kind == `"resource"`:
			return also(required("resource", embedded))(m, raw)
		case kind == `"resource_link"` && version >= "2025-06-18":
			return objectOf(append(resourceMembers(), required("uri", text), optional("title", text), optional("description", text),
				optional("icons", elementsOf(iconShape)), optional("_meta", objectShape))...)(m, raw)
		}
		return nil, "is not content of protocol version " + version
	}
}

func contentsMembers() []shapeMember {
	return []shapeMember{required("uri", textShape), optional("mimeType", textShape), optional("_meta", objectShape)}
}

// base64Shape is the shape of binary data: base64, with or without padding. Base64 for URLs is
// converted.
func base64Shape(_ *mender, raw json.RawMessage) (json.RawMessage, string) {
	if !isString(raw) {
		return nil, "is not a string"
	}
	if isBase64(bytes.TrimRight(raw[1:len(raw)-1], "=")) {
		return raw, "" // without decoding it, because it may be large
	}
	var text string
	_ = json.Unmarshal(raw, &text) // it is a string
	bare := strings.TrimRight(text, "= \t\r\n")
	if _, err := base64.RawStdEncoding.DecodeString(bare); err == nil {
		return raw, ""
	}
	data, err := base64.RawURLEncoding.DecodeString(bare)
	if err != nil {
		return nil, "is not base64"
	}
	return quote(base64.StdEncoding.EncodeToString(data)), ""
}

// isBase64 reports whether a text is base64 without padding and white space.
func isBase64(text []byte) bool {
	for _, c := range text {
		if lower := c | 0x20; (lower < 'a' || lower > 'z') && (c < '0' || c > '9') && c != '+' && c != '/' {
			return false
		}
	}
	return len(text)%4 != 1
}
