package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxURL bounds the length of a URL with its arguments.
const maxURL = 64 << 10

// A target is the request of a call: an escaped path with query, and a JSON body or nil.
type target struct {
	path string
	body []byte
}

// fill puts arguments into the entry's route. Its errors are meant for the caller of the
// tool, who can correct the arguments.
func (e *entry) fill(arguments json.RawMessage) (target, error) {
	args, err := e.arguments(arguments)
	if err != nil {
		return target{}, err
	}
	query := url.Values{}
	var body bytes.Buffer
	for _, p := range e.params {
		raw, given := args[p.name]
		if !given {
			continue
		}
		switch p.in {
		case "query":
			for _, value := range queryValues(p, raw) {
				query.Add(p.name, value)
			}
		case "body":
			if body.Len() == 0 {
				body.WriteByte('{')
			} else {
				body.WriteByte(',')
			}
			body.WriteString(quoted(p.name) + ":")
			body.Write(raw)
		}
	}
	var t target
	var path strings.Builder
	for _, piece := range e.path {
		path.WriteString(piece.text)
		if piece.param == "" {
			continue
		}
		value := scalar(args[piece.param])
		if value == "" || escapesPath(value) || !oneSegment(value) {
			return t, fmt.Errorf("parameter %q must be one segment of a path: not empty, not \".\" or \"..\", without slashes, backslashes and control characters, encoded or not", piece.param)
		}
		path.WriteString(url.PathEscape(value))
	}
	// Each value was checked alone: several values, or a value next to text, may still make
	// a dot segment.
	if escapesPath(path.String()) {
		return t, errors.New("the arguments result in a path with \".\" or \"..\" segments")
	}
	own := strings.Split(e.route(), "/")
	for i, segment := range strings.Split(path.String(), "/") {
		if strings.Contains(own[i], "{") && !oneSegment(segment) {
			return t, errors.New("an argument adds segments to the path")
		}
	}
	if len(query) > 0 {
		path.WriteString("?" + query.Encode())
	}
	if path.Len() > maxURL {
		return t, fmt.Errorf("with these arguments the URL is longer than %d KiB", maxURL>>10)
	}
	t.path = path.String()
	if body.Len() > 0 {
		body.WriteByte('}')
		t.body = body.Bytes()
	}
	return t, nil
}

// arguments returns the arguments by name, checked for their types. null means that an
// argument is absent.
func (e *entry) arguments(raw json.RawMessage) (map[string]json.RawMessage, error) {
	var args map[string]json.RawMessage
	if len(bytes.TrimSpace(raw)) > 0 && json.Unmarshal(raw, &args) != nil {
		return nil, errors.New("the arguments must be an object")
	}
	known := map[string]bool{}
	for _, p := range e.params {
		known[p.name] = true
		value, given := args[p.name]
		if string(value) == "null" {
			delete(args, p.name)
			given = false
		}
		if !given {
			if p.required {
				return nil, fmt.Errorf("parameter %q is required", p.name)
			}
			continue
		}
		if !p.accepts(value) {
			return nil, fmt.Errorf("parameter %q must be of type %s", p.name, p.kind)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if !known[name] {
			return nil, fmt.Errorf("unknown parameter %s", strconv.Quote(cut(name, maxName)))
		}
	}
	return args, nil
}

// accepts reports whether a JSON value is of the parameter's type.
func (p param) accepts(raw json.RawMessage) bool {
	switch first := raw[0]; p.kind {
	case "string":
		return first == '"'
	case "boolean":
		return first == 't' || first == 'f'
	case "array":
		return first == '['
	case "object":
		return first == '{'
	case "integer":
		return isNumber(first) && !bytes.ContainsAny(raw, ".eE")
	default:
		return isNumber(first)
	}
}

func isNumber(first byte) bool { return first == '-' || '0' <= first && first <= '9' }

// scalar returns a JSON value as text: a string without quotes, a number with its
// original digits.
func scalar(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}

// queryValues returns the values of one parameter in the query: one for each element of
// an array, one for anything else, with objects as JSON.
func queryValues(p param, raw json.RawMessage) []string {
	if p.kind != "array" {
		return []string{scalar(raw)}
	}
	var elements []json.RawMessage
	_ = json.Unmarshal(raw, &elements) // accepts has checked that it is an array
	values := make([]string, len(elements))
	for i, element := range elements {
		values[i] = scalar(element)
	}
	return values
}
