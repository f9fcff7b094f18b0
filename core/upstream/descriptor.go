package upstream

import (
	"bytes"
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// descriptor is the entry as an MCP tool. It is written member by member because
// parameters keep the order of the catalog, which is that of forms in clients.
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
			b.WriteString(`,"items":{}`) // any; some clients insist on the member
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

// versionTool is the descriptor of get_version.
func versionTool() catalog.Item {
	raw := json.RawMessage(`{"name":"` + getVersion + `","description":"Tells the versions of mcptrack and of the API behind the tools. ` +
		`Use it to check that both can be reached.","inputSchema":{"type":"object","properties":{},"additionalProperties":false},` +
		`"annotations":{"readOnlyHint":true}}`)
	item, _ := catalog.NewItem(catalog.Tools, raw) // held by a test
	return item
}

// quoted is s as a JSON string.
func quoted(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
