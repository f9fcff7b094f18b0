//go:build unix

package machine

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// start runs a shell script in a folder of its own, in which mcp-sleeper is the program sleep, and
// waits until the script prints "started". Its stdin is a pipe.
func start(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(sleep, filepath.Join(dir, "mcp-sleeper")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("started"))); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// sleeper is a command whose duration tells the processes of a test from all others on the machine.
func sleeper(test int) string { return fmt.Sprintf("mcp-sleeper %d", test*1e8+os.Getpid()) }

// servers returns the running servers with this command, once the condition holds.
func servers(t *testing.T, command string, holds func([]Server) bool) []Server {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // a real process changes in real time
		groups, err := Servers(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var found []Server
		for _, g := range groups {
			if g.Command == command {
				found = g.Servers
			}
		}
		if holds(found) {
			return found
		}
		if time.Now().After(end) {
			t.Fatalf("servers %+v", found)
		}
	}
}

func TestAnOrphanIsFoundAndEnds(t *testing.T) {
	t.Parallel()
	shell := start(t, "exec 3<&0; ./"+sleeper(1)+" <&3 & echo started; wait")
	found := servers(t, sleeper(1), func(s []Server) bool { return len(s) == 1 })
	if s := found[0]; s.Orphan || s.Starter == 0 || s.StartedBy == "" || s.Memory <= 0 || time.Since(s.Since) > time.Minute {
		t.Errorf("%+v", s)
	}
	if err := shell.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = shell.Wait()
	orphan := servers(t, sleeper(1), func(s []Server) bool { return len(s) == 1 && s[0].Orphan })[0]
	if err := orphan.End(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	servers(t, sleeper(1), func(s []Server) bool { return len(s) == 0 })
	if err := orphan.End(t.Context(), time.Minute); err != nil {
		t.Errorf("a server that has ended: %v", err)
	}
}

func TestAServerThatIgnoresTheRequestIsKilled(t *testing.T) {
	t.Parallel()
	start(t, `trap "" TERM; exec 3<&0; ./`+sleeper(2)+` <&3 & echo started; wait`)
	s := servers(t, sleeper(2), func(s []Server) bool { return len(s) == 1 })[0]
	if err := s.End(t.Context(), 200*time.Millisecond); err != nil && !strings.Contains(err.Error(), "continues to run") {
		t.Error(err)
	}
	servers(t, sleeper(2), func(s []Server) bool { return len(s) == 0 })
}

func TestAnotherProcessWithTheSamePIDIsNotSignalled(t *testing.T) {
	t.Parallel()
	start(t, `exec 3<&0; ./`+sleeper(3)+` <&3 & echo started; wait`)
	s := servers(t, sleeper(3), func(s []Server) bool { return len(s) == 1 })[0]
	other := s
	other.tree = []process{{pid: s.PID, started: s.Since.Add(-time.Hour)}}
	if err := other.End(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
	servers(t, sleeper(3), func(now []Server) bool { return len(now) == 1 && now[0].PID == s.PID })
	if err := s.End(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
}
