package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// Errors for use with errors.Is.
var (
	// ErrNotFound reports that the server does not have the resource.
	ErrNotFound = errors.New("not found")
	// ErrAuth reports that the server requires credentials or rejected those that were sent.
	ErrAuth = errors.New("authorization required")
	// ErrUnsupported reports that the server does not support the capability or method.
	ErrUnsupported = errors.New("not supported by the server")
	// ErrClosed reports that Close was called.
	ErrClosed = errors.New("session closed")
)

// maxErrorData limits the size of the data in a server's error response, in bytes.
const maxErrorData = 64 << 10

// RPCError is a server's error response. It matches [ErrUnsupported] (method not found) and
// [ErrNotFound] (resource not found) with errors.Is.
type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`        // printable, at most 1 KiB
	Data    json.RawMessage `json:"data,omitempty"` // as sent by the server; nil if absent or larger than 64 KiB
}

func (e *RPCError) Error() string {
	// Servers that use the TypeScript SDK repeat the code in the message.
	message := strings.TrimPrefix(e.Message, fmt.Sprintf("MCP error %d: ", e.Code))
	return fmt.Sprintf("server error %d: %s", e.Code, message)
}

// Is reports whether the error code corresponds to target, which is [ErrUnsupported] or
// [ErrNotFound].
func (e *RPCError) Is(target error) bool {
	return target == ErrUnsupported && e.Code == mcp.CodeMethodNotFound ||
		target == ErrNotFound && e.Code == mcp.CodeResourceNotFound
}

// HTTPError reports a response whose status is not 2xx and that contains no JSON-RPC error. The
// body is omitted because it may repeat data from the request.
type HTTPError struct{ Status int }

func (e *HTTPError) Error() string {
	return fmt.Sprintf("the server answers with HTTP status %d", e.Status)
}

// RetryAfter wraps an error with the delay that the server requested (HTTP status 429 or 503 with a
// Retry-After header).
type RetryAfter struct {
	Wait time.Duration // at most 30 s
	Err  error
}

func (e *RetryAfter) Error() string {
	return fmt.Sprintf("%v (the server asked clients to wait %s)", e.Err, e.Wait)
}

func (e *RetryAfter) Unwrap() error { return e.Err }

// AuthError reports that the server rejected a request because of its credentials (HTTP status 401
// or 403), or that the request was not sent because credentials are missing (Status 0). It matches
// [ErrAuth] with errors.Is.
type AuthError struct {
	Status    int      // HTTP status; 0 if the request was not sent
	Sent      bool     // whether credentials were sent
	Err       error    // the server's response, or why the request was not sent
	Reason    string   // why the server refused; empty if it did not say why
	Remedy    string   // what the user can do; if empty, Error mentions the headers in the config
	Challenge []string // values of the WWW-Authenticate headers
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
	text := "needs a login"
	switch {
	case e.Status == http.StatusForbidden:
		text = "access is denied"
	case e.Sent && e.Remedy == "":
		text = "the token in the header Authorization was rejected"
	}
	switch {
	case e.Status != 0 && e.Reason != "":
		text = fmt.Sprintf("%s (HTTP %d: %s)", text, e.Status, e.Reason)
	case e.Status != 0:
		text = fmt.Sprintf("%s (HTTP %d)", text, e.Status)
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

// EndError reports why a connection ended without a call to Close.
type EndError struct {
	Reason string
	// Unread reports that the child process exited before it had read what was sent to it.
	Unread bool
	// Stderr contains the last stderr lines of the child process, printable and limited in length.
	Stderr []string
	Err    error // cause of the error, if it is more specific than Reason
}

func (e *EndError) Error() string {
	var b strings.Builder
	b.WriteString(e.Reason)
	if e.Err != nil && !strings.Contains(e.Reason, e.Err.Error()) {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if len(e.Stderr) > 0 {
		b.WriteString(": " + stderrCause(e.Stderr))
	}
	return b.String()
}

func (e *EndError) Unwrap() error { return e.Err }

// InterruptedError reports that the connection failed before a request was answered. Its text is
// that of its cause.
type InterruptedError struct {
	// Sent reports whether the server may have started to process the request. If it is false, a
	// retry is safe.
	Sent bool
	Err  error
}

func (e *InterruptedError) Error() string { return e.Err.Error() }
func (e *InterruptedError) Unwrap() error { return e.Err }

// TooLargeError reports a response that exceeds a limit.
type TooLargeError struct {
	What  string // what was too large, such as "HTTP body" or "SSE event"
	Name  string // name of the limit in the --limit flag
	Limit int64  // the limit in bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the response is a %s of more than %d bytes; use --limit %s=SIZE to allow more", e.What, e.Limit, e.Name)
}
