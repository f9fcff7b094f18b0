package markdown

import (
	"encoding/json"
	"strings"
	"testing"
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
