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

// Errors for use with errors.Is.
var (
	// ErrNotFound reports that the server does not have the resource.
	ErrNotFound = wire.ErrNotFound
	// ErrAuth reports that the server requires credentials or rejected those that were sent.
	ErrAuth = wire.ErrAuth
	// ErrUnsupported reports that the server does not support the capability or method.
	ErrUnsupported = wire.ErrUnsupported
	// ErrEra reports that the server responded but does not support the only era that its entry
	// allows.
	ErrEra = errors.New("the server does not support this protocol era")
	// ErrClosed reports that Close was called.
	ErrClosed = wire.ErrClosed
)

// Errors with details, for use with errors.AsType.
type (
	RPCError   = wire.RPCError
	AuthError  = wire.AuthError
	HTTPError  = wire.HTTPError
	RetryAfter = wire.RetryAfter
	EndError   = wire.EndError

	InterruptedError = wire.InterruptedError
	TooLargeError    = wire.TooLargeError
)

// errDeadline is the cancellation cause for a request that exceeds its time limit.
var errDeadline = errors.New("no response in time")

// isAnswer reports whether err is a response from the server.
func isAnswer(err error) bool {
	if _, ok := errors.AsType[*InputRequiredError](err); ok {
		return true
	}
	return wire.IsAnswer(err)
}

// notYet reports whether the server requires credentials or a wait before it handles requests.
func notYet(err error) bool {
	_, wait := errors.AsType[*RetryAfter](err)
	return wait || errors.Is(err, ErrAuth)
}

// isRefusal reports whether err affects only this request, so that the session can continue.
func isRefusal(err error) bool {
	if notYet(err) {
		return false
	}
	if _, ok := errors.AsType[*HTTPError](err); ok {
		return true
	}
	return isAnswer(err) || errors.Is(err, errDeadline)
}

// InputRequiredError reports that the server responded with a request for input: the client should
// ask its user, a model or its environment, and repeat the request (2026-07-28, multi round-trip
// requests). mcptrack cannot do so and declares no capability for it.
type InputRequiredError struct {
	Method string // method of the unanswered request
	// Asked contains the first 10 of the server's questions, sorted by key: the method and, in parentheses, the
	// text for the user, if there is one. They are printable.
	Asked []string
}

func (e *InputRequiredError) Error() string {
	text := e.Method + ": the server requires input that mcptrack cannot provide"
	if len(e.Asked) > 0 {
		text += ": " + strings.Join(e.Asked, ", ")
	}
	return text
}

const maxAsked = 10

// newInputRequired returns the error for an input_required result. It omits questions that cannot
// be decoded.
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
		asked := printable.Line(q.Method, 100)
		if message := printable.Line(redact.text(q.Params.Message), 300); message != "" {
			asked += " (" + message + ")"
		}
		e.Asked = append(e.Asked, asked)
	}
	return e
}
