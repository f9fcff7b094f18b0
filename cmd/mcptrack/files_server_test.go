package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// filesServer is an MCP server on stdio for one file. It accepts subscriptions and announces nothing, as
// servers do that see only the changes which they make themselves.
func filesServer(args []string) int {
	uri := (&url.URL{Scheme: "file", Path: args[0]}).String()
	server := mcpserver.New(mcpserver.Options{Name: "files", ReadResource: func(context.Context, *mcpserver.Request) (json.RawMessage, error) {
		text, err := os.ReadFile(args[0])
		if err != nil {
			return nil, err
		}
		return json.Marshal(map[string]any{"contents": []any{map[string]any{"uri": uri, "text": string(text)}}})
	}})
	defer server.Close()
	resource, err := json.Marshal(map[string]any{"uri": uri, "name": "file"})
	if err == nil {
		server.SetCatalog(mcpserver.Catalog{Resources: []json.RawMessage{resource}})
		err = server.ServeIO(context.Background(), os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
