package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/tailscale/hujson"
)

// Bounds of a glob: matching tries every combination of its alternatives.
const (
	maxGlobLength = 1024
	maxGlobGroups = 8
)

// globs reads a list of URI globs.
func (e *entry) globs(name string) []string {
	values, raw := e.strings(name, func(i int) string {
		return fmt.Sprintf("%s has invalid %q at index %d; expected string", e.label, name, i)
	})
	for i, glob := range values {
		if glob == "" || len(glob) > maxGlobLength || strings.Count(glob, "{") > maxGlobGroups || !doublestar.ValidatePattern(glob) {
			e.errorAt(raw[i].StartOffset, e.path.key(name), CodeGlob,
				fmt.Sprintf("%s has invalid %q; expected globs over resource URIs", e.label, name),
				`* stays within a path segment, ** crosses them: "file:///docs/**"`)
		}
	}
	return values
}

// onConnect reads the tool calls to make in each new session.
func (e *entry) onConnect() []ToolCall {
	f, ok := e.find("onConnect")
	if !ok {
		return nil
	}
	list, ok := f.value.Value.(*hujson.Array)
	if !ok {
		e.invalid(f, "array of tool calls", `write [{"tool": "NAME", "arguments": {}}]`)
		return nil
	}
	calls := make([]ToolCall, 0, len(list.Elements))
	for i := range list.Elements {
		if call, ok := e.toolCall(&list.Elements[i], f.path.index(i), i); ok {
			calls = append(calls, call)
		}
	}
	return calls
}

func (e *entry) toolCall(v *hujson.Value, path pointer, index int) (call ToolCall, ok bool) {
	label := fmt.Sprintf(`%s "onConnect" at index %d`, e.label, index)
	object, ok := v.Value.(*hujson.Object)
	if !ok {
		e.errorAt(v.StartOffset, path, CodeType, label+" must be an object", `write {"tool": "NAME", "arguments": {}}`)
		return ToolCall{}, false
	}
	members := firstMembers(object)
	needs := label + ` must include a non-empty string "tool"`
	tool := members["tool"]
	switch {
	case tool == nil:
		e.errorAt(v.StartOffset, path, CodeMissing, needs, "")
		ok = false
	case !isString(&tool.Value):
		e.errorAt(tool.Value.StartOffset, path.key("tool"), CodeType, needs, "")
		ok = false
	default:
		call.Tool, ok = e.expand(&tool.Value, path.key("tool"), fmt.Sprintf("onConnect[%d].tool", index))
		if ok && call.Tool == "" {
			e.errorAt(tool.Value.StartOffset, path.key("tool"), CodeValue, needs, "")
			ok = false
		}
	}
	if m := members["arguments"]; m != nil {
		arguments, isObject := m.Value.Value.(*hujson.Object)
		if isObject {
			call.Arguments = e.anyObject(arguments, path.key("arguments"), fmt.Sprintf("onConnect[%d].arguments", index))
		} else {
			e.errorAt(m.Value.StartOffset, path.key("arguments"), CodeType, label+` has invalid "arguments"; expected object`, "")
		}
	}
	e.unknownKeys(object, path, label, []string{"tool", "arguments"}, nil)
	return call, ok
}

// anyObject converts tool arguments. Numbers stay as written (json.Number), so that
// integers beyond 2^53 reach the tool whole.
func (e *entry) anyObject(object *hujson.Object, path pointer, name string) map[string]any {
	out := make(map[string]any, len(object.Members))
	for key, m := range firstMembersInOrder(object) {
		out[key] = e.any(&m.Value, path.key(key), name)
	}
	return out
}

func (e *entry) any(v *hujson.Value, path pointer, name string) any {
	switch t := v.Value.(type) {
	case *hujson.Object:
		return e.anyObject(t, path, name)
	case *hujson.Array:
		out := make([]any, len(t.Elements))
		for i := range t.Elements {
			out[i] = e.any(&t.Elements[i], path.index(i), name)
		}
		return out
	}
	switch kind(v) {
	case '"':
		value, _ := e.expand(v, path, name)
		return value
	case '0':
		return json.Number(text(v))
	case 't':
		return true
	case 'f':
		return false
	}
	return nil
}
