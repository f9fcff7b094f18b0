package connect

import (
	"bytes"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
)

// mask replaces secrets in a diff.
const mask = "***"

// diff returns the unified diff between two versions of a config for a terminal. It shows neither
// the values of variables and headers nor other values that look like secrets.
func diff(label string, from, to []byte, format tree.Format) string {
	before, after := broken(masked(from, format), format), broken(masked(to, format), format)
	if len(before) > textdiff.MaxText || len(after) > textdiff.MaxText {
		before, after = changedPart(before, after)
		label += " (part)"
	}
	var out strings.Builder
	for line := range strings.Lines(textdiff.Unified(label, before, after)) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		out.WriteString(printable.Line(hidden(line), 2*longLine) + "\n")
	}
	return out.String()
}

// longLine is the length in bytes from which a line is divided, because a reader could not find the
// change in it.
const longLine = 1000

// broken divides the long lines of JSON before and after each value.
func broken(text string, format tree.Format) string {
	if format != tree.JSON {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if len(line) <= longLine {
			out.WriteString(line)
			continue
		}
		quoted := false
		for i := 0; i < len(line); i++ {
			c := line[i]
			out.WriteByte(c)
			switch {
			case c == '"':
				quoted = !quoted
			case quoted && c == '\\' && i+1 < len(line):
				i++
				out.WriteByte(line[i])
			case !quoted && (c == ',' || c == '{' || c == '[' || c == '}'):
				out.WriteByte('\n')
			}
		}
	}
	return out.String()
}

// hidden replaces the tokens in a line, such as in a comment.
func hidden(line string) string {
	for _, s := range slices.Backward(credential.Find("", line)) {
		line = line[:s.From] + mask + line[s.To:]
	}
	return line
}

// changedPart returns the lines of two texts without most of those that are equal at the start and
// at the end.
func changedPart(a, b string) (string, string) {
	la, lb := slices.Collect(strings.Lines(a)), slices.Collect(strings.Lines(b))
	start := 0
	for start < min(len(la), len(lb)) && la[start] == lb[start] {
		start++
	}
	end := 0
	for end < min(len(la), len(lb))-start && la[len(la)-1-end] == lb[len(lb)-1-end] {
		end++
	}
	start, end = max(start-3, 0), max(end-3, 0)
	return strings.Join(la[start:len(la)-end], ""), strings.Join(lb[start:len(lb)-end], "")
}

// masked returns a config with the values of variables and headers and other secrets replaced. If
// the text cannot be parsed, it returns nothing.
func masked(text []byte, format tree.Format) string {
	src := tree.NewSource(text)
	root, failure := src.Parse(format)
	if failure != nil {
		return ""
	}
	m := masker{Source: src, format: format}
	m.offsets(root)
	slices.Sort(m.starts)
	m.walk(root, "", false)
	slices.SortFunc(m.spans, func(a, b [2]int) int { return a[0] - b[0] })
	var out strings.Builder
	at := 0
	for _, s := range m.spans {
		if s[0] < at { // reached through a YAML alias too
			continue
		}
		out.Write(src.Text()[at:s[0]])
		out.WriteString(mask)
		at = s[1]
	}
	out.Write(src.Text()[at:])
	return out.String()
}

// maxShown is the maximum size of a value that is shown, in bytes.
const maxShown = 16 << 10

// A masker finds the values in a config that must not be shown.
type masker struct {
	*tree.Source
	format tree.Format
	starts []int // offsets of all keys and values
	spans  [][2]int
}

func (m *masker) offsets(n *tree.Node) {
	m.starts = append(m.starts, n.Offset)
	for _, in := range n.Members {
		m.starts = append(m.starts, in.Offset)
		m.offsets(in.Value)
	}
	for _, item := range n.Items {
		m.offsets(item)
	}
}

// walk adds the values below n that must not be shown: all of them if hide is set.
func (m *masker) walk(n *tree.Node, name string, hide bool) {
	switch n.Kind {
	case tree.Object:
		for _, in := range n.Members {
			m.walk(in.Value, in.Name, hide || ofSecrets(in.Name, in.Value))
		}
	case tree.List:
		texts := make([]string, len(n.Items))
		for i, item := range n.Items {
			texts[i] = item.Text
		}
		spans := credential.FindArgs(texts)
		for i, item := range n.Items {
			m.walk(item, name, hide || len(spans[i]) > 0)
		}
	case tree.Null, tree.Bool:
	default:
		if len(n.Text) > maxShown || hide && !isReference(n.Text) || len(credential.Find(name, n.Text)) > 0 || strings.Contains(n.Text, "://") && len(credential.FindURL(n.Text)) > 0 {
			m.spans = append(m.spans, [2]int{n.Offset, m.end(n)})
		}
	}
}

// ofSecrets reports whether the values of an object are those of variables or headers.
func ofSecrets(name string, value *tree.Node) bool {
	switch name {
	case "env", "environment", "envs", "headers", "http_headers", "requestOptions":
		return value.Kind == tree.Object
	}
	return false
}

// isReference reports whether a value consists of one reference.
func isReference(text string) bool {
	return (strings.HasPrefix(text, "${") || strings.HasPrefix(text, "{env:")) && strings.IndexByte(text, '}') == len(text)-1 &&
		!strings.Contains(text, ":-") && !credential.Doubtful(strings.Trim(text, "${}"))
}

// end returns the offset after a value that is neither an object nor a list.
func (m *masker) end(n *tree.Node) int {
	if n.End > 0 {
		return n.End
	}
	if m.format == tree.TOML {
		return m.EndOfTOML(n.Offset)
	}
	t := m.Text()
	next := len(t)
	if i, _ := slices.BinarySearch(m.starts, n.Offset+1); i < len(m.starts) {
		next = m.starts[i]
	}
	// A value in YAML ends at the next key or item, or continues on the lines that are indented
	// more than its own.
	start := bytes.LastIndexByte(t[:n.Offset], '\n') + 1
	own := len(t[start:]) - len(bytes.TrimLeft(t[start:], " -"))
	end := n.Offset
	for at := n.Offset; at < next; {
		line, _, _ := bytes.Cut(t[at:next], []byte("\n"))
		text := bytes.TrimLeft(line, " ")
		if at != n.Offset && len(bytes.TrimSpace(text)) > 0 && len(line)-len(text) < own && t[n.Offset] != '"' && t[n.Offset] != '\'' {
			break
		}
		if len(bytes.TrimSpace(line)) > 0 {
			end = at + len(bytes.TrimRight(line, " \t\r"))
		}
		at += len(line) + 1
	}
	return end
}
