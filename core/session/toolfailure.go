package session

import (
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/printable"
)

// maxToolFailure bounds the error text of a tool that is shown, in bytes.
const maxToolFailure = 300

// ToolFailure reports whether the raw result of a tool call has isError set, and
// returns the first text of the result as one printable line.
func ToolFailure(result json.RawMessage) (string, bool) {
	text, failed := toolFailureText(result)
	return printable.Line(text, maxToolFailure), failed
}

// ToolFailure is [ToolFailure] with the session's secrets redacted, for logs and events.
func (s *Session) ToolFailure(result json.RawMessage) (string, bool) {
	text, failed := toolFailureText(result)
	if !failed {
		return "", false
	}
	return printable.Line(s.Redact(text), maxToolFailure), true
}

// toolFailureText returns the error text of a failed tool call, unchanged.
func toolFailureText(result json.RawMessage) (string, bool) {
	var r struct {
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(result, &r) != nil || !r.IsError {
		return "", false
	}
	for _, c := range r.Content {
		if c.Text != "" {
			return c.Text, true
		}
	}
	return "the tool failed without saying why", true
}
