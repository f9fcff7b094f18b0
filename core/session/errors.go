package session

import (
	"errors"

	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// Errors that callers branch on with errors.Is.
var (
	// ErrNotFound means that the server does not have the resource.
	ErrNotFound = wire.ErrNotFound
	// ErrAuth means that the server requires credentials, or refuses those it got.
	ErrAuth = wire.ErrAuth
	// ErrUnsupported means that the server lacks the capability or the method.
	ErrUnsupported = wire.ErrUnsupported
	// ErrEra means that the server answered, but does not speak the era to which its entry
	// restricts the session.
	ErrEra = errors.New("the server does not speak this era")
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

// isAnswer reports whether err is a response of the server to the request.
func isAnswer(err error) bool {
	if _, ok := errors.AsType[*InputRequiredError](err); ok {
		return true
	}
	return wire.IsAnswer(err)
}

// isRefusal reports whether err concerns only this request, so that the session can go on.
func isRefusal(err error) bool {
	if errors.Is(err, ErrAuth) {
		return false
	}
	if _, ok := errors.AsType[*RetryAfter](err); ok {
		return false
	}
	if _, ok := errors.AsType[*HTTPError](err); ok {
		return true
	}
	return isAnswer(err) || errors.Is(err, errDeadline)
}
