package mcpevents

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Mode specifies how events are delivered to a client.
type Mode = mcp.DeliveryMode

// The supported delivery modes.
const (
	Poll    = mcp.DeliverPoll
	Push    = mcp.DeliverPush
	Webhook = mcp.DeliverWebhook
)

// The supported event types.
const (
	ResourceUpdated = "resource.updated"
	ListChanged     = "list.changed"
	LockDrift       = "lock.drift"
	ServerState     = "server.state"
)

// Type describes an event type in the result of events/list.
type Type = mcp.EventType

// Types returns all event types, sorted by name, with the given delivery modes. In future versions
// their schemas may only gain optional members.
func Types(modes []Mode) []Type {
	if modes == nil {
		modes = []Mode{}
	}
	return []Type{
		{
			Name: ListChanged, Description: "The tools, prompts, skills, resources or templates of a tracked MCP server changed. Filter by server and list; list them again to see all.",
			Delivery: modes,
			InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"server":` + serverSchema +
				`,"lists":{"type":"array","items":{"type":"string","enum":["resources","templates","prompts","tools","skills"]},"description":"Which lists; default: all"}}}`),
			PayloadSchema: json.RawMessage(`{"type":"object","required":["server","list"],"properties":{"server":{"type":"string"},"list":{"type":"string"},"added":` + namesSchema +
				`,"removed":` + namesSchema + `,"changed":` + namesSchema + `,"more":{"type":"object","description":"How many names were omitted from added, removed and changed","additionalProperties":{"type":"integer"}}}}`),
		},
		{
			Name: LockDrift, Description: "An item of a tracked MCP server differs from what the user approved in the lock file, or no longer does. Filter by server and state; only the user can approve changes.",
			Delivery: modes,
			InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"server":` + serverSchema +
				`,"states":{"type":"array","items":{"type":"string","enum":["changed","approved","resolved"]},"description":"Which states; default: all"}}}`),
			PayloadSchema: json.RawMessage(`{"type":"object","required":["server","state"],"properties":{"server":{"type":"string"},"state":{"type":"string"},"section":{"type":"string"},"name":{"type":"string","description":"Name or URI of the item; absent for the server itself, and for an item that is not in the lock"},"classes":` + namesSchema +
				`,"severity":{"type":"string"},"action":{"type":"string","description":"What gateways do: audit, hold or block"},"oldHash":{"type":"string"},"newHash":{"type":"string"},"reason":{"type":"string"}}}`),
		},
		{
			Name: ResourceUpdated, Description: "A resource of a tracked MCP server has new content. Filter by server and URI; read the resource to see it.",
			Delivery: modes,
			InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"server":` + serverSchema +
				`,"uri":{"type":"string","description":"URI glob: * within a segment, ** across, {a,b}; default: all"},"changedOnly":{"type":"boolean","default":true,"description":"Leave out announcements whose content is the same"}}}`),
			PayloadSchema: json.RawMessage(`{"type":"object","required":["server","uri","cause"],"properties":{"server":{"type":"string"},"uri":{"type":"string","format":"uri"},"changed":{"type":"boolean"},"cause":{"type":"string"},"name":{"type":"string"},"mimeType":{"type":"string"},"size":{"type":"integer"},"digest":{"type":"string"},"previousDigest":{"type":"string"}}}`),
		},
		{
			Name: ServerState, Description: "The connection to a tracked MCP server changed, such as Ready or Backoff. Filter by server and state.",
			Delivery: modes,
			InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"server":` + serverSchema +
				`,"states":{"type":"array","items":{"type":"string"},"description":"Which new states, such as Ready; default: all"}}}`),
			PayloadSchema: json.RawMessage(`{"type":"object","required":["server","state"],"properties":{"server":{"type":"string"},"state":{"type":"string"},"previous":{"type":"string"},"reason":{"type":"string"}}}`),
		},
	}
}

const (
	serverSchema = `{"type":"string","description":"Server id or glob, such as docs or team-*; default: all"}`
	namesSchema  = `{"type":"array","items":{"type":"string"}}`
)

// list handles events/list. The first page contains all types.
func (s *Service) list(r *mcpserver.Request) (json.RawMessage, error) {
	q, err := parseMembers(r.Params)
	if err != nil {
		return nil, err
	}
	if cursor, err := q.text("cursor"); err != nil || cursor != nil {
		return nil, Invalid("invalid cursor")
	}
	modes := s.opts.Modes
	if s.opts.Webhooks != nil && r.Identity != "" {
		modes = append(slices.Clip(modes), Webhook)
	}
	var types []Type
	if len(modes) > 0 {
		types = Types(modes)
	}
	return json.Marshal(map[string]any{"events": append([]Type{}, types...)})
}

// metaStream is the name of the _meta member that contains the id of the request that opened the
// stream.
const metaStream = mcp.MetaSubscriptionID

// eventPrefix starts every event notification. The members of the event follow it.
const eventPrefix = `{"jsonrpc":"2.0","method":"` + mcp.NotificationEventsEvent + `","params":{`

// Package mcp defines what clients and servers share.
type (
	Failure   = mcp.EventFailure
	Numbering = mcp.EventNumbering
)

// The errors that the MCP Events extension defines.
const (
	NotFound              = mcp.EventNotFound
	Forbidden             = mcp.EventForbidden
	ResourceExhausted     = mcp.EventResourceExhausted
	Unsupported           = mcp.EventUnsupported
	CallbackEndpointError = mcp.EventCallbackEndpointError
)

// NumberingFor returns the set of error codes that the client of a request expects: the set of the SEP if it
// declares the extension.
func NumberingFor(r *mcpserver.Request) Numbering {
	var declared struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	if json.Unmarshal(r.Capabilities, &declared) == nil && declared.Extensions[mcp.ExtensionEvents] != nil {
		return mcp.EventNumberingSEP
	}
	return mcp.EventNumberingSketch
}

// Fail returns the JSON-RPC error for a failure, with the code that the client of the request
// expects. data may be nil.
func Fail(r *mcpserver.Request, f Failure, data map[string]any) *mcpserver.Error {
	e := &mcpserver.Error{Code: NumberingFor(r).Code(f), Message: string(f)}
	if data != nil {
		e.Data = maps.Clone(data)
	}
	return e
}

// Invalid returns the JSON-RPC error for invalid parameters.
func Invalid(reason string) *mcpserver.Error {
	return &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "InvalidParams", Data: map[string]any{"reason": reason}}
}

// message returns the start of a stream's notification: everything except the closing braces.
func message(method string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"` + method + `","params":{`)
}

// tag returns the end of a notification: _meta with the id of the stream, and the closing braces.
func tag(id json.RawMessage) []byte {
	return append(append([]byte(`,"_meta":{"`+metaStream+`":`), id...), "}}}"...)
}
