package realtime

import (
	"cmp"

	"github.com/mcptrack/mcptrack/core/event"
)

// MCPServer is a server whose tools a session that this program opens imports.
type MCPServer struct {
	ID     string            // the label of the server in the session
	URL    string            // where the endpoint reaches the server
	Header map[string]string // sent by the endpoint with every request, such as Authorization
}

// mcpTool is an entry of type "mcp" in the tools of a session that this program opens. There is
// no person who could approve its calls.
type mcpTool struct {
	Type            string            `json:"type"`
	ServerLabel     string            `json:"server_label"`
	ServerURL       string            `json:"server_url"`
	Headers         map[string]string `json:"headers,omitempty"`
	RequireApproval string            `json:"require_approval"`
}

// use replaces the session's tools by those of servers. If the session begins, they are to be
// imported, in one attempt.
func (t *toolImports) use(servers []MCPServer, begins bool) {
	t.tools = nil
	for _, s := range servers {
		raw, err := encode(mcpTool{"mcp", s.ID, s.URL, s.Header, "never"})
		if err == nil { // strings always encode
			t.tools = append(t.tools, toolEntry{raw: raw, serverLabel: s.ID, serverURL: s.URL})
		}
	}
	if !begins {
		return
	}
	t.stage, t.id, t.asked, t.first = idle, "", nil, true
	t.due = map[string]*event.Event{}
	for _, e := range t.tools {
		t.due[e.serverLabel] = nil
	}
	clear(t.labels)
}

// reason says why an import failed.
func (t *toolImports) reason() string {
	return cmp.Or(t.why, "the endpoint could not import the tools")
}

// useTools passes the servers of SessionOptions.MCP to the conversation. If the connection
// begins, their tools are imported.
func (s *Session) useTools(begins bool) {
	if s.opts.MCP == nil {
		return
	}
	servers := s.opts.MCP()
	s.conv.mu.Lock()
	defer s.conv.mu.Unlock()
	s.conv.imports.use(servers, begins)
}
