//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// runTiny is a native server that starts in a moment: 10 tools, 100 resources
// and 5 prompts on stdio, so that a one-shot client's own time shows.
func runTiny() error {
	s := server.NewMCPServer("tiny", "1", server.WithToolCapabilities(false),
		server.WithResourceCapabilities(false, false), server.WithPromptCapabilities(false))
	for i := range 10 {
		s.AddTool(mcp.NewTool(fmt.Sprintf("tool%d", i), mcp.WithDescription("A tool"), mcp.WithString("text", mcp.Required())),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText("ok"), nil
			})
	}
	for i := range 100 {
		uri := fmt.Sprintf("tiny://r/%03d", i)
		s.AddResource(mcp.NewResource(uri, fmt.Sprintf("r%03d", i), mcp.WithMIMEType("text/plain")),
			func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: "text/plain", Text: "text"}}, nil
			})
	}
	for i := range 5 {
		s.AddPrompt(mcp.NewPrompt(fmt.Sprintf("prompt%d", i)),
			func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return mcp.NewGetPromptResult("", nil), nil
			})
	}
	return server.ServeStdio(s)
}
