package config

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/glob"
)

// trackingKeys reads the keys of an entry that say what is tracked.
type trackingKeys struct{ *entry }

// minPollInterval keeps a typing mistake from becoming a busy loop.
const minPollInterval = 100 * time.Millisecond

// minSafetyInterval is the least SafetyInterval. Such reads usually find no change.
const minSafetyInterval = time.Second

// tracking reads the keys that say what is followed.
func (e trackingKeys) tracking(s *Server) {
	s.TrackResources = e.boolean("trackResources", false)
	s.TrackTools = e.boolean("trackTools", s.TrackResources)
	s.TrackPrompts = e.boolean("trackPrompts", s.TrackResources)
	const segments = `* stays within a path segment, ** crosses them: "file:///docs/**"`
	s.Include, s.Exclude = e.globs("include", "resource URIs", segments), e.globs("exclude", "resource URIs", segments)
	s.Read, _, _ = choice(e.entry, ReadDigest, map[string]ReadMode{"digest": ReadDigest, "none": ReadNone}, "read")
	s.Mode, _, _ = choice(e.entry, ModeAuto, map[string]Mode{"auto": ModeAuto, "poll": ModePoll}, "mode")
	s.PollInterval = e.duration("pollInterval", DefaultPollInterval, minPollInterval)
	s.SafetyInterval = e.durationOrZero("safetyInterval", DefaultSafetyInterval, minSafetyInterval)
	s.ConnectTimeout = e.duration("connectTimeout", 0, time.Millisecond)
	s.Unshared = !e.boolean("shared", true)
	s.RequestTimeout = e.duration("requestTimeout", DefaultRequestTimeout, time.Millisecond)

	protocol, f, ok := choice(e.entry, ProtocolAuto, map[string]Protocol{"auto": ProtocolAuto, "legacy": ProtocolLegacy,
		"modern": ProtocolModern}, "protocol", "protocolEra")
	s.Protocol = protocol
	if ok && protocol == ProtocolModern && s.Transport == TransportSSE {
		e.errorAt(f.value.Offset, f.path, CodeConflict,
			fmt.Sprintf(`%s has %q "modern", which the sse transport does not speak`, e.label, f.name),
			`use type "http", or leave the protocol to "auto"`)
	}
}

// globs reads a list of globs. over says what they match, for messages.
func (e trackingKeys) globs(name, over, hint string) []string {
	values, raw := e.strings(name, func(i int) string {
		return fmt.Sprintf("%s has invalid %q at index %d; expected string", e.label, name, i)
	})
	for i, g := range values {
		if !glob.Valid(g) {
			e.invalidValue(raw[i], e.path.key(name), CodeGlob, fmt.Sprintf("invalid %q; expected globs over %s", name, over), hint)
		}
	}
	return values
}

// onConnect reads the tool calls to make in each new session.
func (e trackingKeys) onConnect() []ToolCall {
	f, ok := e.find("onConnect")
	if !ok {
		return nil
	}
	if f.value.Kind != tree.List {
		e.invalid(f, "array of tool calls", `write [{"tool": "NAME", "arguments": {}}]`)
		return nil
	}
	calls := make([]ToolCall, 0, len(f.value.Items))
	for i, item := range f.value.Items {
		if call, ok := e.toolCall(item, f.path.index(i), i); ok {
			calls = append(calls, call)
		}
	}
	return calls
}

func (e trackingKeys) toolCall(n *tree.Node, path pointer, index int) (call ToolCall, ok bool) {
	label := fmt.Sprintf(`%s "onConnect" at index %d`, e.label, index)
	if n.Kind != tree.Object {
		e.errorAt(n.Offset, path, CodeType, label+" must be an object", `write {"tool": "NAME", "arguments": {}}`)
		return ToolCall{}, false
	}
	needs := label + ` must include a non-empty string "tool"`
	name := fmt.Sprintf("onConnect[%d]", index)
	switch tool := n.Get("tool"); {
	case tool == nil:
		e.errorAt(n.Offset, path, CodeMissing, needs, "")
	case tool.Value.Kind != tree.String:
		e.errorAt(tool.Value.Offset, path.key("tool"), CodeType, needs, "")
	case tool.Value.Text == "":
		e.errorAt(tool.Value.Offset, path.key("tool"), CodeValue, needs, "")
	default:
		call.Tool, ok = e.expand(tool.Value, path.key("tool"), name+".tool")
		if ok && call.Tool == "" {
			e.lacks(tool.Value, path.key("tool"), CodeValue, quote(name+".tool")+" is empty", "")
		}
	}
	if m := n.Get("arguments"); m != nil {
		if m.Value.Kind == tree.Object {
			call.Arguments, _ = e.any(m.Value, path.key("arguments"), name+".arguments").(map[string]any)
		} else {
			e.errorAt(m.Value.Offset, path.key("arguments"), CodeType, label+` has invalid "arguments"; expected object`, "")
		}
	}
	e.unknownKeys(n, path, label, []string{"tool", "arguments"}, nil)
	return call, ok && call.Tool != ""
}

// any converts a value of the tool's arguments. Numbers stay as written (json.Number), so that
// integers beyond 2^53 reach the tool exactly.
func (e trackingKeys) any(n *tree.Node, path pointer, name string) any {
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
