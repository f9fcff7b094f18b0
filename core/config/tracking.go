package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// minPollInterval prevents a typo from causing a busy loop.
const minPollInterval = 100 * time.Millisecond

// minSafetyInterval is longer than minPollInterval because safety reads rarely find a change.
const minSafetyInterval = time.Second

// onConnect reads the tool calls to make in each session.
func (e *entry) onConnect(spellings []string, s *Server) {
	f, ok := e.find(spellings...)
	if !ok {
		return
	}
	if f.value.Kind != tree.List {
		e.invalid(f, "array of tool calls", `write [{"tool": "NAME", "arguments": {}}]`)
		return
	}
	for i, item := range f.value.Items {
		if call, ok := e.toolCall(item, f.path.index(i), i); ok {
			s.OnConnect = append(s.OnConnect, call)
		}
	}
}

func (e *entry) toolCall(n *tree.Node, path pointer, index int) (call ToolCall, ok bool) {
	label := fmt.Sprintf(`%s "onConnect" at index %d`, e.label, index)
	if n.Kind != tree.Object {
		e.errorAt(n.Offset, path, CodeType, label+" must be an object", `write {"tool": "NAME", "arguments": {}}`)
		return ToolCall{}, false
	}
	name := fmt.Sprintf("onConnect[%d]", index)
	call.Tool, ok = e.member(n, path, label, "tool", name)
	call.Arguments = e.arguments(n, path, label, name)
	e.unknownKeys(n, path, label, []string{"tool", "arguments"}, nil)
	return call, ok
}

// member returns the non-empty string that an object in a list must contain under the given key.
// name identifies the object in messages about the value.
func (e *entry) member(n *tree.Node, path pointer, label, key, name string) (value string, ok bool) {
	needs := fmt.Sprintf("%s must include a non-empty string %q", label, key)
	m := n.Get(key)
	if m == nil {
		e.errorAt(n.Offset, path, CodeMissing, needs, "")
		return "", false
	}
	switch path := path.key(key); {
	case m.Value.Kind != tree.String:
		e.errorAt(m.Value.Offset, path, CodeType, needs, "")
	case m.Value.Text == "":
		e.errorAt(m.Value.Offset, path, CodeValue, needs, "")
	default:
		if value, ok = e.expand(m.Value, path, name+"."+key); ok && value == "" {
			e.lacks(m.Value, path, CodeValue, quote(name+"."+key)+" is empty", "")
		}
	}
	return value, ok && value != ""
}

// arguments returns the optional "arguments" object of an object in a list.
func (e *entry) arguments(n *tree.Node, path pointer, label, name string) map[string]any {
	m := n.Get("arguments")
	if m == nil {
		return nil
	}
	if m.Value.Kind != tree.Object {
		e.errorAt(m.Value.Offset, path.key("arguments"), CodeType, label+` has invalid "arguments"; expected object`, "")
		return nil
	}
	arguments, _ := e.any(m.Value, path.key("arguments"), name+".arguments").(map[string]any)
	return arguments
}

// any converts a JSON value to a Go value. Numbers become json.Number, so that integers beyond 2^53
// remain exact.
func (e *entry) any(n *tree.Node, path pointer, name string) any {
	switch n.Kind {
	case tree.Object:
		out := make(map[string]any, len(n.Members))
		for key, m := range firstMembers(n) {
			out[key] = e.any(m.Value, path.key(key), name)
		}
		return out
	case tree.List:
		out := make([]any, len(n.Items))
		for i, item := range n.Items {
			out[i] = e.any(item, path.index(i), name)
		}
		return out
	case tree.String:
		e.plaintext(path.last(), n, path, quote(name))
		value, _ := e.expand(n, path, name)
		return value
	case tree.Number:
		return json.Number(n.Text)
	case tree.Bool:
		return n.True()
	}
	return nil
}

// Events specifies which events to follow on a server that offers MCP Events (SEP-3415). Unless Off
// is set, mcptrack's own event types are always followed, because the server may be another
// mcptrack.
type Events struct {
	// Off disables events, and the extension is not announced to the server.
	Off bool
	// All follows all event types. Events that do not concern a resource are published with their
	// data unchanged.
	All bool
	// Types lists the event types to follow in addition to mcptrack's own types.
	Types []EventType
	// Delivery specifies how events are delivered; empty means the best mode that the server
	// offers.
	Delivery EventDelivery
}

// EventType specifies one type of events to follow.
type EventType struct {
	Name      string
	Arguments json.RawMessage // a JSON object; nil if there are no arguments
	// URI locates the resource that an event concerns: either a JSON Pointer (RFC 6901) into the
	// event's data, which starts with "/", or a URI template (RFC 6570) that is expanded with the
	// members of the data. It is empty if the events do not concern a resource.
	URI string
}

// EventDelivery is a delivery mode of MCP Events.
type EventDelivery string

// The delivery modes.
const (
	DeliveryPush EventDelivery = "push"
	DeliveryPoll EventDelivery = "poll"
	// DeliveryWebhook requires a receiving URL that the server can reach.
	DeliveryWebhook EventDelivery = "webhook"
)

// maxEventTypes limits the number of event types in one entry.
const maxEventTypes = 100

// events reads which events to follow: a word, a list of types, or an object that contains both.
func (e *entry) events(spellings []string, s *Server) {
	f, ok := e.find(spellings...)
	if !ok {
		return
	}
	out := &s.Events
	types, path, name := f.value, f.path, "events"
	if f.value.Kind == tree.Object {
		types = nil
		if m := f.value.Get("types"); m != nil {
			types, path, name = m.Value, f.path.key("types"), "events.types"
		}
		if m := f.value.Get("delivery"); m != nil {
			out.Delivery = e.delivery(m.Value, f.path.key("delivery"))
		}
		e.unknownKeys(f.value, f.path, e.label+` "events"`, []string{"types", "delivery"}, nil)
	}
	switch {
	case types == nil:
	case types.Kind == tree.String:
		switch e.word(types, path, name, "all", "auto", "off") {
		case "off":
			out.Off = true
		case "all":
			out.All = true
		}
	case types.Kind == tree.List:
		if len(types.Items) > maxEventTypes {
			e.errorAt(types.Offset, path, CodeRange, fmt.Sprintf("%s has invalid %q; expected at most %d types", e.label, name, maxEventTypes), "")
			return
		}
		for i, item := range types.Items {
			if t, ok := e.eventType(item, path.index(i), i); ok {
				out.Types = append(out.Types, t)
			}
		}
	default:
		e.errorAt(types.Offset, path, CodeType, fmt.Sprintf("%s has invalid %q; expected %s", e.label, name, `"off", "auto", "all", a list of types, or an object`), "")
	}
}

// word returns the value of n if it is one of the words; otherwise it reports an error and returns
// an empty string.
func (e *entry) word(n *tree.Node, path pointer, name string, words ...string) string {
	value, ok := e.expand(n, path, name)
	if !ok {
		return ""
	}
	if slices.Contains(words, value) {
		return value
	}
	e.notOneOf(field{name: name, key: n.Offset, value: n, path: path}, value, words)
	return ""
}

func (e *entry) delivery(n *tree.Node, path pointer) EventDelivery {
	if n.Kind != tree.String {
		e.errorAt(n.Offset, path, CodeType, fmt.Sprintf(`%s has invalid "events.delivery"; expected string`, e.label), "")
		return ""
	}
	word := e.word(n, path, "events.delivery", "auto", "poll", "push", "webhook")
	if word == "auto" {
		return ""
	}
	return EventDelivery(word)
}

// eventType reads one event type, given as its name or as an object.
func (e *entry) eventType(n *tree.Node, path pointer, index int) (t EventType, ok bool) {
	label := fmt.Sprintf(`%s "events" at index %d`, e.label, index)
	name := fmt.Sprintf("events[%d]", index)
	if n.Kind == tree.String {
		if t.Name, ok = e.expand(n, path, name); ok && t.Name == "" {
			e.invalidValue(n, path, CodeValue, fmt.Sprintf("invalid %q; expected the name of an event type", name), "mcptrack list events shows the types")
		}
		return t, ok && t.Name != ""
	}
	if n.Kind != tree.Object {
		e.errorAt(n.Offset, path, CodeType, label+" must be a string or an object", `write "NAME" or {"name": "NAME", "arguments": {}, "uri": "/uri"}`)
		return t, false
	}
	t.Name, ok = e.member(n, path, label, "name", name)
	if arguments := e.arguments(n, path, label, name); arguments != nil {
		t.Arguments, _ = json.Marshal(arguments)
	}
	if m := n.Get("uri"); m != nil {
		if m.Value.Kind == tree.String {
			t.URI = e.eventURI(m.Value, path.key("uri"), name+".uri")
		} else {
			e.errorAt(m.Value.Offset, path.key("uri"), CodeType, label+` has invalid "uri"; expected string`, "")
		}
	}
	e.unknownKeys(n, path, label, []string{"name", "arguments", "uri"}, nil)
	return t, ok
}

// maxEventURI is the maximum length of a JSON Pointer or URI template, in bytes.
const maxEventURI = 1024

// eventURI reads the JSON Pointer or URI template that locates an event's resource.
func (e *entry) eventURI(n *tree.Node, path pointer, name string) string {
	value, ok := e.expand(n, path, name)
	if !ok {
		return ""
	}
	if len(value) > maxEventURI || !strings.HasPrefix(value, "/") && !strings.Contains(value, "{") {
		e.invalidValue(n, path, CodeValue, fmt.Sprintf("invalid %q; expected a JSON Pointer or a URI template", name),
			`"/url" uses the member url of an event's data as the URI; "wiki://{id}" builds the URI from the member id`)
		return ""
	}
	return value
}
