package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// A tool of the modern era may ask that arguments are repeated in HTTP headers, by
// "x-mcp-header" in its schema: servers refuse calls without them.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
type mirrors struct {
	mu     sync.Mutex // guards what follows
	listed bool
	tools  map[string]*mcp.Tool // those that ask for it
}

const methodCall = "tools/call"

// learn takes in a list of tools.
func (m *mirrors) learn(items []catalog.Item) {
	tools := map[string]*mcp.Tool{}
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
		tool := &mcp.Tool{Name: it.Key, RawInputSchema: schema.InputSchema}
		if mcp.ValidateParamHeaderAnnotations(tool) == nil {
			tools[it.Key] = tool
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.listed, m.tools = true, tools
}

// headers are those that a call has to carry.
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
	return mcp.GenerateParamHeaders(m.tools[call.Name], params)
}

func (m *mirrors) known() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listed
}

// withMirrors makes a call, and once more if the server misses headers that nobody
// could know of because its tools were not listed yet.
func (s *Session) withMirrors(ctx context.Context, call func() (json.RawMessage, error)) (json.RawMessage, error) {
	raw, err := call()
	e, ok := errors.AsType[*RPCError](err)
	if !ok || e.Code != codeHeaderMismatch || s.mirrors.known() {
		return raw, err
	}
	if _, failed := s.List(ctx, catalog.Tools); failed != nil {
		return raw, err
	}
	return call()
}
