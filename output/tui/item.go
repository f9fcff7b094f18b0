package tui

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// newItemPage returns a page with the descriptor of an item, and the calls of a tool.
func newItemPage(m *model, server string, kind catalog.Kind, name string) *textPage {
	source := m.opts.Source
	return &textPage{name: name, server: server, load: func(ctx context.Context) ([]textLine, error) {
		d, err := source.Detail(ctx, server)
		if err != nil {
			return nil, err
		}
		i := slices.Index(keysOf(d.Lists[kind]), name)
		if i < 0 {
			return []textLine{{text: "The server no longer offers this."}}, nil
		}
		out := itemLines(m, d.Lists[kind][i])
		if kind == catalog.Tools {
			recorded, err := source.Calls(ctx, server)
			if err != nil {
				return nil, err
			}
			out = append(out, textLine{}, textLine{text: "CALLS", style: m.styles.bold}, textLine{text: " " + recorded.summary(server, name)})
		}
		return out, nil
	}}
}

// itemLines returns the description of an item and then each other member of its descriptor, such as
// the input schema.
func itemLines(m *model, it Row) (out []textLine) {
	for _, l := range split(it.About) {
		out = append(out, textLine{text: l})
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(it.Raw, &members) != nil {
		return out
	}
	delete(members, "name")
	delete(members, "description")
	names := slices.Sorted(maps.Keys(members))
	if i := slices.Index(names, "inputSchema"); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, "inputSchema")
	}
	for _, name := range names {
		out = append(out, textLine{}, textLine{text: words(name), style: m.styles.bold})
		var values map[string]json.RawMessage
		var text string
		switch {
		case strings.HasSuffix(name, "Schema"):
			out = append(out, schemaLines(m, "", members[name], false, 0)...)
		case json.Unmarshal(members[name], &values) == nil:
			for _, key := range slices.Sorted(maps.Keys(values)) {
				out = append(out, textLine{text: " " + pad(line(key), 20) + " " + compact(values[key]), indent: 22})
			}
		case json.Unmarshal(members[name], &text) == nil:
			out = append(out, textLine{text: " " + line(text), indent: 1})
		default:
			for _, l := range pretty(m, members[name]) {
				l.style = ""
				out = append(out, l)
			}
		}
	}
	return out
}

// maxDepth bounds the nesting of a schema that is described.
const maxDepth = 8

// schemaLines describes a JSON schema: in each line a property, its type, its description and its other keywords.
func schemaLines(m *model, name string, raw json.RawMessage, required bool, depth int) []textLine {
	var s, properties map[string]json.RawMessage
	if depth > maxDepth || json.Unmarshal(raw, &s) != nil {
		return []textLine{{text: strings.Repeat("  ", depth) + line(name) + " " + compact(raw), indent: 2 * depth}}
	}
	take := func(keyword string, into any) {
		if json.Unmarshal(s[keyword], into) == nil {
			delete(s, keyword)
		}
	}
	var kind, about string
	var needed []string
	take("type", &kind)
	take("description", &about)
	take("required", &needed)
	take("properties", &properties)
	items := s["items"]
	delete(s, "items")
	delete(s, "$schema")
	if required {
		kind = strings.TrimPrefix(kind+", required", ", ")
	}
	for _, keyword := range slices.Sorted(maps.Keys(s)) {
		about += " · " + keyword + " " + compact(s[keyword])
	}
	var out []textLine
	if depth > 0 || about != "" {
		text := pad(strings.Repeat("  ", depth-min(depth, 1))+" "+line(name), 21) + " " + pad(line(kind), 17) + " "
		out = append(out, textLine{text: text + line(strings.TrimPrefix(about, " · ")), indent: 40})
	}
	for _, property := range slices.Sorted(maps.Keys(properties)) {
		out = append(out, schemaLines(m, property, properties[property], slices.Contains(needed, property), depth+1)...)
	}
	if items != nil {
		out = append(out, schemaLines(m, "each item", items, false, depth+1)...)
	}
	if len(out) == 0 {
		out = []textLine{{text: " no properties"}}
	}
	return out
}

// compact returns JSON in one printable line.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return line(string(printable.JSON(b.Bytes())))
}

// words returns the name of a JSON member as words: inputSchema becomes INPUT SCHEMA.
func words(member string) string {
	var b strings.Builder
	for _, r := range line(member) {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}
