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

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// Bounds of one item. An item that exceeds them is not listed: its server is broken or
// hostile.
const (
	maxItem = 256 << 10 // bytes
	maxName = 256       // bytes of a tool's or prompt's name
	maxURI  = 8 << 10   // bytes of a URI
)

// downMember marks, in _meta, an item of a server that cannot be reached.
const downMember = "mcptrack/down"

// item is a checked item of a server, ready to be listed under another key.
type item struct {
	key       string
	raw       json.RawMessage // the item's JSON after the checks, in one line
	at, end   int             // offsets of the key's value in raw
	ui        string          // of a tool: the URI of its MCP App, as the server has it
	asTask    bool            // of a tool: it must be called as a task
	suspicion string          // what a user should look into; "" if nothing
	pattern   *regexp.Regexp  // of a template: matches its URIs
	digest    catalog.Digest  // of the JSON that the server sent
	rendered  *rendered       // the form in which it was listed last
}

// rendered caches the listed form of an item, as most items do not change between
// merges. Only the goroutine that merges uses it.
type rendered struct {
	key, ui string
	down    bool
	raw     json.RawMessage
}

// newItem checks an item. The error says, for users, why it cannot be listed: clients
// validate whole lists, and one invalid item would make them reject all others.
func newItem(k catalog.Kind, it catalog.Item) (item, error) {
	if len(it.Raw) > maxItem {
		return item{}, fmt.Errorf("it is larger than %d KiB", maxItem>>10)
	}
	if !utf8.Valid(it.Raw) {
		return item{}, errors.New("it is not UTF-8")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, it.Raw); err != nil {
		return item{}, errors.New("it is not valid JSON")
	}
	out := item{key: it.Key, raw: line.Bytes(), digest: it.Digest, rendered: &rendered{}}
	if catalog.Depth(out.raw) > catalog.MaxDepth {
		return item{}, fmt.Errorf("it is nested more than %d levels deep", catalog.MaxDepth)
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
	all, err := out.members(k.KeyField())
	if err != nil {
		return item{}, err
	}
	members := make(map[string]json.RawMessage, len(all))
	for _, m := range all {
		members[m.name] = m.value
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
	if k == catalog.Tools {
		if err := mcpserver.CheckTool(out.raw); err != nil {
			return item{}, err
		}
		out.ui = appURI(members["_meta"])
		out.asTask = string(fields(members["execution"])["taskSupport"]) == `"required"`
	}
	cleaned, removed, err := clean(k, all)
	if err != nil {
		return item{}, err
	}
	if removed != nil {
		out.write(k.KeyField(), cleaned)
		out.suspicion = "it had " + strings.Join(removed, ", ") + ", which are removed"
	}
	if k == catalog.Templates {
		out.pattern, err = uritemplate.Pattern(it.Key)
	}
	return out, err
}

// members decodes the members of the item's object and records where the value of key is.
// A name that occurs twice is an error: parsers differ in which of the two they take.
func (it *item) members(key string) ([]jsonMember, error) {
	members := readMembers(it.raw)
	if members == nil {
		return nil, errors.New("it is not a JSON object")
	}
	seen := make(map[string]bool, len(members))
	var text string
	for _, m := range members {
		if seen[m.name] {
			return nil, errors.New("it has a duplicate member")
		}
		seen[m.name] = true
		if m.name == key {
			_ = json.Unmarshal(m.value, &text) // "" is not a key
			it.at, it.end = m.at, m.at+len(m.value)
		}
	}
	if text == "" || text != it.key {
		return nil, fmt.Errorf("it has no %s", key)
	}
	return members, nil
}

// write replaces the item's JSON and records where the value of key is in it.
func (it *item) write(key string, members []jsonMember) {
	it.raw = writeMembers(members)
	for _, m := range readMembers(it.raw) {
		if m.name == key {
			it.at, it.end = m.at, m.at+len(m.value)
		}
	}
}

// as returns the item's JSON as clients see it: with its exported key, with the exported URI
// of its MCP App (ui; "" if it has none), and marked if its server is down.
func (it item) as(key, ui string, down bool) json.RawMessage {
	if last := it.rendered; last.raw != nil && last.key == key && last.ui == ui && last.down == down {
		return last.raw
	}
	raw := it.raw
	if key != it.key {
		raw = slices.Concat(raw[:it.at], quote(key), raw[it.end:])
	}
	if ui != it.ui && ui != "" {
		raw = withAppURI(raw, ui)
	}
	if down {
		raw = markDown(raw)
	}
	*it.rendered = rendered{key, ui, down, raw}
	return raw
}

// markDown adds the mark to _meta, which is an object if present. Everything else keeps its
// order.
func markDown(raw json.RawMessage) json.RawMessage {
	mark := jsonMember{name: downMember, value: json.RawMessage("true")}
	members := readMembers(raw)
	for i, m := range members {
		if m.name == "_meta" {
			members[i].value = writeMembers(append(readMembers(m.value), mark))
			return writeMembers(members)
		}
	}
	return writeMembers(append(members, jsonMember{name: "_meta", value: writeMembers([]jsonMember{mark})}))
}

// encode marshals decoded JSON and strings in one line, without HTML escapes.
func encode(v any) json.RawMessage {
	b, _ := printable.Marshal(v) // cannot fail for decoded JSON and strings
	return b
}

func quote(s string) []byte { return encode(s) }
