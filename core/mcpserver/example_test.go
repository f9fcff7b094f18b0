package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// A server with one tool. Over HTTP, the same value is an http.Handler.
func Example() {
	srv := mcpserver.New(mcpserver.Options{
		Name: "greeter",
		CallTool: func(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
			if r.Name() != "greet" {
				return nil, fmt.Errorf("tool: %w", mcpserver.ErrNotFound)
			}
			return json.RawMessage(`{"content":[{"type":"text","text":"Hello!"}]}`), nil
		},
	})
	defer srv.Close()
	srv.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{
		json.RawMessage(`{"name":"greet","inputSchema":{"type":"object"}}`),
	}})

	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"greet"}}`)
	if err := srv.ServeIO(context.Background(), in, os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"greeter","version":"dev"}}}
	// {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"Hello!"}]}}
}
