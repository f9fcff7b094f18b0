package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Type identifies a type of event; it is the value of the JSON member "type".
type Type string

// The event types.
const (
	TypeServerState          Type = "server.state"
	TypeSubscriptionActive   Type = "subscription.active"
	TypeResourceUpdated      Type = "resource.updated"
	TypeResourceAdded        Type = "resource.added"
	TypeResourceRemoved      Type = "resource.removed"
	TypeResourceChanged      Type = "resource.changed"
	TypeResourcesListChanged Type = "resources.list_changed"
	TypeTemplatesListChanged Type = "templates.list_changed"
	TypePromptsListChanged   Type = "prompts.list_changed"
	TypeToolsListChanged     Type = "tools.list_changed"
	TypeSkillsListChanged    Type = "skills.list_changed"
	TypeSkillAdded           Type = "skill.added"
	TypeSkillRemoved         Type = "skill.removed"
	TypeSkillChanged         Type = "skill.changed"
	TypeSkillMismatch        Type = "skill.mismatch"
	TypeConfigReloaded       Type = "config.reloaded"
	TypeConfigRejected       Type = "config.rejected"
	TypeServerEvent          Type = "server.event"
	TypeCardChanged          Type = "server.card_changed"
	TypeLockDrift            Type = "lock.drift"
	TypeHookReceived         Type = "hook.received"
	TypeWebhookDisabled      Type = "webhook.disabled"
	TypeResourceContent      Type = "resource.content"
	TypePromptContent        Type = "prompt.content"
	TypeToolResult           Type = "tool.result"
	TypeSubscriptionsChanged Type = "subscriptions.changed"
	TypeGap                  Type = "gap"
)

// Definition describes an event type.
type Definition struct {
	Type  Type
	About string // one sentence, used in the documentation
	// Change is true if events of this type report a change to a server, the config or the feed,
	// and false if they report how servers are followed or what a client of mcptrack did. The flag
	// --count counts only events of types with Change set.
	Change bool

	empty Payload // what an event without members contains
}

// Definitions returns the definitions of all event types, in the order used in the documentation.
func Definitions() []Definition { return slices.Collect(definitions) }

// definitions yields them without allocation, because every decoded event needs one.
func definitions(yield func(Definition) bool) {
	for _, d := range []Definition{
		{TypeServerState, "The state of a server changed.", false, ServerState{}},
		{TypeSubscriptionActive, "The followed items of a server changed.", false, SubscriptionActive{}},
		{TypeResourceUpdated, "A resource changed, or its server announced that it did.", true, ResourceUpdated{}},
		{TypeResourceAdded, "A server offers a new resource.", true, ResourceAdded{}},
		{TypeResourceRemoved, "A server no longer offers a resource.", true, ResourceRemoved{}},
		{TypeResourceChanged, "The description of a resource changed, not its content.", true, ResourceChanged{}},
		{TypeResourcesListChanged, "The list of resources changed, or could not be loaded.", true, ListChanged{List: catalog.Resources}},
		{TypeTemplatesListChanged, "The list of templates changed, or could not be loaded.", true, ListChanged{List: catalog.Templates}},
		{TypePromptsListChanged, "The list of prompts changed, or could not be loaded.", true, ListChanged{List: catalog.Prompts}},
		{TypeToolsListChanged, "The list of tools changed, or could not be loaded.", true, ListChanged{List: catalog.Tools}},
		{TypeSkillsListChanged, "The list of skills changed, or could not be loaded.", true, ListChanged{List: catalog.Skills}},
		{TypeSkillAdded, "A server offers a new skill.", true, SkillAdded{}},
		{TypeSkillRemoved, "A server no longer offers a skill, or its entry became invalid.", true, SkillRemoved{}},
		{TypeSkillChanged, "The files or the frontmatter of a skill changed. It must be approved again.", true, SkillChanged{}},
		{TypeSkillMismatch, "A file of a skill is not what its entry says, and was not delivered.", true, SkillMismatch{}},
		{TypeServerEvent, "A server sent an MCP event that concerns no resource.", true, ServerEvent{}},
		{TypeCardChanged, "The server card (the public description of a server) changed, appeared or disappeared.", true, CardChanged{}},
		{TypeLockDrift, "An item of a server differs from the lock file, or no longer does.", true, LockDrift{}},
		{TypeHookReceived, "A hook received a message with a valid signature.", true, HookReceived{}},
		{TypeWebhookDisabled, "A webhook of the config was switched off, because all attempts failed for a day.", true, WebhookDisabled{}},
		{TypeConfigReloaded, "A new config was applied.", true, ConfigReloaded{}},
		{TypeConfigRejected, "A new config is invalid. The previous one stays in use.", true, ConfigRejected{}},
		{TypeResourceContent, "A client of mcptrack read a resource.", false, ResourceContent{}},
		{TypePromptContent, "A client of mcptrack got a prompt.", false, PromptContent{}},
		{TypeToolResult, "A call of a tool through mcptrack has ended.", false, ToolResult{}},
		{TypeSubscriptionsChanged, "The subscriptions of mcptrack's clients changed.", false, SubscriptionsChanged{}},
		{TypeGap, "Earlier events are no longer stored.", true, Gap{}},
	} {
		if !yield(d) {
			return
		}
	}
}

// Types returns all event types, in the order used in the documentation.
func Types() []Type {
	var types []Type
	for _, d := range Definitions() {
		types = append(types, d.Type)
	}
	return types
}

// Define returns the definition of an event type, or false if the type is unknown.
func Define(t Type) (Definition, bool) {
	for d := range definitions {
		if d.Type == t {
			return d, true
		}
	}
	return Definition{}, false
}

// Member describes one member of an event's JSON object.
type Member struct {
	Name     string
	Optional bool   // true if the member may be absent
	About    string // a short description; empty if the name is self-explanatory

	path string // path of the member's field, as reported in encoding/json errors
}

// Members returns the members specific to this event type, in wire order. They are the fields of
// the payload struct; their descriptions come from the struct's about tags.
func (d Definition) Members() []Member { return members(reflect.TypeOf(d.empty), "") }

// Fields returns the names of all members that events may have.
func Fields() []string {
	all := members(reflect.TypeFor[header](), "")
	for d := range definitions {
		all = append(all, d.Members()...)
	}
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func members(t reflect.Type, path string) []Member {
	var out []Member
	for f := range t.Fields() {
		if f.Anonymous {
			out = append(out, members(f.Type, path+f.Name+".")...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out = append(out, Member{name, options != "", f.Tag.Get("about"), path + name})
		}
	}
	return out
}

// ErrUnknownType is returned for an event whose type this version does not recognise.
var ErrUnknownType = errors.New("unknown event type")

// decode parses the payload of an event. It ignores optional members whose values have the wrong
// type.
func (d Definition) decode(data []byte) (Payload, error) {
	into := reflect.New(reflect.TypeOf(d.empty))
	into.Elem().Set(reflect.ValueOf(d.empty))
	err := json.Unmarshal(data, into.Interface())
	p, _ := reflect.TypeAssert[Payload](into.Elem())
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return p, err
	}
	for _, m := range d.Members() {
		if m.Optional && (wrong.Field == m.path || strings.HasPrefix(wrong.Field, m.path+".")) {
			return d.decodeWithout(data, m.Name)
		}
	}
	return p, fmt.Errorf("member %q has the wrong type: JSON %s", printable.Line(wrong.Field, 64), wrong.Value)
}

func (d Definition) decodeWithout(data []byte, name string) (Payload, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	maps.DeleteFunc(all, func(key string, _ json.RawMessage) bool { return strings.EqualFold(key, name) })
	rest, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return d.decode(rest)
}
