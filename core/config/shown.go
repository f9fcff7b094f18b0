package config

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// Tool specifies how clients of a gateway see a tool. An empty field keeps what the server says.
type Tool struct{ Name, Description string }

// maxToolName is the maximum length of a tool's name in the strictest clients.
const maxToolName = 64

// isToolObject reports whether a value is an object of objects with the keys of a [Tool]. Many hosts have a key
// "tools" with other values.
func isToolObject(v *tree.Node) bool {
	if v.Kind != tree.Object {
		return false
	}
	for _, m := range v.Members {
		if m.Value.Kind != tree.Object || m.Value.Get("name") == nil && m.Value.Get("description") == nil {
			return false
		}
	}
	return true
}

// tools reads how clients see the tools.
func (e *entry) tools(_ []string, s *Server) {
	f, ok := e.field("tools")
	if !ok {
		return
	}
	if f.value.Kind != tree.Object {
		e.invalid(f, "object of tools by name", `write {"create_issue": {"name": "new_issue"}}`)
		return
	}
	was := map[string]string{} // the server's name, by the new one
	for name, m := range firstMembers(f.value) {
		path, label := f.path.key(name), fmt.Sprintf("%s: tool %s", e.label, quote(name))
		if m.Value.Kind != tree.Object || name == "" {
			e.errorAt(m.Value.Offset, path, CodeType, fmt.Sprintf(`%s has invalid "tools"; expected objects with "name" or "description"`, e.label), "")
			continue
		}
		var t Tool
		if m.Value.Get("name") == nil && m.Value.Get("description") == nil {
			e.errorAt(m.Value.Offset, path, CodeMissing, label+` has neither "name" nor "description"`, "")
			continue
		}
		for key, into := range map[string]*string{"name": &t.Name, "description": &t.Description} {
			if m.Value.Get(key) != nil {
				*into, _ = e.member(m.Value, path, label, key, "tools")
			}
		}
		if t.Name != "" {
			at := m.Value.Get("name").Value
			if other, taken := was[t.Name]; taken {
				e.errorAt(at.Offset, path.key("name"), CodeDuplicateID, fmt.Sprintf("%s has the new name of %s", label, quote(other)), "")
			}
			was[t.Name] = name
			if len(t.Name) > maxToolName || !alphanumeric(t.Name, "_-.") {
				e.invalidValue(at, path.key("name"), CodeValue, fmt.Sprintf(`invalid "tools.name" of %s; expected up to %d letters, digits, "_", "-" and "."`, quote(name), maxToolName), "")
				continue
			}
		}
		e.unknownKeys(m.Value, path, label, []string{"name", "description"}, nil)
		if s.Tools == nil {
			s.Tools = map[string]Tool{}
		}
		s.Tools[name] = t
	}
}

// ParseBytes parses a positive number of bytes, at most max, with an optional suffix KiB, MiB, GiB or TiB.
func ParseBytes(s string, max int64) (int64, bool) {
	unit := int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = digits, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n == 0 || int64(n) > max/unit {
		return 0, false
	}
	return int64(n) * unit, true
}

// The bounds of "maxResult".
const (
	minResult = 1 << 10
	maxResult = 1 << 40
)

// size returns the number of bytes of a key, or 0 if it is absent or invalid.
func (e *entry) size(name string) int64 {
	f, ok := e.find(name)
	if !ok {
		return 0
	}
	if f.value.Kind != tree.String {
		e.invalid(f, "size", `write the unit: "64KiB"`)
		return 0
	}
	value, ok := e.expand(f.value, f.path, f.name)
	if !ok {
		return 0
	}
	n, ok := ParseBytes(value, maxResult)
	switch {
	case !ok:
		e.invalidValue(f.value, f.path, CodeValue, fmt.Sprintf("invalid %q; expected size", f.name), `write the unit: "64KiB"`)
	case n < minResult:
		e.invalidValue(f.value, f.path, CodeRange, fmt.Sprintf("invalid %q; expected at least 1KiB", f.name), "")
		return 0
	}
	return n
}
