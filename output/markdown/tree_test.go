package markdown

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

func TestTree(t *testing.T) {
	for source, want := range map[string]string{
		"# A *b*\n\ntext `c`\nmore": `[{"tag":"h1","children":[{"text":"A "},{"tag":"em","children":[{"text":"b"}]}]},{"tag":"p","children":[{"text":"text "},{"tag":"code","children":[{"text":"c"}]},{"text":"\n"},{"text":"more"}]}]`,
		"- a\n- **b**":              `[{"tag":"ul","children":[{"tag":"li","children":[{"text":"a"}]},{"tag":"li","children":[{"tag":"strong","children":[{"text":"b"}]}]}]}]`,
		"<img src=x onerror=1>":     `[{"tag":"pre","children":[{"text":"<img src=x onerror=1>"}]}]`,
		"a <b>c</b>":                `[{"tag":"p","children":[{"text":"a "},{"text":"<b>"},{"text":"c"},{"text":"</b>"}]}]`,
		"[x](javascript:alert)":     `[{"tag":"p","children":[{"tag":"a","link":"javascript:alert","children":[{"text":"x"}]}]}]`,
		"---\ntags: [a]\n---\nb":    `[{"tag":"pre","children":[{"text":"tags: [a]"}]},{"tag":"p","children":[{"text":"b"}]}]`,
		"|a|b|\n|-|-|\n|c|d|":       `[{"tag":"table","children":[{"tag":"tr","children":[{"tag":"th","children":[{"text":"a"}]},{"tag":"th","children":[{"text":"b"}]}]},{"tag":"tr","children":[{"tag":"td","children":[{"text":"c"}]},{"tag":"td","children":[{"text":"d"}]}]}]}]`,
	} {
		var got strings.Builder
		enc := json.NewEncoder(&got)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(Tree([]byte(source))); err != nil || strings.TrimSpace(got.String()) != want {
			t.Errorf("%q: %s, %v; want %s", source, got.String(), err, want)
		}
	}
}

// Tables are those of goldmark's extension.
func TestTables(t *testing.T) {
	for _, source := range []string{
		"|a|b|\n|-|-|\n|c|d|", "a | b\n:-|-:\n`c` | *d*\ne|f", "| a |\n| --- |", "a\n:-:\nb", "text\nmore\n| a | b |\n| - | - |\n| c | d |\n\nafter",
		"|a|b|\n|-|-|\n|c|\n|d|e|f|\n||", "|a\\|b|`c\\|d`|\n|-|-|\n|\\|e|f\\||", "- | a | b |\n  |---|---|\n  | c | d |", "> |a|\n> |-|\n> |b|",
		"a\n-\nb", "a\n-", "a\nb\n---\nc", "- a\n-", "> a\n-", "a|b\n-|x", "|a|b|\n|-|", "|a|\n|-|\n|b|\n|-|", "|-|\n|-|", "a|b\n:|:\n", "|a|\n| |\n", "[x|y](z)|b\n-|-\n`|`|c",
		"|a|\n|-|\n# b", "\t|a|\n\t|-|", "|\n|-|\n", "||\n|-|", "|a|\n|-|\n|b|\n```\nc\n```", "|a|b|\n|---|---|\n|c|<b>|",
	} {
		with := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader([]byte(source)))
		want := (&builder{source: []byte(source), left: maxNodes}).children(with, 0)
		if diff := cmp.Diff(plainText(want), plainText(parse([]byte(source)))); diff != "" {
			t.Errorf("%q:\n%s", source, diff)
		}
	}
}

// plainText is a tree whose adjacent texts are one.
func plainText(nodes []Node) (out []Node) {
	for _, n := range nodes {
		if n.Children = plainText(n.Children); n.Tag == "" && len(out) > 0 && out[len(out)-1].Tag == "" {
			out[len(out)-1].Text += n.Text
			continue
		}
		out = append(out, n)
	}
	return out
}

// TestTreeIsLimited: a hostile source makes neither a deep nor a large tree.
func TestTreeIsLimited(t *testing.T) {
	var count, depth func([]Node) int
	count = func(all []Node) (n int) {
		for _, c := range all {
			n += 1 + count(c.Children)
		}
		return n
	}
	depth = func(all []Node) (most int) {
		for _, c := range all {
			most = max(most, 1+depth(c.Children))
		}
		return most
	}
	if got := depth(Tree([]byte(strings.Repeat("> ", 1000) + "x"))); got == 0 || got > maxDepth {
		t.Errorf("depth %d", got)
	}
	if got := count(Tree([]byte(strings.Repeat("a\n\n", 2*maxNodes)))); got < maxNodes/2 || got > maxNodes {
		t.Errorf("%d nodes", got)
	}
}

// A text that would take goldmark minutes is not parsed.
func TestTreeRefusesWhatIsSlow(t *testing.T) {
	for name, source := range map[string]string{
		"long":      strings.Repeat("a\n\n", maxSource/3+1),
		"one block": strings.Repeat("*a_", maxBlock/3+1),
	} {
		if got := Tree([]byte(source)); got != nil {
			t.Errorf("%s: %d nodes", name, len(got))
		}
	}
	if got := Tree([]byte(strings.Repeat("*a_\n\n", 100))); len(got) != 100 {
		t.Errorf("short blocks: %d nodes", len(got))
	}
}
