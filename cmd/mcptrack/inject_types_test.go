//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// The TypeScript compiler accepts what inject sends as events of OpenAI's own client, and rejects
// variants of it.
func TestRealInjectTypes(t *testing.T) {
	t.Parallel()
	npm, tsc, node := peertest.Path(t), peertest.Path(t, "node_modules", "typescript", "bin", "tsc"), peertest.Node(t)
	const events = `{"id":"3f9a1c20b7e4d581-2","type":"resource.updated","serverId":"docs","resourceUri":"file:///guide.md","timestamp":"2026-11-20T19:37:25.123Z","content":"first\nsecond"}
{"type":"resource.updated","serverId":"a\nb","resourceUri":"x\"}]}\n\n\u2028${y}</script>","timestamp":"2026-11-20T19:37:25.123Z"}
`
	var good []string
	for _, flags := range [][]string{nil, {"--role", "system", "--content"}, {"--respond"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := mcptrackCommand(ctx, append([]string{"inject", "--stdin", "--dry-run"}, flags...)...)
		cmd.Stdin = strings.NewReader(events)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, strings.Split(strings.TrimSpace(string(out)), "\n")...)
	}
	if len(good) != 8 {
		t.Fatalf("%d client events", len(good))
	}
	var b strings.Builder
	b.WriteString("import type { RealtimeClientEvent } from 'openai/resources/realtime/realtime';\n")
	for i, line := range good {
		fmt.Fprintf(&b, "export const good%d = %s satisfies RealtimeClientEvent;\n", i, line)
	}
	// The compiler is to refuse each of these; else it complains of the comment.
	for i, change := range [][2]string{
		{`"role":"user"`, `"role":"developer"`},
		{`"type":"input_text"`, `"type":"text"`},
		{`"type":"message"`, `"type":"note"`},
		{`"text":"Resource`, `"txt":"Resource`},
		{`"event_id":"`, `"eventId":"`},
		{`"conversation.item.create"`, `"conversation.item.created"`},
	} {
		bad := strings.Replace(good[0], change[0], change[1], 1)
		if bad == good[0] {
			t.Fatalf("%s is not in %s", change[0], good[0])
		}
		fmt.Fprintf(&b, "// @ts-expect-error\nexport const bad%d = %s satisfies RealtimeClientEvent;\n", i, bad)
	}
	compile := func(source string) (string, error) {
		dir := t.TempDir()
		if err := os.Symlink(filepath.Join(npm, "node_modules"), filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "events.mts")
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, node, tsc, "--noEmit", "--strict", "--exactOptionalPropertyTypes", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", file)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := compile(b.String()); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	// That the compiler sees the types at all.
	if out, err := compile(strings.ReplaceAll(b.String(), "// @ts-expect-error\n", "")); err == nil || strings.Count(out, "events.mts(") != 6 {
		t.Errorf("bad events: %v\n%s", err, out)
	}
}
