//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startGateway runs a gateway over HTTP in the background and returns its endpoint.
func startGateway(t *testing.T, args ...string) string {
	t.Helper()
	cmd := mcptrackCommand(context.Background(), append([]string{"gateway", "--addr", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		url, ok := strings.CutPrefix(lines.Text(), "listening on ")
		if !ok {
			continue
		}
		go func() { _, _ = io.Copy(io.Discard, errs) }() // ends with the process
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil {
				t.Errorf("gateway: %v", err)
			}
		})
		return url
	}
	t.Fatalf("it does not listen: %v\n%s", cmd.Wait(), &said)
	return ""
}

// peerScript runs a script of testdata/peers and returns what it printed.
func peerScript(t *testing.T, script string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := nodeCommand(ctx, t, script, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(script), err, &stdout, &stderr)
	}
	return stdout.Bytes()
}

func nodeCommand(ctx context.Context, t *testing.T, script string, args ...string) *exec.Cmd {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata", "peers")
	installedPeer(t, dir, "node_modules", "@modelcontextprotocol", "client")
	node := filepath.Join(dir, "node_modules", ".bin", "node")
	if _, err := os.Stat(node); err != nil {
		node = "node" // the packaged one exists for Linux only
	}
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join(dir, script)}, args...)...)
	return cmd
}

// mcptrackPath is a path by which other programs can start mcptrack: a link of that
// name to the test binary.
func mcptrackPath(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "mcptrack")
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// twoDemos is a config of two servers that offer the same.
func twoDemos(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "mcp-servers.json")
	on := `, "trackResources": true`
	save(t, file, config(`"a": `+demoEntry(t, t.Name()+"-a", on), `"b": `+demoEntry(t, t.Name()+"-b", on)))
	return file
}
