package mcpevents

import (
	"encoding/json"
	"maps"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// metaStream is the member of _meta with the id of the request that opened a stream.
const metaStream = mcp.MetaSubscriptionID

// eventPrefix begins the message of an event; the members of the event follow.
const eventPrefix = `{"jsonrpc":"2.0","method":"` + mcp.NotificationEventsEvent + `","params":{`

// What clients and servers have in common is in package mcp.
type (
	Failure   = mcp.EventFailure
	Numbering = mcp.EventNumbering
)

// The failures of the extension.
const (
	NotFound              = mcp.EventNotFound
	Forbidden             = mcp.EventForbidden
	ResourceExhausted     = mcp.EventResourceExhausted
	Unsupported           = mcp.EventUnsupported
	CallbackEndpointError = mcp.EventCallbackEndpointError
)

// The numberings.
const (
	NumberingSEP    = mcp.EventNumberingSEP
	NumberingSketch = mcp.EventNumberingSketch
)

// NumberingFor returns the numbering of errors for the client of a request.
func NumberingFor(r *mcpserver.Request) Numbering {
	if r.EventNumbering != "" {
		return r.EventNumbering
	}
	var declared struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	if json.Unmarshal(r.Capabilities, &declared) == nil && declared.Extensions[mcp.ExtensionEvents] != nil {
		return NumberingSEP
	}
	return NumberingSketch
}

// Fail returns the error of a failure, for the client of the request. data may be nil.
func Fail(r *mcpserver.Request, f Failure, data map[string]any) *mcpserver.Error {
	e := &mcpserver.Error{Code: NumberingFor(r).Code(f), Message: string(f)}
	if data != nil {
		e.Data = maps.Clone(data)
	}
	return e
}

// Invalid returns the error of invalid parameters.
func Invalid(reason string) *mcpserver.Error {
	return &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "InvalidParams", Data: map[string]any{"reason": reason}}
}

// message returns a notification of a stream, up to the end of its parameters without
// the closing braces.
func message(method string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"` + method + `","params":{`)
}

// tag returns the end of a notification: the _meta that names its stream.
func tag(id json.RawMessage) []byte {
	return append(append([]byte(`,"_meta":{"`+metaStream+`":`), id...), "}}}"...)
}
