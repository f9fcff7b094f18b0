package session_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/peertest"
	"github.com/mcptrack/mcptrack/core/session"
)

// listening starts a server over HTTP and returns its entry. In the arguments, "PORT" stands for a
// port that is free at the start. If another process takes the port, listening tries the next one.
func listening(t *testing.T, path string, command []string) config.Server {
	t.Helper()
	for range 10 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(address)
		cmd := exec.Command(command[0])
		for _, arg := range command[1:] {
			cmd.Args = append(cmd.Args, strings.ReplaceAll(arg, "PORT", port))
		}
		cmd.Env = append(os.Environ(), "PORT="+port, "NODE_OPTIONS=--import="+peertest.Path(t, "loopback.mjs"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = cmd.Wait() // killed, or it could not listen
		}()
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-ended
		})
		listens, failed := false, false
		eventually(t, "the server listens, or ended", func() bool {
			select {
			case <-ended:
				failed = true
			default:
				c, err := net.Dial("tcp", address)
				if listens = err == nil; listens {
					_ = c.Close()
				}
			}
			return listens || failed
		})
		if listens {
			return httpEntry("http://" + address + path)
		}
	}
	t.Fatalf("%q never listens", command)
	return config.Server{}
}

// Published servers are connected in the era that basic/versioning specifies, and push in it.
func TestRealErasOfPublishedServers(t *testing.T) {
	const everything = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
	goServer := func(t *testing.T, args ...string) []string {
		return append([]string{peertest.EverythingServer(t)}, args...)
	}
	script := func(t *testing.T, args ...string) []string { return peertest.Script(t, args[0], args[1:]...) }
	stdio := func(command func(*testing.T, ...string) []string, args ...string) func(*testing.T) config.Server {
		return func(t *testing.T) config.Server {
			args := command(t, args...)
			return config.Server{Transport: config.TransportStdio, Program: config.Program{Command: args[0], Args: args[1:]}, ConnectTimeout: time.Minute}
		}
	}
	over := func(path string, command func(*testing.T, ...string) []string, args ...string) func(*testing.T) config.Server {
		return func(t *testing.T) config.Server { return listening(t, path, command(t, args...)) }
	}
	for name, tt := range map[string]struct {
		entry  func(*testing.T) config.Server
		want   session.Era
		pushes string // this resource, every 5 s or more often
	}{
		"TypeScript SDK v2, both eras, stdio":       {stdio(script, "ts-modern.mjs", "--stdio"), session.EraModern, "note:///a.txt"},
		"TypeScript SDK v2, both eras, HTTP":        {over("/mcp", script, "ts-modern.mjs", "--http=PORT"), session.EraModern, "note:///a.txt"},
		"TypeScript SDK v2, modern, stdio":          {stdio(script, "ts-modern.mjs", "--stdio", "--legacy=reject"), session.EraModern, "note:///a.txt"},
		"Go SDK, both eras, stdio":                  {stdio(goServer), session.EraModern, "test://watched-resource"},
		"Go SDK, both eras, HTTP without sessions":  {over("/", goServer, "-http", "127.0.0.1:PORT"), session.EraModern, "test://watched-resource"},
		"Go SDK, legacy by HTTP with sessions":      {over("/", goServer, "-http", "127.0.0.1:PORT", "-stateless=false"), session.EraLegacy, "test://watched-resource"},
		"TypeScript SDK v1, server-everything":      {stdio(script, everything, "stdio"), session.EraLegacy, ""},
		"TypeScript SDK v1, server-everything HTTP": {over("/mcp", script, everything, "streamableHttp"), session.EraLegacy, ""},
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
