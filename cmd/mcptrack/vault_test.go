//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func vaultBeside(t *testing.T, args ...string) *serving {
	t.Helper()
	cmd := mcptrackCommand(context.Background(), append([]string{"vault", "--addr", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	return serveCommand(t, cmd)
}

func note(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// notesConfig follows a vault at a URL, in one era.
func notesConfig(t *testing.T, url, protocol, extra string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	save(t, file, config(fmt.Sprintf(`"notes": {"url": %q, "protocol": %q, "trackResources": true %s}`, url, protocol, extra)))
	return file
}

// watch follows a vault over HTTP in both eras and reports edits, new notes and moved folders. The vault exits
// soon after SIGTERM, even with clients connected.
func TestVaultIsWatched(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	note(t, filepath.Join(dir, "a", "n.md"), "# N\none")
	s := vaultBeside(t, dir)
	if !strings.HasSuffix(s.url, "/mcp") {
		t.Fatalf("listening on %s", s.url)
	}
	var watches []*running
	for _, era := range []string{"legacy", "modern"} {
		w := runBeside(t, "watch", "--json", notesConfig(t, s.url, era, ""))
		w.await(0, "a subscription", ofType("subscription.active"))
		watches = append(watches, w)
	}
	updated := func(uri string) func(eventLine) bool {
		// Whatever "changed" says: the first read may come after our save already.
		return func(e eventLine) bool { return e.Type == "resource.updated" && e.ResourceURI == uri }
	}
	note(t, filepath.Join(dir, "a", "n.md"), "# N\ntwo")
	for _, w := range watches {
		w.await(0, "an update of the note", updated("vault://note/a/n.md"))
	}
	note(t, filepath.Join(dir, "b", "c", "new.md"), "new")
	for _, w := range watches {
		w.await(0, "the new note", func(e eventLine) bool {
			return e.Type == "resource.added" && e.ResourceURI == "vault://note/b/c/new.md"
		})
	}
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	for _, w := range watches {
		w.await(0, "the old place", func(e eventLine) bool { return e.Type == "resource.removed" && e.ResourceURI == "vault://note/a/n.md" })
		w.await(0, "the new place", func(e eventLine) bool {
			return e.Type == "resource.added" && e.ResourceURI == "vault://note/moved/n.md"
		})
	}
	began := time.Now()
	s.stop(syscall.SIGTERM)
	if took := time.Since(began); took > 30*time.Second || s.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("ended after %v: %v", took, s.cmd.ProcessState)
	}
	for _, w := range watches {
		w.await(0, "the loss of the server", inState("notes", "Backoff"))
	}
}

// The vault prints one line with its address at any log level.
func TestVaultAddress(t *testing.T) {
	t.Parallel()
	cmd := mcptrackCommand(t.Context(), "vault", t.TempDir(), "--addr", "127.0.0.1:0", "--log-level", "error")
	var stderr bytes.Buffer
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 256)
	n, _ := out.Read(first)
	stderr.Write(first[:n])
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_, _ = io.Copy(&stderr, out)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if text := stderr.String(); strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "listening on http://127.0.0.1:") || !strings.HasSuffix(text, "/mcp\n") {
		t.Errorf("stderr:\n%s", text)
	}
}

// Without inotify the vault polls for changes.
func TestVaultWithoutInotify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	note(t, filepath.Join(dir, "n.md"), "one")
	const limit = "echo 0 > /proc/sys/user/max_inotify_instances"
	if out, err := exec.Command("unshare", "-Ur", "sh", "-ec", limit).CombinedOutput(); err != nil {
		t.Skipf("cannot make such a namespace here: %v: %s", err, out)
	}
	file := filepath.Join(t.TempDir(), "mcp-servers.json")
	args, err := json.Marshal([]string{"-Ur", "sh", "-ec", limit + `; exec "$0" "$@"`, mcptrackPath(t), "vault", "--stdio", dir})
	if err != nil {
		t.Fatal(err)
	}
	save(t, file, config(fmt.Sprintf(`"notes": {"command": "unshare", "args": %s, "trackResources": true}`, args)))
	w := runBeside(t, "watch", "--json", "--no-follow-config", file)
	w.await(0, "a subscription", ofType("subscription.active"))
	began := time.Now()
	note(t, filepath.Join(dir, "n.md"), "two")
	e, _ := w.await(0, "the update", func(e eventLine) bool { return e.Type == "resource.updated" && e.ResourceURI == "vault://note/n.md" })
	if took := e.at.Sub(began); took > 30*time.Second {
		t.Errorf("found after %v", took)
	}
}

// A demo that ends removes its folder.
func TestDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	start := func() (*exec.Cmd, io.WriteCloser) {
		t.Helper()
		cmd := mcptrackCommand(t.Context(), "demo-server")
		cmd.Env = append(os.Environ(), "TMPDIR="+temp)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
		if _, err := out.Read(make([]byte, 1)); err != nil { // it is up
			t.Fatal(err)
		}
		return cmd, in
	}
	folders := func() int {
		t.Helper()
		found, err := filepath.Glob(filepath.Join(temp, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	for _, end := range []func(*exec.Cmd, io.Closer){
		func(_ *exec.Cmd, in io.Closer) { _ = in.Close() },
		func(cmd *exec.Cmd, _ io.Closer) { _ = cmd.Process.Signal(syscall.SIGTERM) },
	} {
		next, in := start()
		if n := folders(); n != 1 {
			t.Errorf("%d folders while one demo runs", n)
		}
		end(next, in)
		if err := next.Wait(); err != nil {
			t.Error(err)
		}
		if n := folders(); n != 0 {
			t.Errorf("%d folders are left", n)
		}
	}
}
