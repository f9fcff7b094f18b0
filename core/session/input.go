package session

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// InputRequiredError is the answer of a server that wants the client to ask its
// user, a model or its environment something first, and to repeat the request then
// (2026-07-28, multi round-trip requests). mcptrack cannot ask anything and says so in
// its capabilities.
type InputRequiredError struct {
	Method string // of the request that was not answered
	// Asked is what the server wants to know, at most 10 of it, in the order of the
	// server's keys.
	Asked []InputRequest
}

// InputRequest is one thing that a server wants to know before it answers.
type InputRequest struct {
	Method  string // such as "elicitation/create"; printable
	Message string // what it would show to a user, printable, at most 300 bytes; may be ""
}

func (e *InputRequiredError) Error() string {
	var b strings.Builder
	b.WriteString(e.Method + ": the server requires input that cannot be given here")
	for i, q := range e.Asked {
		b.WriteString([]string{": ", ", "}[min(i, 1)] + q.Method)
		if q.Message != "" {
			b.WriteString(" (" + q.Message + ")")
		}
	}
	return b.String()
}

const maxAsked = 10

// newInputRequired reads what an input_required result asks for. What it cannot read
// it leaves out: the error says enough without.
func newInputRequired(redact redactor, method string, raw json.RawMessage) *InputRequiredError {
	e := &InputRequiredError{Method: method}
	var result struct {
		Requests map[string]json.RawMessage `json:"inputRequests"`
	}
	if json.Unmarshal(raw, &result) != nil {
		return e
	}
	for _, key := range slices.Sorted(maps.Keys(result.Requests)) {
		var q struct {
			Method string `json:"method"`
			Params struct {
				Message string `json:"message"`
			} `json:"params"`
		}
		if json.Unmarshal(result.Requests[key], &q) != nil || q.Method == "" {
			continue
		}
		if len(e.Asked) == maxAsked {
			break
		}
		e.Asked = append(e.Asked, InputRequest{
			Method:  printable.Line(q.Method, 100),
			Message: printable.Line(redact.text(q.Params.Message), 300),
		})
	}
	return e
}
