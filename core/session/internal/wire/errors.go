package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// Errors that callers branch on with errors.Is.
var (
	// ErrNotFound means that the server does not have the resource.
	ErrNotFound = errors.New("not found")
	// ErrAuth means that the server requires credentials or rejects those it got.
	ErrAuth = errors.New("authorization required")
	// ErrUnsupported means that the server lacks the capability or the method.
	ErrUnsupported = errors.New("not supported by the server")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("session closed")
)

// maxErrorData bounds the data of a server's error.
const maxErrorData = 64 << 10

// RPCError is a server's error response. errors.Is finds [ErrUnsupported] (method not found) and
// [ErrNotFound] (resource not found) in it.
type RPCError struct {
	Code    int
	Message string          // printable, at most 1 KiB
	Data    json.RawMessage // as sent; nil if absent or larger than 64 KiB
}

func (e *RPCError) Error() string {
	// Servers that use the TypeScript SDK repeat the code in the message.
	message := strings.TrimPrefix(e.Message, fmt.Sprintf("MCP error %d: ", e.Code))
	return fmt.Sprintf("server error %d: %s", e.Code, message)
}

// Is reports whether the code means target: [ErrUnsupported] or [ErrNotFound].
func (e *RPCError) Is(target error) bool {
	return target == ErrUnsupported && e.Code == mcp.CodeMethodNotFound ||
		target == ErrNotFound && e.Code == mcp.CodeResourceNotFound
}

// HTTPError is a response whose status is not 2xx and that carries no JSON-RPC error. The body is
// omitted because it may repeat what was sent.
type HTTPError struct{ Status int }

func (e *HTTPError) Error() string {
	return fmt.Sprintf("server responded with HTTP status %d", e.Status)
}

// RetryAfter is an error with the delay that the server requested (HTTP 429 or 503 with
// Retry-After).
type RetryAfter struct {
	Wait time.Duration // at most 30 s
	Err  error
}

func (e *RetryAfter) Error() string {
	return fmt.Sprintf("%v (the server asked clients to wait %s)", e.Err, e.Wait)
}

func (e *RetryAfter) Unwrap() error { return e.Err }

// AuthError means that the server rejected a request because of its credentials (HTTP status 401 or
// 403), or that the request was not sent for lack of credentials (Status 0). errors.Is finds
// [ErrAuth] in it.
type AuthError struct {
	Status    int      // of the HTTP response; 0: the request was not sent
	Sent      bool     // credentials were sent
	Err       error    // the server's response, or why the request was not sent
	Reason    string   // why the server refused; "": it did not say
	Remedy    string   // what the user can do; "": Error points to the headers in the config
	Challenge []string // values of WWW-Authenticate
}

func (e *AuthError) Error() string {
	remedy := e.Remedy
	switch {
	case remedy != "":
	case e.Sent:
		remedy = `check the Authorization header in the server's "headers" in the config`
	default:
		remedy = `add an Authorization header to the server's "headers" in the config`
	}
	text := ErrAuth.Error()
	switch {
	case e.Status != 0 && e.Reason != "":
		text = fmt.Sprintf("%s (HTTP status %d: %s)", text, e.Status, e.Reason)
	case e.Status != 0:
		text = fmt.Sprintf("%s (HTTP status %d)", text, e.Status)
	}
	text += ": " + remedy
	if _, plain := e.Err.(*HTTPError); !plain && e.Err != nil {
		text += fmt.Sprintf(" (%v)", e.Err)
	}
	return text
}

func (e *AuthError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrAuth].
func (e *AuthError) Is(target error) bool { return target == ErrAuth }

// EndError is why a connection ended by itself.
type EndError struct {
	Reason string
	// ExitCode and Signal describe a child process that exited; otherwise ExitCode is -1.
	ExitCode int
	Signal   string
	// Stderr holds the child's last lines, printable and bounded.
	Stderr []string
	Err    error // the cause, if it says more than Reason
}

func (e *EndError) Error() string {
	var b strings.Builder
	b.WriteString("session ended: ")
	b.WriteString(e.Reason)
	if e.Err != nil && !strings.Contains(e.Reason, e.Err.Error()) {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if len(e.Stderr) > 0 {
		fmt.Fprintf(&b, " (stderr: %s)", stderrCause(e.Stderr))
	}
	return b.String()
}

func (e *EndError) Unwrap() error { return e.Err }

// InterruptedError means that the connection failed before a request was answered. Its text is the
// text of its cause.
type InterruptedError struct {
	// Sent reports whether the server may have begun to process the request. If not, a retry is
	// safe.
	Sent bool
	Err  error
}

func (e *InterruptedError) Error() string { return e.Err.Error() }
func (e *InterruptedError) Unwrap() error { return e.Err }

// TooLargeError is the error for a response that exceeds a limit.
type TooLargeError struct {
	What  string // "HTTP body", "SSE event", …
	Name  string // the limit's name in --limit
	Limit int64  // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the response is a %s of more than %d bytes; --limit %s=SIZE allows more", e.What, e.Limit, e.Name)
}
