package mcpserver

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// maxMembers bounds the memory of a decoded object: a map entry is far larger than the
// shortest member.
const maxMembers = 10_000

// object decodes the members of a JSON object, whose names must be unique.
func object(data []byte) (map[string]json.RawMessage, *Error) {
	if !json.Valid(data) {
		return nil, errorf(mcp.CodeParse, "not JSON")
	}
	return members(data)
}

// members does the work of object for valid JSON. Its values share the memory of data.
//
// encoding/json is not used: into a struct it matches names case-insensitively and lets
// the last duplicate win, and into a map it copies every value.
func members(data []byte) (map[string]json.RawMessage, *Error) {
	data = bytes.Trim(data, " \t\r\n")
	if len(data) == 0 || data[0] != '{' {
		return nil, errorf(mcp.CodeInvalidRequest, "not an object")
	}
	found := make(map[string]json.RawMessage, 4)
	for rest := skipSpace(data[1:]); rest[0] != '}'; {
		end := stringEnd(rest)
		name := rest[1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			name = []byte(text(json.RawMessage(rest[:end])))
		}
		rest = skipSpace(skipSpace(rest[end:])[1:]) // the colon
		end = valueEnd(rest)
		if len(found) == maxMembers {
			return nil, errorf(mcp.CodeInvalidRequest, "an object has more than %d members", maxMembers)
		}
		if _, twice := found[string(name)]; twice {
			return nil, errorf(mcp.CodeInvalidRequest, "a member occurs twice")
		}
		found[string(name)] = slices.Clip(json.RawMessage(rest[:end]))
		if rest = skipSpace(rest[end:]); rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return found, nil
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// stringEnd is the length of the string that b begins with.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// valueEnd is the length of the value that b begins with.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(b)
}
