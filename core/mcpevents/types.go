package mcpevents

import (
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Mode is a way in which events get to a client.
type Mode = mcp.DeliveryMode

// The modes.
const (
	Poll    = mcp.DeliverPoll
	Push    = mcp.DeliverPush
	Webhook = mcp.DeliverWebhook
)

// The types of events.
const (
	ResourceUpdated = "resource.updated"
	ListChanged     = "list.changed"
	ServerState     = "server.state"
)

// Type describes a type of events as events/list does.
type Type = mcp.EventType

// Types returns the types by name, delivered in the given modes. Their schemas grow by
// optional members only.
func Types(modes []Mode) []Type {
	if modes == nil {
		modes = []Mode{}
	}
	return []Type{
		{
			Name: ListChanged, Description: "The tools, prompts, resources or templates of a tracked MCP server changed. Filter by server and list; list them again to see all.",
			Delivery: modes,
			InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"server":` + serverSchema +
				`,"lists":{"type":"array","items":{"type":"string","enum":["resources","templates","prompts","tools"]},"description":"Which lists; default: all"}}}`),
			PayloadSchema: json.RawMessage(`{"type":"object","required":["server","list"],"properties":{"server":{"type":"string"},"list":{"type":"string"},"added":` + namesSchema +
				`,"removed":` + namesSchema + `,"changed":` + namesSchema + `,"more":{"type":"object","description":"How many names were left out of added, removed and changed","additionalProperties":{"type":"integer"}}}}`),
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

// list answers events/list: everything is on the first page.
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
		modes = append(modes[:len(modes):len(modes)], Webhook)
	}
	var types []Type
	if len(modes) > 0 {
		types = Types(modes)
	}
	return json.Marshal(map[string]any{"events": append([]Type{}, types...)})
}
