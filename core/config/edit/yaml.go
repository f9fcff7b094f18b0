package edit

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// yamlExtent returns the offsets of an object in YAML: of its lines, without those that only have
// comments at the end, or of {…}, for which flow is set.
func (d *doc) yamlExtent(value *tree.Node) (from, to int, flow, ok bool) {
	t := d.Text()
	if value.Kind != tree.Object || value.Offset >= len(t) {
		return 0, 0, false, false
	}
	if t[value.Offset] == '{' {
		to, ok = endOfFlow(t, value.Offset)
		return value.Offset, to, true, ok
	}
	if len(value.Members) == 0 {
		return 0, 0, false, false
	}
	from = value.Members[0].Offset
	column := d.column(from)
	to = from
	for at := from; at < len(t); {
		line, _, _ := bytes.Cut(t[at:], []byte("\n"))
		content := bytes.TrimRight(line, " \t\r")
		text := bytes.TrimLeft(content, " ")
		if at != from && len(text) > 0 && text[0] != '#' && len(content)-len(text) < column {
			break
		}
		if len(text) > 0 && text[0] != '#' {
			to = at + len(content)
		}
		at += len(line) + 1
	}
	return from, to, false, to > from
}

// column returns the number of bytes between the start of the line and an offset.
func (d *doc) column(offset int) int {
	return offset - bytes.LastIndexByte(d.Text()[:offset], '\n') - 1
}

// endOfFlow returns the offset after the brace that closes the one at an offset.
func endOfFlow(t []byte, from int) (int, bool) {
	depth := 0
	for i := from; i < len(t); i++ {
		switch c := t[i]; c {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		case '"', '\'':
			if i > 0 && strings.IndexByte("{[,: \t\n", t[i-1]) < 0 {
				continue // an apostrophe within a word
			}
			for i++; i < len(t) && t[i] != c; i++ {
				if c == '"' && t[i] == '\\' {
					i++
				}
			}
		}
	}
	return 0, false
}

// yaml returns the change for an object in YAML.
func (d *doc) yaml(value *tree.Node, set []Member, keep func(string) bool) (c change, ok bool) {
	from, to, flow, ok := d.yamlExtent(value)
	if !ok {
		return c, false
	}
	if flow {
		return d.yamlFlow(value, from, to, set, keep), true
	}
	indent := strings.Repeat(" ", d.column(from))
	var lines []string
	for _, m := range set {
		switch v := m.Value.(type) {
		case []string:
			lines = append(lines, scalar(m.Name)+":")
			for _, item := range v {
				lines = append(lines, "- "+scalar(item))
			}
		case []Member:
			lines = append(lines, scalar(m.Name)+":")
			for _, in := range v {
				text, _ := in.Value.(string)
				lines = append(lines, "  "+scalar(in.Name)+": "+scalar(text))
			}
		case string:
			lines = append(lines, scalar(m.Name)+": "+scalar(v))
		}
	}
	var now strings.Builder
	now.WriteString(strings.Join(lines, d.eol+indent))
	for i, m := range value.Members {
		if !keep(m.Name) {
			continue
		}
		end := to
		if i+1 < len(value.Members) && value.Members[i+1].Offset > m.Offset {
			end = value.Members[i+1].Offset
		}
		if m.Offset > end {
			return c, false
		}
		now.WriteString(d.eol + indent + withoutComments(string(d.Text()[m.Offset:end])))
	}
	return change{from, to, []byte(now.String())}, true
}

// withoutComments returns a text without the lines at its end that are empty or comments, which
// belong to what follows.
func withoutComments(text string) string {
	for {
		text = strings.TrimRight(text, " \t\r\n")
		i := strings.LastIndexByte(text, '\n')
		if i < 0 || !strings.HasPrefix(strings.TrimLeft(text[i:], " \t\n"), "#") {
			return text
		}
		text = text[:i]
	}
}

// yamlFlow returns the change for an object written as {…}, of which only short values can be kept.
func (d *doc) yamlFlow(value *tree.Node, from, to int, set []Member, keep func(string) bool) change {
	var kept []string
	for _, m := range value.Members {
		if !keep(m.Name) {
			continue
		}
		kept = append(kept, quoted(m.Name)+": "+string(tree.Canonical(m.Value)))
	}
	now := strings.TrimSuffix(inline(set, ": ", quoted, ""), "}")
	return change{from, to, []byte(strings.Join(append([]string{now}, kept...), ", ") + "}")}
}

// scalar writes a string in YAML, without quotes if it cannot be mistaken for anything else.
func scalar(s string) string {
	plain := regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*$`)
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "y", "n", "null":
		return quoted(s)
	}
	if plain.MatchString(s) {
		return s
	}
	return quoted(s)
}
