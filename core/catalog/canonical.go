package catalog

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/internal/rawjson"
)

// appendCanonical appends the canonical form of valid JSON that begins and ends without blanks. It is what
// json.Marshal returns for the JSON after decoding: without white space, with sorted members, of which the
// last of a name counts, and with each character escaped in one way. Few values must be decoded for that.
func appendCanonical(out, raw []byte, depth int) []byte {
	switch container := raw[0] == '{' || raw[0] == '['; {
	case container && depth == MaxDepth: // each level scans what is nested in it
	case raw[0] == '{':
		return appendObject(out, sortedMembers(raw), depth)
	case container:
		out = append(out, '[')
		for i, element := range rawjson.Elements(raw) {
			if i > 0 {
				out = append(out, ',')
			}
			out = appendCanonical(out, element, depth+1)
		}
		return append(out, ']')
	case raw[0] != '"' || unescaped(raw[1:len(raw)-1]):
		return append(out, raw...)
	}
	v, _ := decode(raw) // valid JSON
	encoded, _ := json.Marshal(v)
	return append(out, encoded...)
}

func appendObject(out []byte, members []rawjson.Member, depth int) []byte {
	out = append(out, '{')
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		if unescaped(m.Name) {
			out = append(append(append(out, '"'), m.Name...), '"')
		} else {
			encoded, _ := json.Marshal(m.Name) // never fails
			out = append(out, encoded...)
		}
		out = appendCanonical(append(out, ':'), m.Value, depth+1)
	}
	return append(out, '}')
}

// sortedMembers returns the members of an object, sorted by name, and of each name the last; nil for any
// other value.
func sortedMembers(raw []byte) []rawjson.Member {
	members := rawjson.Members(raw)
	slices.Reverse(members)
	slices.SortStableFunc(members, func(a, b rawjson.Member) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(members, func(a, b rawjson.Member) bool { return a.Name == b.Name })
}

// unescaped reports whether text is the same in JSON, whether it is encoded or not.
func unescaped[T string | []byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x80 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}
