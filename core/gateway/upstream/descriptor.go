package upstream

import (
	"bytes"
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// descriptor returns the entry as an MCP tool. It is written member by member to keep
// the order of the parameters, which clients use for forms.
func (e *entry) descriptor() (catalog.Item, error) {
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
			b.WriteString(`,"items":{}`) // of any type; some clients require the member
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
	item, _ := catalog.NewItem(catalog.Tools, raw) // constant, and covered by a test
	return item
}

// quoted returns s as a JSON string.
func quoted(s string) string {
	b, _ := printable.Marshal(s) // a string always encodes
	return string(b)
}
