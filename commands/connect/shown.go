package connect

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/edit"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
)

// diff returns what changes in entries of a host's file, as unified diffs for a terminal. Each entry is shown as JSON,
// whatever the format of the file is, with neither the values of variables and headers nor other values that look like
// secrets. paths lead to the entries, and are the same in both versions.
func diff(file string, before, after []byte, format tree.Format, paths [][]string) string {
	var out strings.Builder
	for _, path := range paths {
		text := textdiff.Unified(file, shown(before, format, path), shown(after, format, path))
		if text == "" {
			text = strings.Join(path, ".") + " in " + file + " changes, and is too large to show\n"
		}
		for line := range strings.Lines(text) {
			out.WriteString(printable.Line(strings.TrimSuffix(line, "\n"), maxLine) + "\n")
		}
	}
	return out.String()
}

// maxLine is how much of a line of a diff is shown.
const maxLine = 2000

// shown returns an entry as JSON, without secrets.
func shown(text []byte, format tree.Format, path []string) string {
	f, err := edit.Open(text, format)
	if err != nil {
		return ""
	}
	entry := f.Value(path)
	if entry == nil {
		return ""
	}
	compact, err := config.Keys{{Name: strings.Join(path, "."), Value: masked(entry, "", false)}}.MarshalJSON()
	if err != nil {
		return ""
	}
	var out strings.Builder
	indented := json.NewEncoder(&out)
	indented.SetEscapeHTML(false)
	indented.SetIndent("", "  ")
	_ = indented.Encode(json.RawMessage(compact)) // cannot fail: it is JSON
	return out.String()
}

// mask replaces secrets in a diff.
const mask = "***"

// masked returns a value of a config, of a member with a name, with secrets replaced: all texts and numbers if hide is
// set.
func masked(n *tree.Node, name string, hide bool) any {
	switch n.Kind {
	case tree.Object:
		keys := config.Keys{}
		for _, m := range n.Members {
			keys = append(keys, config.Key{Name: m.Name, Value: masked(m.Value, m.Name, hide || ofSecrets(m.Name))})
		}
		return keys
	case tree.List:
		texts := make([]string, len(n.Items))
		for i, item := range n.Items {
			texts[i] = item.Text
		}
		items, spans := make([]any, len(n.Items)), credential.FindArgs(texts)
		for i, item := range n.Items {
			items[i] = masked(item, name, hide || len(spans[i]) > 0)
		}
		return items
	case tree.Null, tree.Bool:
		return json.RawMessage(strings.ToLower(n.Text))
	}
	if hide && !isReference(n.Text) || len(credential.Find(name, n.Text)) > 0 || strings.Contains(n.Text, "://") && len(credential.FindURL(n.Text)) > 0 {
		return mask
	}
	return n.Text
}

// ofSecrets reports whether a member has the values of variables or headers.
func ofSecrets(name string) bool {
	return slices.Contains([]string{"env", "environment", "envs", "headers", "http_headers", "requestOptions"}, name)
}

// isReference reports whether a value consists of one reference.
func isReference(text string) bool {
	return (strings.HasPrefix(text, "${") || strings.HasPrefix(text, "{env:")) && strings.IndexByte(text, '}') == len(text)-1 &&
		!strings.Contains(text, ":-") && !credential.Doubtful(strings.Trim(text, "${}"))
}
