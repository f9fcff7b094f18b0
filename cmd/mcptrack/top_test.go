//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tmuxPane is a terminal of tmux, in a server of its own.
type tmuxPane struct {
	*testing.T
	socket string
}

func (p tmuxPane) run(args ...string) string {
	p.Helper()
	out, err := exec.CommandContext(p.Context(), "tmux", append([]string{"-S", p.socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		p.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// until waits for a text on the screen.
func (p tmuxPane) until(part string) string {
	p.Helper()
	screen := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if screen = p.run("capture-pane", "-p"); strings.Contains(screen, part) {
			return screen
		}
	}
	p.Fatalf("no %q on\n%s", part, screen)
	return ""
}

func (p tmuxPane) press(keys ...string) { p.run(append([]string{"send-keys"}, keys...)...) }

// TestTop: people look around in a real terminal, and get it back as it was.
func TestTop(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("tmux is not installed; scripts/check.sh installs it")
		}
		t.Skip("tmux is not installed; scripts/check.sh installs it")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-servers.json")
	save(t, file, config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)+`, "away": {"url": "http://127.0.0.1:1/mcp", "trackResources": true}`))
	for _, size := range [][2]int{{80, 24}, {200, 50}} {
		t.Run(fmt.Sprint(size[0]), func(t *testing.T) {
			p := tmuxPane{t, filepath.Join(dir, fmt.Sprint("tmux", size[0]))}
			p.run("new-session", "-d", "-x", fmt.Sprint(size[0]), "-y", fmt.Sprint(size[1]), "bash", "--norc")
			defer p.run("kill-server")
			p.press(fmt.Sprintf("PS1=; clear; echo before; bash -c 'exec -a mcptrack %s top --config %s'; echo left $?", self, file), "Enter")
			p.until("2 servers, 1 failing")
			p.until("updated  vault://note/clock.md")
			p.press("/", "d", "e", "m", "o", "Enter")
			p.until("▸Ready")
			p.press("Enter")
			p.until("[1 Resources ")
			p.press("2")
			p.until("count_words")
			p.press("1", "/", "c", "l", "o", "c", "k", "Enter", "Enter")
			p.until("# Clock")
			p.press("d")
			p.until("+- tick:")
			p.press("3")
			p.until("[3 History]")
			p.press("?")
			p.until("Any key closes this help")
			p.press("x", "q", "q", "q")
			if screen := p.until("left 0"); !strings.HasPrefix(screen, "before") || strings.Contains(screen, "Clock") {
				t.Errorf("the terminal is not as it was:\n%s", screen)
			}
		})
	}
}
