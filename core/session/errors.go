package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that callers branch on with errors.Is.
var (
	// ErrNotFound: the server does not have the resource.
	ErrNotFound = errors.New("not found")
	// ErrAuth: the server wants credentials, or refuses those that it got.
	ErrAuth = errors.New("authorization required")
	// ErrUnsupported: the server lacks the capability or the method.
	ErrUnsupported = errors.New("not supported by the server")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("session closed")
)

// JSON-RPC and MCP error codes that change what a session does.
const (
	codeMethodNotFound     = -32601
	codeInvalidParams      = -32602
	codeResourceNotFound   = -32002 // until 2025-11-25
	codeHeaderMismatch     = -32020 // since 2026-07-28
	codeUnsupportedVersion = -32022 // since 2026-07-28
)

// RPCError is an error that the server answered. errors.Is finds in it
// [ErrUnsupported] (method not found) and [ErrNotFound] (resource not found).
type RPCError struct {
	Code    int
	Message string          // printable, at most 1 KiB
	Data    json.RawMessage // as sent; nil when there was none or it exceeds 64 KiB
}

func (e *RPCError) Error() string { return fmt.Sprintf("server error %d: %s", e.Code, e.Message) }

// Is makes the codes that mean one thing everywhere comparable.
func (e *RPCError) Is(target error) bool {
	return target == ErrUnsupported && e.Code == codeMethodNotFound ||
		target == ErrNotFound && e.Code == codeResourceNotFound
}

// HTTPError is an answer with a status that is not 2xx and carries no JSON-RPC
// error. The body is left out: it may repeat what was sent.
type HTTPError struct{ Status int }

func (e *HTTPError) Error() string { return fmt.Sprintf("server answered HTTP status %d", e.Status) }

// RetryAfter says that the server asked to be left alone for a while (HTTP 429
// or 503 with Retry-After, or the retry field of an event stream).
type RetryAfter struct {
	Wait time.Duration // at most 30 s
	Err  error
}

func (e *RetryAfter) Error() string {
	return fmt.Sprintf("%v (server asks to wait %s)", e.Err, e.Wait)
}

func (e *RetryAfter) Unwrap() error { return e.Err }

// EndError is why a session ended by itself.
type EndError struct {
	Reason string
	// For child processes that are gone; ExitCode is -1 otherwise.
	ExitCode int
	Signal   string
	// Stderr are the last lines the child wrote, printable and bounded.
	Stderr []string
	Err    error // what was seen, if there is more to it than Reason
}

func (e *EndError) Error() string {
	var b strings.Builder
	b.WriteString("session ended: ")
	b.WriteString(e.Reason)
	if e.Err != nil && !strings.Contains(e.Reason, e.Err.Error()) {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if len(e.Stderr) > 0 {
		fmt.Fprintf(&b, " (stderr: %s)", strings.Join(e.Stderr[max(0, len(e.Stderr)-3):], " | "))
	}
	return b.String()
}

func (e *EndError) Unwrap() error { return e.Err }

// TooLargeError is an answer that exceeds one of [Limits].
type TooLargeError struct {
	What  string // "HTTP body", "SSE event", …
	Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s of more than %d bytes", e.What, e.Limit)
}
