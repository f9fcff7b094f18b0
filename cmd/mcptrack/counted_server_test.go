package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// countedServer is an MCP server on stdio that appends a line to a file for each call: "TOOL TOKEN". It
// does not end with its input, as some servers do not. The file with the suffix .tools names further
// tools, one per line.
func countedServer(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "usage: counted-server FILE")
		return 2
	}
	s := &counted{file: args[0]}
	s.server = mcpserver.New(mcpserver.Options{Name: "counted", CallTool: s.call})
	s.server.SetCatalog(s.catalog("before"))
	if err := s.server.ServeIO(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	select {}
}

type counted struct {
	file   string
	server *mcpserver.Server
}

// catalog returns the tools. The description of change is the given text.
func (s *counted) catalog(description string) mcpserver.Catalog {
	more, err := os.ReadFile(s.file + ".tools")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(err)
	}
	var c mcpserver.Catalog
	for _, name := range append([]string{"tick", "progress", "wait", "hold", "ask", "change"}, strings.Fields(string(more))...) {
		tool, err := json.Marshal(map[string]any{"name": name, "description": description, "inputSchema": map[string]any{"type": "object"}})
		if err != nil {
			panic(err)
		}
		c.Tools = append(c.Tools, tool)
	}
	return c
}

func (s *counted) record(words ...string) error {
	f, err := os.OpenFile(s.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(words, " ") + "\n")
	return errors.Join(err, f.Close())
}

// call answers with the token of the call, and with COUNTED_AS if it is set. The tool ask adds the client's answer to an elicitation.
func (s *counted) call(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	var params struct {
		Arguments      struct{ Token string }
		InputResponses struct{ Q json.RawMessage }
	}
	if err := json.Unmarshal(r.Params, &params); err != nil {
		return nil, err
	}
	token := params.Arguments.Token
	question := map[string]any{"message": token, "requestedSchema": map[string]any{"type": "object", "properties": map[string]any{}}}
	if r.Name() == "ask" && r.Client == nil && params.InputResponses.Q == nil {
		return json.Marshal(map[string]any{"resultType": "input_required", "inputRequests": map[string]any{"q": map[string]any{"method": "elicitation/create", "params": question}}})
	}
	if err := s.record(r.Name(), token); err != nil {
		return nil, err
	}
	text := token
	if as := os.Getenv("COUNTED_AS"); as != "" {
		text += " " + as
	}
	switch r.Name() {
	case "progress":
		for i := range 3 {
			r.Notify("notifications/progress", map[string]any{"progressToken": r.ProgressToken(), "progress": i + 1, "total": 3, "message": token})
		}
	case "wait":
		<-ctx.Done()
		return nil, s.record("cancelled", token)
	case "hold": // until the file with the suffix .release exists
		for {
			if _, err := os.Stat(s.file + ".release"); err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-time.After(5 * time.Millisecond):
			}
		}
	case "ask":
		answer := params.InputResponses.Q
		if r.Client != nil {
			text, err := json.Marshal(question)
			if err != nil {
				return nil, err
			}
			if answer, err = r.Client.Ask(ctx, r, "elicitation/create", text); err != nil {
				return nil, err
			}
		}
		var given struct {
			Action  string
			Content struct{ Answer string }
		}
		if err := json.Unmarshal(answer, &given); err != nil {
			return nil, err
		}
		text += " " + given.Action + " " + given.Content.Answer
	case "change":
		s.server.SetCatalog(s.catalog(token))
	}
	return json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}})
}
