package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/yosida95/uritemplate/v3"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Bounds of one item. What exceeds them comes from a broken server or a hostile one.
const (
	maxItem     = 256 << 10 // bytes
	maxName     = 256       // bytes of a tool's or prompt's name
	maxURI      = 8 << 10   // bytes of a URI
	maxTemplate = 2 << 10   // bytes of a URI template
	maxDepth    = 64        // nested objects and arrays
)

// downMember marks, in _meta, an item of a server that cannot be reached.
const downMember = "mcptrack/down"

// item is a checked item of a server, ready to be listed under another key.
type item struct {
	key       string
	raw       json.RawMessage // one line
	at, end   int             // of the key's value in raw
	suspicion string          // what a user should look at; "" if nothing
	pattern   *regexp.Regexp  // of a template: what its URIs look like
	digest    catalog.Digest  // as the server has it
	shown     *shown          // as it was listed last
}

// shown is an item as it is listed: most items are listed again and again, by every
// merge, in the same form. It belongs to the goroutine that merges.
type shown struct {
	key  string
	down bool
	raw  json.RawMessage
}

// newItem checks an item. The error says, for people, why it cannot be listed:
// clients validate whole lists, and one bad item would cost them all the others.
func newItem(k catalog.Kind, it catalog.Item) (item, error) {
	if len(it.Raw) > maxItem {
		return item{}, fmt.Errorf("it has more than %d KiB", maxItem>>10)
	}
	if !utf8.Valid(it.Raw) {
		return item{}, errors.New("it is not UTF-8")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, it.Raw); err != nil {
		return item{}, errors.New("it is no JSON")
	}
	out := item{key: it.Key, raw: line.Bytes(), digest: it.Digest, shown: &shown{}}
	if depth(out.raw) > maxDepth {
		return item{}, fmt.Errorf("it is nested more than %d deep", maxDepth)
	}
	limit := maxURI
	if k == catalog.Tools || k == catalog.Prompts {
		limit = maxName
	}
	if len(it.Key) > limit {
		return item{}, fmt.Errorf("its %s has more than %d bytes", k.KeyField(), limit)
	}
	if printable.Line(it.Key, 0) != it.Key {
		return item{}, fmt.Errorf("its %s has hidden characters", k.KeyField())
	}
	members, err := out.members(k.KeyField())
	if err != nil {
		return item{}, err
	}
	for _, m := range shape(k) {
		raw, there := members[m.name]
		if !there && m.required {
			return item{}, fmt.Errorf("it has no %s", m.name)
		}
		if there && !m.is(raw) {
			return item{}, fmt.Errorf("its %s is not %s", m.name, m.want)
		}
	}
	for _, name := range []string{"name", "title", "description"} {
		var text string
		if json.Unmarshal(members[name], &text) == nil && hides(text) {
			out.suspicion = "it has hidden characters in its " + name
		}
	}
	if k == catalog.Templates {
		out.pattern, err = pattern(it.Key)
	}
	return out, err
}

// hides reports whether a text has characters that are not seen. Line ends of either
// kind, and joiners of scripts and emoji, hide nothing.
func hides(text string) bool {
	if printable.Lines(text) == text {
		return false
	}
	text = strings.NewReplacer("\r\n", "\n", "\u200c", "", "\u200d", "").Replace(text)
	return printable.Lines(text) != text
}

// pattern is what the URIs of a template look like. The library panics where the
// expression gets too large.
func pattern(template string) (re *regexp.Regexp, err error) {
	defer func() {
		if recover() != nil {
			re, err = nil, errors.New("it is too large a URI template")
		}
	}()
	parsed, err := uritemplate.New(template)
	if err != nil || len(template) > maxTemplate {
		return nil, errors.New("it is no URI template (RFC 6570)")
	}
	return parsed.Regexp(), nil
}

// members reads the top level, where every name may come once only: two readers
// must not see two different items.
func (it *item) members(key string) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(it.raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.New("it is no object")
	}
	members := map[string]json.RawMessage{}
	for dec.More() {
		tok, err := dec.Token()
		name, _ := tok.(string)
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil, errors.New("it is no JSON")
		}
		if _, twice := members[name]; twice {
			return nil, errors.New("a member is there twice")
		}
		members[name] = value
		if name == key {
			it.end = int(dec.InputOffset())
			it.at = it.end - len(value)
		}
	}
	var text string
	if json.Unmarshal(members[key], &text) != nil || text == "" || text != it.key {
		return nil, fmt.Errorf("it has no %s", key)
	}
	return members, nil
}

// as is the item under another key, marked if its server is down.
func (it item) as(key string, down bool) json.RawMessage {
	if last := it.shown; last.raw != nil && last.key == key && last.down == down {
		return last.raw
	}
	raw := it.raw
	if key != it.key {
		raw = slices.Concat(raw[:it.at], quote(key), raw[it.end:])
	}
	if down {
		raw = markDown(raw)
	}
	*it.shown = shown{key, down, raw}
	return raw
}

// markDown adds the mark to _meta, which is an object if it is there.
func markDown(raw json.RawMessage) json.RawMessage {
	var members, meta map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return raw
	}
	if json.Unmarshal(members["_meta"], &meta) != nil || meta == nil {
		meta = map[string]json.RawMessage{}
	}
	meta[downMember] = json.RawMessage("true")
	members["_meta"] = encode(meta)
	return encode(members)
}

// encode writes JSON that was read before, in one line and without escapes that
// only HTML needs.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // raw messages that were decoded, and strings
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func quote(s string) []byte { return encode(s) }

// depth is how deep objects and arrays of valid JSON are nested.
func depth(raw []byte) int {
	now, most := 0, 0
	inString := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}
