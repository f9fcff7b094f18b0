// Matrix is a client built on mcp-go that calls tools one after another, for scripts/matrix.sh:
//
//	matrix CALLS URL
//	matrix CALLS COMMAND [ARG…]
//
// CALLS is a JSON object that maps tools to arguments. Matrix prints "TOOL TEXT" for each result.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

func main() {
	if err := run(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

func run(calls, target string, args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var arguments map[string]map[string]any
	if err := json.Unmarshal([]byte(calls), &arguments); err != nil {
		return err
	}
	c, err := dial(target, args)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.Start(ctx); err != nil && !strings.Contains(err.Error(), "already") {
		return err
	}
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "matrix", Version: "1.0.0"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return err
	}
	for name, given := range arguments {
		var q mcp.CallToolRequest
		q.Params.Name, q.Params.Arguments = name, given
		result, err := c.CallTool(ctx, q)
		if err != nil {
			fmt.Println(name, "failed:", err)
			continue
		}
		for _, content := range result.Content {
			if text, ok := content.(mcp.TextContent); ok {
				fmt.Println(name, text.Text)
			}
		}
	}
	return nil
}

func dial(target string, args []string) (*client.Client, error) {
	if strings.HasPrefix(target, "http") {
		return client.NewStreamableHttpClient(target)
	}
	return client.NewStdioMCPClient(target, os.Environ(), args...)
}
