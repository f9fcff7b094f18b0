package serve

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Error is an error as JSON-RPC has it.
type Error struct {
	Code    int
	Message string
	Data    any // encoded as JSON; nil: left out
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// ErrNotFound is for a Func whose resource, tool or prompt is not there. A missing
// resource is -32002 in the legacy era and -32602 in the modern one; the others are
// -32602 in both.
var ErrNotFound = errors.New("not found")

// Codes of JSON-RPC and MCP.
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeResourceNotFound   = -32002
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
)

func refuse(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// wireError is the Error that tells the client of err.
func wireError(err error, r *Request) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if !errors.Is(err, ErrNotFound) {
		return refuse(CodeInternal, "%s", err)
	}
	if r.Method != methodRead {
		return refuse(CodeInvalidParams, "%s", err)
	}
	e := &Error{Code: CodeResourceNotFound, Message: "Resource not found: " + r.URI(), Data: map[string]string{"uri": r.URI()}}
	if r.modern {
		e.Code = CodeInvalidParams
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
