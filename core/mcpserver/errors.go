package mcpserver

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// Error is a JSON-RPC error.
type Error struct {
	Code    int
	Message string
	Data    any // encoded as JSON; omitted if nil
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// ErrNotFound is returned by a Func whose resource, tool or prompt does not exist. The
// code of a missing resource is -32002 in the legacy era and -32602 in the modern one;
// that of the others is -32602 in both.
var ErrNotFound = errors.New("not found")

func errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// wireError converts the error of a Func to the one that is sent to the client.
func wireError(err error, r *Request) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if !errors.Is(err, ErrNotFound) {
		return errorf(mcp.CodeInternal, "%s", err)
	}
	if r.Method != mcp.MethodReadResource {
		return errorf(mcp.CodeInvalidParams, "%s", err)
	}
	e := &Error{Code: mcp.CodeResourceNotFound, Message: "Resource not found: " + r.URI(), Data: map[string]string{"uri": r.URI()}}
	if r.modern {
		e.Code = mcp.CodeInvalidParams
	}
	return e
}

func (e *Error) encode() json.RawMessage {
	wire := struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}{e.Code, e.Message, e.Data}
	b, err := json.Marshal(wire)
	if err != nil { // of Data only
		wire.Data = nil
		b, _ = json.Marshal(wire)
	}
	return b
}
