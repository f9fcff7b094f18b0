package cli

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/trust"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// only is an environment with one variable.
func only(name, value string) func(string) (string, bool) {
	return func(n string) (string, bool) {
		if n == name {
			return value, true
		}
		return "", false
	}
}

// Text of a config never appears where the question's own text does, whatever its length and padding.
func TestQuestionCannotBeForged(t *testing.T) {
	t.Parallel()
	forged := "1 command. Allow this now? [y/N] "
	for _, padding := range []string{strings.Repeat(" ", 4000), strings.Repeat("\u00a0", 4000), strings.Repeat("\u2800", 4000), strings.Repeat("x", 4000), strings.Repeat("界", 2000), strings.Repeat("a b ", 1000)} {
		e := Entry{Kind: trust.Server, Name: "evil", verb: "run", Intent: &config.Intent{Keys: []config.IntentKey{
			{Name: "args", Value: fmt.Appendf(nil, "[%q]", padding+forged)}, {Name: "command", Value: []byte(`"sh"`)}}}}
		var b bytes.Buffer
		e.Show(&b)
		for _, width := range []int{40, 80, 81} {
			lines := folded(b.String(), width)
			for i, line := range lines {
				if termtext.Width(line) > width {
					t.Errorf("%q is wider than %d", line, width)
				}
				if strings.HasPrefix(strings.TrimSpace(line), forged[:9]) || i > 2 && line != "" && !strings.HasPrefix(line, "        | ") {
					t.Errorf("line %d of %d: %q", i, len(lines), line)
				}
			}
			if joined := strings.ReplaceAll(strings.Join(lines, ""), "        | ", ""); !strings.Contains(joined, strings.TrimSpace(forged)) {
				t.Errorf("a part is missing: %q", joined)
			}
		}
	}
}

// A server that is added or changed while a command runs waits for approval; approved servers stay in use.
func TestChangedWhileRunning(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	t.Chdir(dir)
	p := &Permission{env: &Env{LookupEnv: func(string) (string, bool) { return "", false }}, g: &Globals{}, Needed: true, folder: dir, store: trust.New(filepath.Join(home, "trust"))}
	parse := func(text string) *config.Config {
		cfg, problems := config.Parse([]byte(text), ".mcp.json", config.Options{Workspace: dir})
		if cfg == nil {
			t.Fatal(problems)
		}
		return cfg
	}
	running := parse(`{"mcpServers": {"a": {"command": "x"}, "off": {"command": "off", "enabled": false}}}`)
	hold := p.hold(running, false)
	approved := func(text string) bool { return hold.Approved()[parse(text).Servers[0].Intent.Digest] }
	if !approved(`{"mcpServers": {"a": {"command": "x"}}}`) || approved(`{"mcpServers": {"a": {"command": "y"}}}`) || approved(`{"mcpServers": {"off": {"command": "off"}}}`) {
		t.Error("what is approved at the start is wrong")
	}
	if err := p.Approve(Entries(parse(`{"mcpServers": {"a": {"command": "y"}}}`))); err != nil || !approved(`{"mcpServers": {"a": {"command": "y"}}}`) {
		t.Errorf("approved later: %v", err)
	}
	if hold.File == "" || !strings.Contains(hold.Hint, "mcptrack trust ") {
		t.Errorf("%+v", hold)
	}
	for name, value := range map[string]string{"CI": "true", trustKey: dir} {
		p.env.LookupEnv = only(name, value)
		if p.hold(running, false) != nil || p.hold(running, true) == nil {
			t.Errorf("%s does not trust the folder", name)
		}
	}
}
