package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// hostileNames are names of tools that run "touch pwned", write a file of that name, or
// pass for a flag or for help of ours, if a shell evaluates the line that they are
// completed to. Each is the only tool of its server.
func hostileNames() []string {
	return []string{
		"x$(touch${IFS}pwned)", "x`touch${IFS}pwned`", "x$(touch pwned)", "x;touch pwned;", "x|touch${IFS}pwned", "x&touch${IFS}pwned&",
		"x>pwned", "x<(touch${IFS}pwned)", "x'$(touch pwned)'", `x"$(touch pwned)"`, `x\$(touch pwned)`, "x(e:touch${IFS}pwned:)",
		"x(touch pwned)", "x{1..3}>pwned", "!!;touch pwned", "_activeHelp_ run: pwned", "_activeHelp_pwned", "--out=pwned", "-o=pwned", "x\u00a0pwned",
	}
}

// bashCompletion has the functions that the script for bash needs (package
// bash-completion).
const bashCompletion = "/usr/share/bash-completion/bash_completion"

// TestRealCompletionIsSafe presses TAB in real shells where a server chose the names: none of
// them is offered, and none is run by pressing TAB once more.
func TestRealCompletionIsSafe(t *testing.T) {
	t.Parallel()
	for shell, start := range map[string][]string{
		"bash": {"bash", "--norc", "--noprofile", "-i"},
		"zsh":  {"zsh", "-f", "-i"},
		"fish": {"fish", "--no-config", "-i"},
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path := peertest.Program(t, start[0])
			if _, err := os.Stat(bashCompletion); shell == "bash" && err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			s := startShell(t, path, start[1:])
			for _, line := range map[string][]string{
				"bash": {"source " + bashCompletion, "bind 'set enable-bracketed-paste off'", "source <(mcptrack completion bash)"},
				"zsh":  {"autoload -U compinit; compinit -u -D", "source <(mcptrack completion zsh)", "unsetopt list_beep"},
				"fish": {"mcptrack completion fish | source"},
			}[shell] {
				s.types(line + "\n")
			}
			s.types("export MCPTRACK_CONFIG=" + filepath.Join(s.dir, "config.json") + "\n")
			s.settles("start")
			// A name that is harmless is completed: this is what makes the rest a test.
			s.types("mcptrack call good whole\t")
			s.clears("good")
			if !strings.Contains(s.out.String(), "wholesome") {
				t.Fatalf("TAB does not complete: %q", s.out.String())
			}
			for i, name := range hostileNames() {
				from := len(s.out.String())
				s.types(fmt.Sprintf("mcptrack call s%d \t\t\t\t", i))
				s.clears(fmt.Sprintf("hostile-%d", i))
				if shown := s.out.String()[from:]; strings.Contains(shown, "pwned") {
					t.Errorf("TAB offers %q: %q", name, shown)
				}
				if made, _ := filepath.Glob(filepath.Join(s.dir, "*pwned*")); len(made) > 0 {
					t.Errorf("TAB at %q made %q", name, made)
					_ = os.Remove(made[0])
				}
			}
		})
	}
}

// shellSession is a shell on a terminal, and all that it wrote so far.
type shellSession struct {
	t      *testing.T
	screen *os.File
	dir    string // its working directory
	out    written
}

// startShell starts a shell beside a config with a server "good" and one for every
// hostile name, whose lists are cached.
func startShell(t *testing.T, path string, args []string) *shellSession {
	t.Helper()
	dir, cache := t.TempDir(), t.TempDir()
	names := map[string]any{"good": knownTools("wholesome")}
	var servers []string
	for i, name := range hostileNames() {
		id := fmt.Sprintf("s%d", i)
		names[id] = knownTools(name)
		servers = append(servers, fmt.Sprintf(`%q: {"command": "/nowhere"}`, id))
	}
	servers = append(servers, `"good": `+demoEntry(t, markOf(t), ""))
	file := filepath.Join(dir, "config.json")
	save(t, file, config(strings.Join(servers, ",")))
	bin := filepath.Dir(mcptrackPath(t))
	environ := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "XDG_CACHE_HOME="+cache, "TERM=xterm", "MCPTRACK_CONFIG=")
	list := mcptrackCommand(t.Context(), "list", "tools", "good", "--config", file) // makes the file of the cache
	list.Env = append(list.Environ(), environ...)
	if out, err := list.CombinedOutput(); err != nil {
		t.Fatalf("list: %v: %s", err, out)
	}
	cached, _ := filepath.Glob(filepath.Join(cache, "mcptrack", "catalog-*.json"))
	data, err := json.Marshal(names)
	if len(cached) != 1 || err != nil {
		t.Fatalf("the cache has %q, %v", cached, err)
	}
	save(t, cached[0], string(data))

	screen, terminal := openTerminal(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = dir, environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close()
	s := &shellSession{t: t, screen: screen, dir: dir}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(&s.out, screen) }) // until the shell has ended
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		reading.Wait()
	})
	return s
}

func knownTools(names ...string) map[string]any {
	return map[string]any{"names": map[string]any{"tools": names}}
}

func (s *shellSession) types(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.screen, keys); err != nil {
		s.t.Fatalf("%v after %q", err, s.out.String())
	}
}

// settles waits until the shell has handled all keys.
func (s *shellSession) settles(mark string) {
	s.t.Helper()
	s.types("echo settled''-" + mark + "\n")
	waitFor(s.t, "the shell settles at "+mark, func() bool { return strings.Contains(s.out.String(), "settled-"+mark) })
}

// clears empties the command line, without running it.
func (s *shellSession) clears(mark string) {
	s.t.Helper()
	s.types("\x01\x0b") // Ctrl-A, Ctrl-K
	s.settles(mark)
}
