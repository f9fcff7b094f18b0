package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

type object = map[string]any

// encode returns v as JSON. It is used only for strings and numbers of the demo, so encoding cannot
// fail.
func encode(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}

// offerAll passes the demo's current tools and prompts to s.offer. s.mu must be held once ticks
// have started.
func (s *scenario) offerAll() {
	if s.offer == nil {
		return
	}
	tools := []json.RawMessage{
		tool("touch", "Changes a note immediately", object{
			"uri": object{"type": "string", "description": "A note of this demo, such as vault://note/" + guideNote},
		}, "uri"),
		tool("set_interval", "Sets the time between two changes", object{
			"milliseconds": object{"type": "number", "description": "10 to 3600000", "minimum": 10, "maximum": 3_600_000},
		}, "milliseconds"),
	}
	text := object{"text": object{"type": "string", "description": "What to count"}}
	switch s.counting {
	case 1:
		tools = append(tools, tool("count_words", "Counts the words of a text", text, "text"))
	case 2:
		text["lines"] = object{"type": "boolean", "description": "Count lines as well"}
		tools = append(tools, tool("count_words", "Counts the words of a text, and its lines", text, "text"))
	}
	prompts := []json.RawMessage{encode(object{"name": "explain_demo", "description": "Asks what this demo does"})}
	switch s.summary {
	case 1:
		prompts = append(prompts, encode(object{"name": "summarize_inbox", "description": "Summarizes the inbox"}))
	case 2:
		prompts = append(prompts, encode(object{"name": "summarize_inbox", "description": "Summarizes the inbox",
			"arguments": []object{{"name": "style", "description": "short or long"}}}))
	}
	s.offer(tools, prompts)
}

func tool(name, description string, properties object, required ...string) json.RawMessage {
	return encode(object{"name": name, "description": description, "inputSchema": object{
		"type": "object", "properties": properties, "required": required,
	}})
}

// callTool handles calls to the demo's own tools.
func (s *scenario) callTool(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	var params struct {
		Arguments struct {
			URI          *string  `json:"uri"`
			Milliseconds *float64 `json:"milliseconds"`
			Text         *string  `json:"text"`
			Lines        bool     `json:"lines"`
		} `json:"arguments"`
	}
	if err := json.Unmarshal(r.Params, &params); err != nil {
		return result(true, "invalid argument type"), nil
	}
	args := params.Arguments
	switch r.Name() {
	case "touch":
		if args.URI == nil {
			return result(true, "uri is required"), nil
		}
		path, ok := strings.CutPrefix(*args.URI, "vault://note/")
		if decoded, err := url.PathUnescape(path); ok && err == nil {
			n, ok, err := s.touch(decoded)
			if err != nil {
				return nil, err
			}
			if ok {
				return result(false, "%s was touched %d times", *args.URI, n), nil
			}
		}
		return result(true, "%q is not a note of this demo", *args.URI), nil
	case "set_interval":
		if args.Milliseconds == nil {
			return result(true, "milliseconds is required"), nil
		}
		// Clamp before converting to a duration, because the conversion could overflow.
		ms := min(max(*args.Milliseconds, 0), 3_600_000)
		return result(false, "one change every %s", s.setPace(time.Duration(ms*float64(time.Millisecond)))), nil
	case "count_words":
		s.mu.Lock()
		form := s.counting
		s.mu.Unlock()
		switch {
		case form == 0:
		case args.Text == nil:
			return result(true, "text is required"), nil
		case form == 2 && args.Lines:
			return result(false, "%d words, %d lines", len(strings.Fields(*args.Text)), strings.Count(*args.Text, "\n")+1), nil
		default:
			return result(false, "%d words", len(strings.Fields(*args.Text))), nil
		}
	}
	return nil, fmt.Errorf("%w: tool %q", mcpserver.ErrNotFound, r.Name())
}

func result(failed bool, format string, args ...any) json.RawMessage {
	r := object{"content": []object{{"type": "text", "text": fmt.Sprintf(format, args...)}}}
	if failed {
		r["isError"] = true
	}
	return encode(r)
}

// getPrompt handles requests for the demo's prompts.
func (s *scenario) getPrompt(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	var params struct {
		Arguments map[string]string `json:"arguments"`
	}
	if err := json.Unmarshal(r.Params, &params); err != nil {
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "arguments must be strings"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var description, text string
	switch {
	case r.Name() == "explain_demo":
		description, text = "What this demo does", "Explain the notes of this demo, and how they change."
	case r.Name() == "summarize_inbox" && s.summary > 0:
		var b strings.Builder
		b.WriteString("Summarize these messages")
		if style := params.Arguments["style"]; style != "" {
			b.WriteString(" in " + style + " form")
		}
		b.WriteString(":\n")
		for _, m := range s.mail {
			fmt.Fprintf(&b, "- %s: %s\n", m.from, m.subject)
		}
		description, text = "Summary of the inbox", b.String()
	default:
		return nil, fmt.Errorf("%w: prompt %q", mcpserver.ErrNotFound, r.Name())
	}
	return encode(object{"description": description, "messages": []object{
		{"role": "user", "content": object{"type": "text", "text": text}},
	}}), nil
}
