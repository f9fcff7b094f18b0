package session

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// Errors that callers branch on with errors.Is.
var (
	// ErrNotFound means that the server does not have the resource.
	ErrNotFound = wire.ErrNotFound
	// ErrAuth means that the server requires credentials or rejects those it got.
	ErrAuth = wire.ErrAuth
	// ErrUnsupported means that the server lacks the capability or the method.
	ErrUnsupported = wire.ErrUnsupported
	// ErrEra means that the server answered but does not support the one era that its entry allows.
	ErrEra = errors.New("the server does not support this protocol era")
	// ErrClosed means that Close was called.
	ErrClosed = wire.ErrClosed
)

// Errors with details, for errors.AsType.
type (
	RPCError   = wire.RPCError
	AuthError  = wire.AuthError
	HTTPError  = wire.HTTPError
	RetryAfter = wire.RetryAfter
	EndError   = wire.EndError

	InterruptedError = wire.InterruptedError
	TooLargeError    = wire.TooLargeError
)

// errDeadline is the cause when a request exceeds its own time limit.
var errDeadline = errors.New("no response in time")

// isAnswer reports whether err is the server's response to the request.
func isAnswer(err error) bool {
	if _, ok := errors.AsType[*InputRequiredError](err); ok {
		return true
	}
	return wire.IsAnswer(err)
}

// notYet reports whether the server first requires credentials or a wait.
func notYet(err error) bool {
	_, wait := errors.AsType[*RetryAfter](err)
	return wait || errors.Is(err, ErrAuth)
}

// isRefusal reports whether err concerns only this request, so the session can continue.
func isRefusal(err error) bool {
	if notYet(err) {
		return false
	}
	if _, ok := errors.AsType[*HTTPError](err); ok {
		return true
	}
	return isAnswer(err) || errors.Is(err, errDeadline)
}

// InputRequiredError means that the server answered with a demand for input: the client should ask
// its user, a model or its environment, and repeat the request (2026-07-28, multi round-trip
// requests). mcptrack cannot do so, as its capabilities say.
type InputRequiredError struct {
	Method string // of the unanswered request
	// Asked are the server's first 10 questions, ordered by their keys.
	Asked []InputRequest
}

// InputRequest is one question that a server asks before it answers a request.
type InputRequest struct {
	Method  string // such as "elicitation/create"; printable
	Message string // the text for the user, printable, at most 300 bytes; may be ""
}

func (e *InputRequiredError) Error() string {
	var b strings.Builder
	b.WriteString(e.Method + ": the server requires input that mcptrack cannot provide")
	for i, q := range e.Asked {
		b.WriteString([]string{": ", ", "}[min(i, 1)] + q.Method)
		if q.Message != "" {
			b.WriteString(" (" + q.Message + ")")
		}
	}
	return b.String()
}

const maxAsked = 10

// newInputRequired makes the error for an input_required result. It omits questions that it cannot
// decode.
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
