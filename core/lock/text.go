package lock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
)

// Name returns the name of an item for people and command lines: the section in the singular, and the
// key, such as "tool/draw" or "instructions". It may contain hidden characters.
func Name(section Section, key string) string {
	if keyField(section) == "" {
		return string(section)
	}
	return strings.TrimSuffix(string(section), "s") + "/" + key
}

// ParseName returns the section and key of the item that has a name; see [Name].
func ParseName(name string) (section Section, key string, ok bool) {
	for _, section := range sections() {
		prefix := Name(section, "")
		key, is := strings.CutPrefix(name, prefix)
		if is && (key != "") == strings.HasSuffix(prefix, "/") {
			return section, key, true
		}
	}
	return "", "", false
}

// Name returns the name of the item that differs; see [Name].
func (d Drift) Name() string { return Name(d.Section, d.Key) }

// Diff returns the difference between the old and the new definition as a unified diff in which
// hidden characters are marked, like <U+200B>. A line is one member: its path, and its value as JSON,
// sorted by path. Texts are not escaped; they continue after "| " on the next line after a line feed or,
// if they are long, after a sentence. The result is "" if either definition is larger than
// [textdiff.MaxText] in this form, or both have the same members.
func (d Drift) Diff() string {
	return textdiff.Unified(printable.Line(d.Name(), 200), members(d.Old.Definition), members(d.New.Definition))
}

// Unshown says in a clause what [Drift.Diff] does not show of the new definition, so that a reader of the
// difference cannot judge all of it; it is empty if the difference is complete.
func (d Drift) Unshown() string {
	var c content
	switch {
	case d.Section != SectionContents || jsonv2.Unmarshal(d.New.Definition, &c) != nil:
	case c.Text == nil && c.Size > 0:
		return fmt.Sprintf("not text: %d bytes are not shown", c.Size)
	case c.Text != nil && int64(len(*c.Text)) < c.Size:
		return fmt.Sprintf("cut: %d bytes are not shown", c.Size-int64(len(*c.Text)))
	}
	if was, is := members(d.Old.Definition), members(d.New.Definition); len(was) > textdiff.MaxText || len(is) > textdiff.MaxText {
		return "too large to compare: the definition is not shown"
	}
	return ""
}

// members returns the lines of a definition for a diff.
func members(definition json.RawMessage) string {
	if definition == nil {
		return ""
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(definition))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return printable.Marked(flat(string(definition))) + "\n"
	}
	var b strings.Builder
	write(&b, "", v)
	return printable.Marked(b.String())
}

// write writes a value, and below it those that it contains.
func write(b *strings.Builder, path string, v any) {
	prefix := ""
	if path != "" {
		prefix = path + ": "
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			write(b, strings.TrimPrefix(path+"/"+flat(name), "/"), v[name])
		}
		if len(v) == 0 {
			b.WriteString(prefix + "{}\n")
		}
	case []any:
		for _, element := range v {
			write(b, path+"[]", element)
		}
		if len(v) == 0 {
			b.WriteString(prefix + "[]\n")
		}
	case string:
		b.WriteString(prefix + `"` + strings.Join(sentences(v), "\n  | ") + "\"\n")
	default:
		text, _ := json.Marshal(v) // cannot fail: it was JSON
		b.WriteString(prefix + string(text) + "\n")
	}
}

// flat returns a text on one line.
func flat(s string) string { return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(s) }

// longText is the number of bytes from which a text is split into sentences.
const longText = 72

// sentences splits a text after line feeds and, if a line is long, after sentences.
func sentences(text string) (parts []string) {
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) <= longText {
			parts = append(parts, line)
			continue
		}
		parts = append(parts, strings.SplitAfter(line, ". ")...)
	}
	return parts
}
