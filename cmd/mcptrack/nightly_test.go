//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// published are servers of testdata/nightly by id, with their arguments.
func published(dir string) map[string][]string {
	return map[string][]string{
		"chart":      {"mcp-server-chart"},
		"chrome":     {"chrome-devtools-mcp", "--headless"},
		"context7":   {"context7-mcp"},
		"eslint":     {"../@eslint/mcp/src/mcp-cli.js"},
		"everything": {"mcp-server-everything", "stdio"},
		"files":      {"mcp-server-filesystem", dir},
		"figma":      {"figma-developer-mcp", "--stdio", "--figma-api-key=none"},
		"memory":     {"mcp-server-memory"},
		"mermaid":    {"mcp-mermaid"},
		"playwright": {"playwright-mcp", "--headless", "--isolated"},
		"tavily":     {"tavily-mcp"},
		"thinking":   {"mcp-server-sequential-thinking"},
	}
}

// Published servers are listed, watched and stopped, and nothing is left: no process, no descriptor in a running
// watch and no temporary file. scripts/peers.sh nightly installs them.
func TestRealPublishedServers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes, nightly")
	}
	npm, node := peertest.Path(t, "..", "nightly", "node_modules"), peertest.Node(t)
	home, temp, file := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "mcp-servers.json")
	servers := map[string]any{}
	for id, args := range published(home) {
		args[0] = filepath.Join(npm, ".bin", args[0])
		servers[id] = map[string]any{"command": node, "args": args, "trackResources": true, "trackTools": true, "connectTimeout": "60s",
			"env": map[string]string{"TMPDIR": temp, "HOME": home, "TAVILY_API_KEY": "none", "MEMORY_FILE_PATH": filepath.Join(home, "memory.json"), "CHROME_PATH": "/usr/bin/chromium"}}
	}
	write := func(servers map[string]any) {
		text, err := json.Marshal(map[string]any{"mcpServers": servers})
		if err != nil {
			t.Fatal(err)
		}
		save(t, file, string(text))
	}
	write(servers)
	env := append(os.Environ(), "TMPDIR="+temp)

	t.Run("list", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		cmd := mcptrackCommand(ctx, "--config", file, "list", "--json", "--connect-timeout", "60s")
		cmd.Env = append(cmd.Environ(), "TMPDIR="+temp)
		out, err := cmd.Output()
		var rows []struct{ ID, State, Error string }
		if json.Unmarshal(out, &rows) != nil || len(rows) != len(servers) {
			t.Fatalf("%s, %v", out, err)
		}
		for _, row := range rows {
			if row.State != "Ready" {
				t.Errorf("%s: %s %s", row.ID, row.State, row.Error)
			}
		}
		nothingLeft(t, home, temp)
	})

	t.Run("watch", func(t *testing.T) {
		write(nil)
		cmd := mcptrackCommand(context.Background(), "watch", "--json", file)
		cmd.Env = env
		cmd.Env = append(cmd.Env, mcptrackCommand(context.Background()).Env...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() }) // if it has not ended
		states := make(chan [2]string, 1000)         // sent to and closed by the goroutine below
		go func() {
			defer close(states)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var e struct{ Type, ServerID, State string }
				if json.Unmarshal(lines.Bytes(), &e) == nil && e.Type == "server.state" {
					states <- [2]string{e.ServerID, e.State}
				}
			}
		}()
		wait := func(what string, ok func() bool) {
			t.Helper()
			for deadline := time.Now().Add(3 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("not within 3 min: %s", what)
				}
			}
		}
		wait("it starts", func() bool { return descriptors(cmd.Process.Pid) > 5 })
		time.Sleep(2 * time.Second) // no event reports that watch has read an empty config
		before := descriptors(cmd.Process.Pid)
		for range 2 {
			write(servers)
			up := map[string]bool{}
			wait("all servers are followed", func() bool {
				for {
					select {
					case s := <-states:
						up[s[0]] = s[1] == "Ready" || s[1] == "Unsupported"
					default:
						n := 0
						for _, ready := range up {
							if ready {
								n++
							}
						}
						return n == len(servers)
					}
				}
			})
			write(nil)
			wait("all processes end", func() bool { return len(processes(home)) == 0 })
			wait("all descriptors are closed", func() bool { return descriptors(cmd.Process.Pid) <= before })
		}
		write(servers)
		wait("they run again", func() bool { return len(processes(home)) >= len(servers) })
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for range states { // until it ends
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		nothingLeft(t, home, temp)
	})
}

// processes returns those that have the folder in their environment or arguments, by id.
func processes(dir string) []string {
	var found []string
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		for _, name := range []string{"environ", "cmdline"} {
			if data, err := os.ReadFile(filepath.Join(proc, name)); err == nil && strings.Contains(string(data), dir) {
				found = append(found, filepath.Base(proc)+" "+strings.ReplaceAll(string(data[:min(len(data), 100)]), "\x00", " "))
				break
			}
		}
	}
	return found
}

func descriptors(pid int) int {
	open, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "fd"))
	return len(open)
}

// nothingLeft fails the test if processes or files outlive the command that made them. A
// process may take a moment to end after its parent.
func nothingLeft(t *testing.T, home, temp string) {
	t.Helper()
	var left []string
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if left = processes(home); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	if len(left) > 0 {
		t.Errorf("processes are left: %q", left)
	}
	files, err := os.ReadDir(temp)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		t.Errorf("a file is left: %s", f.Name())
	}
}
