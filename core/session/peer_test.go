package session_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// program returns the command of a server that scripts/peers.sh installs.
func program(t *testing.T, args ...string) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real servers")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "testdata", "peers")
	first := filepath.Join(dir, "node_modules", ".bin", "node")
	if args[0] == "everything-server" {
		first = filepath.Join(root, ".cache", "bin", args[0])
		args = args[1:]
	} else {
		args[0] = filepath.Join(dir, args[0])
	}
	if _, err := os.Stat(first); err != nil {
		const missing = "the test peers are not installed; run scripts/peers.sh"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return append([]string{first}, args...)
}

// listening starts a server over HTTP and returns its entry. In the arguments, "PORT" stands for a
// port that is free at the start.
func listening(t *testing.T, path string, args ...string) config.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PORT", port)
	}
	args = program(t, args...)
	loopback, err := filepath.Abs(filepath.Join("..", "..", "testdata", "peers", "loopback.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "PORT="+port, "NODE_OPTIONS=--import="+loopback)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			continue
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-drained
		_ = cmd.Wait()
	})
	eventually(t, "the server listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return httpEntry("http://" + address + path)
}

// Published servers are connected in the era that basic/versioning specifies, and push in it.
func TestErasOfPublishedServers(t *testing.T) {
	const everything = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
	stdio := func(args ...string) func(*testing.T) config.Server {
		return func(t *testing.T) config.Server {
			args := program(t, args...)
			return config.Server{Transport: config.TransportStdio, Program: config.Program{Command: args[0], Args: args[1:]}, ConnectTimeout: time.Minute}
		}
	}
	over := func(path string, args ...string) func(*testing.T) config.Server {
		return func(t *testing.T) config.Server { return listening(t, path, args...) }
	}
	for name, tt := range map[string]struct {
		entry  func(*testing.T) config.Server
		want   session.Era
		pushes string // this resource, every 5 s or more often
	}{
		"TypeScript SDK v2, both eras, stdio":       {stdio("ts-modern.mjs", "--stdio"), session.EraModern, "note:///a.txt"},
		"TypeScript SDK v2, both eras, HTTP":        {over("/mcp", "ts-modern.mjs", "--http=PORT"), session.EraModern, "note:///a.txt"},
		"TypeScript SDK v2, modern, stdio":          {stdio("ts-modern.mjs", "--stdio", "--legacy=reject"), session.EraModern, "note:///a.txt"},
		"Go SDK, both eras, stdio":                  {stdio("everything-server"), session.EraModern, "test://watched-resource"},
		"Go SDK, both eras, HTTP without sessions":  {over("/", "everything-server", "-http", "127.0.0.1:PORT"), session.EraModern, "test://watched-resource"},
		"Go SDK, legacy by HTTP with sessions":      {over("/", "everything-server", "-http", "127.0.0.1:PORT", "-stateless=false"), session.EraLegacy, "test://watched-resource"},
		"TypeScript SDK v1, server-everything":      {stdio(everything, "stdio"), session.EraLegacy, ""},
		"TypeScript SDK v1, server-everything HTTP": {over("/mcp", everything, "streamableHttp"), session.EraLegacy, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entry := tt.entry(t)
			s := dial(t, entry, session.Options{})
			info, want := s.Info(), tt.want
			if info.Other == want && entry.Transport == config.TransportStdio {
				// On a busy machine, the process may start so slowly that Dial tried the legacy era, too.
				want = session.EraLegacy
			}
			if info.Era != want || !info.Push || info.Transport != entry.Transport {
				t.Fatalf("%+v", info)
			}
			if list, err := s.List(t.Context(), catalog.Tools); err != nil || len(list) == 0 {
				t.Errorf("%d tools, %v", len(list), err)
			}
			if tt.pushes == "" {
				return
			}
			if ack, err := s.Subscribe(t.Context(), session.Filter{Tools: true, URIs: []string{tt.pushes}}); err != nil || len(ack.MissingURIs) > 0 {
				t.Fatalf("%+v, %v", ack, err)
			}
			eventually(t, "an update", func() bool { return s.Signals().Take().URIs[tt.pushes].Count > 0 })
		})
	}
}
