package serve

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// mirrored is an argument of a tool that modern clients over HTTP repeat in a
// header Mcp-Param-NAME, because the tool's schema says so with "x-mcp-header".
type mirrored struct {
	path   []string // of the argument
	header string
}

const (
	mirrorKey   = "x-mcp-header"
	mirrorDepth = 32
)

// mirroredArguments finds them in tools, by tool.
func mirroredArguments(tools []json.RawMessage) map[string][]mirrored {
	var found map[string][]mirrored
	for _, tool := range tools {
		if !bytes.Contains(tool, []byte(`"`+mirrorKey+`"`)) {
			continue
		}
		fields, err := object(tool)
		if err != nil {
			continue
		}
		if list := appendMirrored(nil, fields["inputSchema"], nil); len(list) > 0 {
			if found == nil {
				found = make(map[string][]mirrored)
			}
			found[text(fields["name"])] = list
		}
	}
	return found
}

// appendMirrored looks where clients look: along "properties" only.
func appendMirrored(list []mirrored, schema json.RawMessage, path []string) []mirrored {
	fields, err := object(schema)
	if err != nil || len(path) > mirrorDepth {
		return list
	}
	if header := text(fields[mirrorKey]); header != "" && len(path) > 0 {
		list = append(list, mirrored{path: slices.Clone(path), header: "Mcp-Param-" + header})
	}
	properties, err := object(fields["properties"])
	if err != nil {
		return list
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		list = appendMirrored(list, properties[name], append(path, name))
	}
	return list
}

// checkMirrored holds the headers of a call to its arguments.
func (s *Server) checkMirrored(r *http.Request, m *message) *Error {
	for _, arg := range s.lists.mirrored(text(m.fields["name"])) {
		value := m.fields["arguments"]
		for _, name := range arg.path {
			fields, err := object(value)
			if err != nil {
				fields = nil
			}
			value = fields[name]
		}
		if len(value) == 0 || bytes.ContainsAny(value[:1], "n{[") {
			continue // null or absent: there need be no header; no primitive: there cannot be
		}
		got, ok := single(r, arg.header)
		if !ok || len(r.Header.Values(arg.header)) == 0 {
			return refuse(CodeHeaderMismatch, "header %s must come once, as the argument does", bounded(arg.header))
		}
		if got, ok = decodeHeader(got); !ok || !sameValue(value, got) {
			return refuse(CodeHeaderMismatch, "header %s does not match the argument", bounded(arg.header))
		}
	}
	return nil
}

// sameValue compares a primitive with its text; numbers by value.
func sameValue(value json.RawMessage, header string) bool {
	if value[0] == '"' {
		return text(value) == header
	}
	if string(value) == header {
		return true
	}
	a, err1 := strconv.ParseFloat(string(value), 64)
	b, err2 := strconv.ParseFloat(header, 64)
	return err1 == nil && err2 == nil && a == b
}
