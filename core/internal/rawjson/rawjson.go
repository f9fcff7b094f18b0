// Package rawjson reads the members of objects and the elements of arrays, in order and without decoding them,
// from JSON that is known to be valid. What it returns shares the memory of its argument.
package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Member is a member of a JSON object.
type Member struct {
	Name  string
	Value json.RawMessage
	At    int // offset of the value in the object
}

// Next returns the member of an object that follows the offset after: 0, or the end of the previous member. ok is
// false if there is none, or if raw is not an object.
func Next(raw json.RawMessage, after int) (m Member, end int, ok bool) {
	before := byte(',')
	if after == 0 {
		before = '{'
	}
	at := skipSpace(raw, after)
	if !starts(raw, at, before) {
		return Member{}, 0, false
	}
	if at = skipSpace(raw, at+1); !starts(raw, at, '"') {
		return Member{}, 0, false
	}
	end = at + valueEnd(raw[at:])
	name := string(raw[at+1 : max(at+1, end-1)])
	if strings.Contains(name, `\`) || !utf8.ValidString(name) {
		name = decoded(raw[at:end])
	}
	at = min(skipSpace(raw, skipSpace(raw, end)+1), len(raw)) // after the colon
	end = at + valueEnd(raw[at:])
	return Member{name, slices.Clip(raw[at:end]), at}, end, true
}

func decoded(literal json.RawMessage) (s string) {
	_ = json.Unmarshal(literal, &s) // it is a string
	return s
}

// Members returns the members of an object, or nil for any other value.
func Members(raw json.RawMessage) []Member {
	if !starts(raw, skipSpace(raw, 0), '{') {
		return nil
	}
	members := make([]Member, 0, 4)
	for m, end, ok := Next(raw, 0); ok; m, end, ok = Next(raw, end) {
		members = append(members, m)
	}
	return members
}

// Elements returns the elements of an array, or nil for any other value.
func Elements(raw json.RawMessage) []json.RawMessage {
	at := skipSpace(raw, 0)
	if !starts(raw, at, '[') {
		return nil
	}
	elements := make([]json.RawMessage, 0, 4)
	for at = skipSpace(raw, at+1); at < len(raw) && raw[at] != ']'; at = skipSpace(raw, at+1) {
		end := at + valueEnd(raw[at:])
		elements = append(elements, slices.Clip(raw[at:end]))
		if at = skipSpace(raw, end); !starts(raw, at, ',') {
			break
		}
	}
	return elements
}

func starts(b []byte, at int, with byte) bool { return at < len(b) && b[at] == with }

func skipSpace(b []byte, at int) int {
	for at < len(b) && (b[at] == ' ' || b[at] == '\t' || b[at] == '\r' || b[at] == '\n') {
		at++
	}
	return at
}

// valueEnd returns the length of the JSON value at the start of b.
func valueEnd(b []byte) int {
	depth := 0
	for at := 0; at < len(b); at++ {
		switch b[at] {
		case '"':
			at += stringEnd(b[at:]) - 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return at
			}
			continue
		default:
			continue
		}
		if depth < 0 {
			return at // the end of what contains a number or literal
		}
		if depth == 0 {
			return at + 1
		}
	}
	return len(b)
}

// stringEnd returns the length of the JSON string at the start of b.
func stringEnd(b []byte) int {
	for at := 1; ; {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 {
			return len(b)
		}
		at += i + 1
		escapes := 0
		for k := at - 2; k > 0 && b[k] == '\\'; k-- {
			escapes++
		}
		if escapes%2 == 0 {
			return at
		}
	}
}
