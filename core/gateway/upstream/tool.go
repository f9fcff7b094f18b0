package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Limits for the entries of a catalog, in addition to its size. Entries that exceed them are
// skipped.
const (
	MaxTools        = 10_000
	MaxParams       = 128
	maxName         = 128
	maxPath         = 2048
	maxDescription  = 8 << 10 // in bytes; longer descriptions are truncated
	placeholderLeft = '{'
)

// maxDecoding is how many times a path is decoded to check how a server, or a proxy in front of it,
// may interpret the path.
const maxDecoding = 4

// getVersion is the name of the built-in tool.
const getVersion = "get_version"

// A param describes one parameter of a tool.
type param struct {
	name, kind, description string
	in                      string // "path", "query" or "body"
	required                bool
}

// An apiTool is a valid entry in the API's catalog: a tool and the route that implements it.
type apiTool struct {
	name, description string
	method            string
	path              []piece
	params            []param
}

// route returns the method and the path as specified in the API's catalog.
func (e *apiTool) route() string {
	var b strings.Builder
	b.WriteString(e.method + " ")
	for _, p := range e.path {
		if p.param != "" {
			b.WriteString("{" + p.param + "}")
		}
		b.WriteString(p.text)
	}
	return b.String()
}

// parseTool validates one catalog entry. The error reports why the entry is skipped; name is set
// even in that case, if the entry has a name.
func parseTool(raw json.RawMessage) (e *apiTool, name string, err error) {
	var m map[string]json.RawMessage // a map matches keys case-sensitively, unlike a struct
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return nil, "", errors.New("the entry is not an object")
	}
	e = &apiTool{}
	var path string
	for _, of := range []struct {
		name string
		into *string
	}{{"name", &e.name}, {"description", &e.description}, {"method", &e.method}, {"path", &path}} {
		if *of.into, err = stringMember(m, of.name); err != nil {
			return nil, e.name, err
		}
	}
	e.method = strings.ToUpper(e.method)
	e.description = truncate(e.description, maxDescription)
	switch {
	case !validName(e.name):
		err = fmt.Errorf("the name is empty, longer than %d bytes, or has spaces or invisible characters", maxName)
	case e.name == getVersion:
		err = errors.New("the name is reserved for a built-in tool")
	case !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, e.method):
		err = errors.New("the method is not GET, POST, PUT, PATCH or DELETE")
	default:
		if e.path, err = parsePath(path); err == nil {
			err = e.parseParams(m["params"])
		}
	}
	return e, e.name, err
}

// stringMember returns the value of a string member, or "" if it is absent.
func stringMember(m map[string]json.RawMessage, name string) (string, error) {
	var s *string
	if raw, ok := m[name]; ok && json.Unmarshal(raw, &s) != nil {
		return "", fmt.Errorf("%q is not a string", name)
	}
	if s == nil {
		return "", nil
	}
	return *s, nil
}

func validName(s string) bool {
	return s != "" && len(s) <= maxName && printable.Line(s, 0) == s && strings.IndexFunc(s, unicode.IsSpace) < 0
}

// parseParams decodes the "params" of an entry and checks that each placeholder in its path refers
// to one of them.
func (e *apiTool) parseParams(raw json.RawMessage) error {
	var list []json.RawMessage
	if raw != nil && json.Unmarshal(raw, &list) != nil {
		return errors.New(`"params" is not an array`)
	}
	if len(list) > MaxParams {
		return fmt.Errorf("the entry has more than %d parameters", MaxParams)
	}
	open := map[string]bool{}
	for _, p := range e.path {
		if p.param != "" {
			open[p.param] = true
		}
	}
	seen := map[string]bool{}
	for i, raw := range list {
		p, err := parseParam(raw)
		if err != nil {
			return fmt.Errorf("parameter %d: %w", i+1, err)
		}
		if seen[p.name] {
			return fmt.Errorf("parameter %s occurs twice", bounded(p.name))
		}
		seen[p.name] = true
		if p.in == "" {
			p.in = "body"
			if open[p.name] {
				p.in = "path"
			} else if e.method == "GET" || e.method == "DELETE" {
				p.in = "query"
			}
		}
		if p.in == "path" {
			if !open[p.name] {
				return fmt.Errorf("path parameter %s does not occur in the path", bounded(p.name))
			}
			if p.kind == "array" || p.kind == "object" {
				return fmt.Errorf("path parameter %s must not have type %s", bounded(p.name), p.kind)
			}
			delete(open, p.name)
			p.required = true // without it, the path would be incomplete
		}
		e.params = append(e.params, p)
	}
	for _, p := range e.path {
		if open[p.param] {
			return fmt.Errorf("the path contains {%s}, but there is no such parameter", bounded(p.param))
		}
	}
	return nil
}

func parseParam(raw json.RawMessage) (p param, err error) {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return p, errors.New("it is not an object")
	}
	for _, of := range []struct {
		name string
		into *string
	}{{"name", &p.name}, {"type", &p.kind}, {"description", &p.description}, {"in", &p.in}} {
		if *of.into, err = stringMember(m, of.name); err != nil {
			return p, err
		}
	}
	p.description = truncate(p.description, maxDescription)
	if required, ok := m["required"]; ok && json.Unmarshal(required, &p.required) != nil {
		return p, errors.New(`"required" is not a boolean`)
	}
	switch {
	case !validName(p.name):
		return p, errors.New("its name is empty, too long, or has spaces or invisible characters")
	case !slices.Contains([]string{"", "string", "number", "integer", "boolean", "array", "object"}, p.kind):
		return p, errors.New("its type is not string, number, integer, boolean, array or object")
	case !slices.Contains([]string{"", "path", "query", "body"}, p.in):
		return p, errors.New(`"in" is not path, query or body`)
	}
	if p.kind == "" {
		p.kind = "string"
	}
	return p, nil
}

// truncate shortens s to limit bytes at a rune boundary, and appends an ellipsis if s was longer.
func truncate(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// A piece of a path is either fixed text in its escaped form, or the name of a parameter.
type piece struct{ text, param string }

// parsePath splits a path at its placeholders.
func parsePath(path string) ([]piece, error) {
	switch {
	case path == "":
		return nil, errors.New("the entry has no path")
	case len(path) > maxPath:
		return nil, fmt.Errorf("the path is longer than %d bytes", maxPath)
	case !strings.HasPrefix(path, "/api/"):
		return nil, errors.New("the path does not begin with /api/")
	}
	var pieces []piece
	for rest := path; rest != ""; {
		fixed, after, found := strings.Cut(rest, string(placeholderLeft))
		if fixed != "" {
			pieces = append(pieces, piece{text: fixed})
		}
		if !found {
			break
		}
		name, next, closed := strings.Cut(after, "}")
		if !closed || !validName(name) || strings.ContainsRune(name, placeholderLeft) || !oneSegment(name) {
			return nil, errors.New("the path has a malformed placeholder; expected {name}")
		}
		pieces = append(pieces, piece{param: name})
		rest = next
	}
	for _, p := range pieces {
		if strings.IndexFunc(p.text, func(r rune) bool {
			return r <= ' ' || r > '~' || strings.ContainsRune("\"#<>?\\^`{|}", r)
		}) >= 0 {
			return nil, errors.New("the path has characters that are not allowed in a URL path")
		}
	}
	if _, err := url.PathUnescape(path); err != nil {
		return nil, errors.New("the path has an invalid percent-encoding")
	}
	if strings.Contains(path, "..") || escapesPath(path) {
		return nil, errors.New("the path has dot segments, backslashes or control characters")
	}
	return pieces, nil
}

// escapesPath reports whether a server or proxy that decodes a path more than once could resolve it
// to a different path. s may also be a text that becomes part of a path.
func escapesPath(s string) bool {
	for range maxDecoding {
		if hasDotSegment(s) {
			return true
		}
		next, err := url.PathUnescape(s)
		if err != nil || next == s {
			return false
		}
		s = next
	}
	return true
}

// oneSegment reports whether a text remains a single path segment no matter how often it is
// decoded: with WSGI, for example, %2F can match other routes.
func oneSegment(s string) bool {
	for range maxDecoding {
		if strings.ContainsAny(s, `/\`) {
			return false
		}
		next, err := url.PathUnescape(s)
		if err != nil || next == s {
			return true
		}
		s = next
	}
	return false
}

// hasDotSegment reports whether a path contains dot segments, backslashes or control characters.
func hasDotSegment(s string) bool {
	return slices.ContainsFunc(strings.Split(s, "/"), func(segment string) bool { return segment == "." || segment == ".." }) ||
		strings.IndexFunc(s, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }) >= 0
}

// descriptor returns the MCP tool descriptor. Members are written one by one to preserve the order
// of the parameters, which clients use for forms.
func (e *apiTool) descriptor() (catalog.Item, error) {
	var b bytes.Buffer
	b.WriteString(`{"name":` + quoted(e.name))
	if e.description != "" {
		b.WriteString(`,"description":` + quoted(e.description))
	}
	b.WriteString(`,"inputSchema":{"type":"object","properties":{`)
	var required []string
	for i, p := range e.params {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quoted(p.name) + `:{"type":"` + p.kind + `"`)
		if p.description != "" {
			b.WriteString(`,"description":` + quoted(p.description))
		}
		if p.kind == "array" {
			b.WriteString(`,"items":{}`) // any type; some clients require this member
		}
		b.WriteByte('}')
		if p.required {
			required = append(required, p.name)
		}
	}
	b.WriteByte('}')
	if required != nil {
		names, _ := json.Marshal(required)
		b.WriteString(`,"required":` + string(names))
	}
	b.WriteString(`,"additionalProperties":false}`)
	switch e.method {
	case "GET":
		b.WriteString(`,"annotations":{"readOnlyHint":true}`)
	case "DELETE":
		b.WriteString(`,"annotations":{"destructiveHint":true,"idempotentHint":true}`)
	}
	b.WriteByte('}')
	return catalog.NewItem(catalog.Tools, b.Bytes())
}

// versionTool returns the descriptor of get_version.
func versionTool() catalog.Item {
	raw := json.RawMessage(`{"name":"` + getVersion + `","description":"Returns the versions of mcptrack and of the API behind the tools. ` +
		`Use it to check that both can be reached.","inputSchema":{"type":"object","properties":{},"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true}}`)
	item, _ := catalog.NewItem(catalog.Tools, raw) // the input is constant and covered by a test
	return item
}

// quoted returns s as a JSON string.
func quoted(s string) string {
	b, _ := printable.Marshal(s) // encoding a string cannot fail
	return string(b)
}
