package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// headersFor returns the headers in which a modern request repeats parts of its content.
func (h *httpConn) headersFor(q Request) (http.Header, error) {
	header := http.Header{}
	if q.Version != mcp.ModernVersion {
		return header, nil
	}
	header.Set(mcp.HeaderMethod, q.Method)
	if name, ok := sdk.EncodeHeaderValue(named(q)); ok && name != "" {
		header.Set(mcp.HeaderName, name)
	}
	if q.Method != mcp.MethodCallTool {
		return header, nil
	}
	more, err := h.mirrors.headers(q)
	for k, v := range more {
		header.Set(k, v)
	}
	return header, err
}

// named returns the parameter that names what a request is about; empty if there is none.
func named(q Request) string {
	switch {
	case q.Method == mcp.MethodCallTool || q.Method == mcp.MethodGetPrompt:
		return q.Text("name")
	case q.Method == mcp.MethodReadResource:
		return q.Text("uri")
	case strings.HasPrefix(q.Method, "tasks/"):
		return q.Text("taskId")
	}
	return ""
}

// mirrors stores which modern tools require arguments to be repeated in HTTP headers
// ("x-mcp-header" in their schemas). Servers reject calls without these headers.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
type mirrors struct {
	mu     sync.Mutex           // guards the fields below
	listed bool                 // the tool list is known
	tools  map[string]*sdk.Tool // tools that require headers, by name
	bad    map[string]error     // errors in the annotations of tools, by tool name
}

// LearnTools records the server's tool list, which specifies the headers that calls need.
func (c *Conn) LearnTools(items []catalog.Item) {
	if c.http != nil {
		c.http.mirrors.learn(items)
	}
}

// ToolsKnown reports whether the headers that calls need are known. Only HTTP needs any.
func (c *Conn) ToolsKnown() bool { return c.http == nil || c.http.mirrors.known() }

// ToolError returns an error if a listed tool must not be called because its annotations are
// invalid, and nil otherwise.
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
		if tool, err := mirrored(it); err != nil {
			bad[it.Key] = err
		} else if tool != nil {
			tools[it.Key] = tool
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listed, m.tools, m.bad = true, tools, bad
}

// mirrored returns a tool whose calls need headers, nil for another tool, and an error if the tool's
// definition is invalid.
func mirrored(it catalog.Item) (*sdk.Tool, error) {
	if !bytes.Contains(it.Raw, []byte(`"x-mcp-header"`)) {
		return nil, nil
	}
	var schema struct {
		InputSchema json.RawMessage `json:"inputSchema"`
	}
	if json.Unmarshal(it.Raw, &schema) != nil {
		return nil, nil
	}
	tool := &sdk.Tool{Name: it.Key, RawInputSchema: schema.InputSchema}
	return tool, sdk.ValidateParamHeaderAnnotations(tool)
}

// CheckTool returns why a tool must not be called over HTTP in the modern era, or nil if it may be.
func CheckTool(it catalog.Item) error {
	_, err := mirrored(it)
	return err
}

// headers returns the headers that a tools/call needs in addition to those of every request.
func (m *mirrors) headers(q Request) (map[string]string, error) {
	m.mu.Lock()
	tool := m.tools[named(q)]
	m.mu.Unlock()
	if tool == nil {
		return nil, nil
	}
	params, err := json.Marshal(q.Params)
	return sdk.GenerateParamHeaders(tool, params), err
}

func (m *mirrors) known() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed
}
