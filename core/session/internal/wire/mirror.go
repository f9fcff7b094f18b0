package wire

import (
	"bytes"
	"encoding/json"
	"sync"

	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// mirrors knows which tools of the modern era want arguments repeated in HTTP headers, by
// "x-mcp-header" in their schemas: servers refuse calls without them.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
type mirrors struct {
	mu     sync.Mutex           // guards what follows
	listed bool                 // the list of tools is known
	tools  map[string]*sdk.Tool // the tools that want headers, by name
	bad    map[string]error     // those whose annotations are invalid, by name
}

// LearnTools takes the server's list of tools, which says which headers calls need.
func (c *Conn) LearnTools(items []catalog.Item) {
	if c.http != nil {
		c.http.mirrors.learn(items)
	}
}

// ToolsKnown reports whether it is known which headers calls need, or none are needed.
func (c *Conn) ToolsKnown() bool { return c.http == nil || c.http.mirrors.known() }

// ToolError returns why a tool must not be called, because its annotations are invalid; nil for
// other tools, and for those that were not listed.
func (c *Conn) ToolError(name string) error {
	if c.http == nil {
		return nil
	}
	c.http.mirrors.mu.Lock()
	defer c.http.mirrors.mu.Unlock()
	return c.http.mirrors.bad[name]
}

func (m *mirrors) learn(items []catalog.Item) {
	tools, bad := map[string]*sdk.Tool{}, map[string]error{}
	for _, it := range items {
		if !bytes.Contains(it.Raw, []byte(`"x-mcp-header"`)) {
			continue
		}
		var schema struct {
			InputSchema json.RawMessage `json:"inputSchema"`
		}
		if json.Unmarshal(it.Raw, &schema) != nil {
			continue
		}
		tool := &sdk.Tool{Name: it.Key, RawInputSchema: schema.InputSchema}
		if err := sdk.ValidateParamHeaderAnnotations(tool); err != nil {
			bad[it.Key] = err
		} else {
			tools[it.Key] = tool
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listed, m.tools, m.bad = true, tools, bad
}

// headers returns the headers that a tools/call with these params has to carry; nil: none.
func (m *mirrors) headers(params json.RawMessage) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tools) == 0 {
		return nil
	}
	var call struct{ Name string }
	if json.Unmarshal(params, &call) != nil || m.tools[call.Name] == nil {
		return nil
	}
	return sdk.GenerateParamHeaders(m.tools[call.Name], params)
}

func (m *mirrors) known() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed
}
