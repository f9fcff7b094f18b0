package events

import (
	"encoding/json"
	"maps"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/serve"
)

// This file has what may still move in the specification: names and numbers.

// Notifications of a stream.
const (
	notificationActive    = "notifications/events/active"
	notificationEvent     = "notifications/events/event"
	notificationHeartbeat = "notifications/events/heartbeat"
	notificationError     = "notifications/events/error"
)

// metaStream is the member of _meta with the id of the request that opened a stream.
const metaStream = mcp.MetaSubscriptionID

// eventPrefix begins the message of an event; the members of the event follow.
const eventPrefix = `{"jsonrpc":"2.0","method":"` + notificationEvent + `","params":{`

// Failure is an error of the extension; its text is its message on the wire.
type Failure string

// The failures of the extension.
const (
	NotFound              Failure = "NotFound"
	Forbidden             Failure = "Forbidden"
	ResourceExhausted     Failure = "ResourceExhausted"
	Unsupported           Failure = "Unsupported"
	CallbackEndpointError Failure = "CallbackEndpointError"
)

// Numbering is one of the two sets of error codes in use.
type Numbering string

// The numberings: SEP-3415 calls its own provisional, and clients that do not declare
// the extension were written for those of the sketch before it.
const (
	NumberingSEP    Numbering = "sep"
	NumberingSketch Numbering = "sketch"
)

// Code returns the code of a failure.
func (n Numbering) Code(f Failure) int {
	first := -32011
	if n == NumberingSEP {
		first = -32023
	}
	for i, one := range []Failure{NotFound, Forbidden, ResourceExhausted, Unsupported, CallbackEndpointError} {
		if f == one {
			return first - i
		}
	}
	return mcp.CodeInternal
}

// NumberingFor returns the numbering that a client expects.
func NumberingFor(r *serve.Request) Numbering {
	var declared struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	if json.Unmarshal(r.Capabilities, &declared) == nil && declared.Extensions[mcp.ExtensionEvents] != nil {
		return NumberingSEP
	}
	return NumberingSketch
}

// Fail returns the error of a failure, for the client of the request. data may be nil.
func Fail(r *serve.Request, f Failure, data map[string]any) *serve.Error {
	e := &serve.Error{Code: NumberingFor(r).Code(f), Message: string(f)}
	if data != nil {
		e.Data = maps.Clone(data)
	}
	return e
}

// Invalid returns the error of invalid parameters.
func Invalid(reason string) *serve.Error {
	return &serve.Error{Code: mcp.CodeInvalidParams, Message: "InvalidParams", Data: map[string]any{"reason": reason}}
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
