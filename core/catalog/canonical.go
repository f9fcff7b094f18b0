package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
)

// value is a JSON value whose digest is computed. Its canonical form is what json.Marshal returns for it
// after decoding: without white space, with sorted members, of which the last of a name counts, and with
// each character escaped in one way. A value is much smaller than the maps of decoded JSON.
type value struct {
	kind   byte    // first character of the value
	name   []byte  // of a member of an object, decoded
	text   []byte  // a decoded string, or a number, true, false or null as it is written
	nested []value // in an object, sorted by name
}

// parse returns the value of JSON.
func parse(raw []byte) (v value, err error) {
	if !json.Valid(raw) {
		return v, json.Unmarshal(raw, new(json.RawMessage))
	}
	v, _ = parseNext(raw)
	return v, nil
}

// parseNext returns the first value in valid JSON, and what follows it.
func parseNext(raw []byte) (v value, rest []byte) {
	raw = skipBlanks(raw)
	v.kind = raw[0]
	switch v.kind {
	case '{', '[':
		v.nested = make([]value, 0, 4)
		for raw = skipBlanks(raw[1:]); raw[0] != '}' && raw[0] != ']'; {
			var name []byte
			if v.kind == '{' {
				name, raw = parseString(raw)
				raw = skipBlanks(raw)[1:] // the colon
			}
			var in value
			in, raw = parseNext(raw)
			in.name = name
			v.nested = append(v.nested, in)
			if raw = skipBlanks(raw); raw[0] == ',' {
				raw = skipBlanks(raw[1:])
			}
		}
		if v.kind == '{' {
			v.sort()
		}
		return v, raw[1:]
	case '"':
		v.text, rest = parseString(raw)
		return v, rest
	}
	end := 1
	for end < len(raw) && raw[end] > ' ' && raw[end] != ',' && raw[end] != '}' && raw[end] != ']' {
		end++
	}
	v.text = raw[:end]
	return v, raw[end:]
}

// sort sorts the members of an object and keeps the last of each name.
func (v *value) sort() {
	compare := func(a, b value) int { return bytes.Compare(a.name, b.name) }
	slices.Reverse(v.nested)
	slices.SortStableFunc(v.nested, compare)
	v.nested = slices.CompactFunc(v.nested, func(a, b value) bool { return compare(a, b) == 0 })
}

func skipBlanks(raw []byte) []byte {
	for len(raw) > 0 && raw[0] <= ' ' {
		raw = raw[1:]
	}
	return raw
}

// parseString returns the decoded string with which valid JSON begins, and what follows it.
func parseString(raw []byte) (text, rest []byte) {
	end, decoded := 1, true
	for ; raw[end] != '"'; end++ {
		if raw[end] == '\\' {
			decoded = false
			end++
		} else if raw[end] >= 0x80 { // may be invalid UTF-8
			decoded = false
		}
	}
	if decoded {
		return raw[1:end], raw[end+1:]
	}
	var s string
	_ = json.Unmarshal(raw[:end+1], &s) // valid JSON
	return []byte(s), raw[end+1:]
}

// append appends the canonical form.
func (v value) append(out []byte) []byte {
	switch v.kind {
	case '{', '[':
		out = append(out, v.kind)
		for i, in := range v.nested {
			if i > 0 {
				out = append(out, ',')
			}
			if v.kind == '{' {
				out = append(appendString(out, in.name), ':')
			}
			out = in.append(out)
		}
		return append(out, v.kind+2) // the closing character
	case '"':
		return appendString(out, v.text)
	}
	return append(out, v.text...)
}

func appendString(out, text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c >= 0x80 || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			encoded, _ := json.Marshal(string(text)) // never fails
			return append(out, encoded...)
		}
	}
	return append(append(append(out, '"'), text...), '"')
}

// digest returns the digest of a value that was parsed from n bytes.
func (v value) digest(n int) Digest { return sha256.Sum256(v.append(make([]byte, 0, n))) }
