package session_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// serveKey selects the server that a re-executed test binary plays; see serve.
const serveKey = "MCPTRACK_TEST_SERVE"

func TestMain(m *testing.M) {
	if kind := os.Getenv(serveKey); kind != "" {
		serve(kind)
		return
	}
	goleak.VerifyTestMain(m)
}

// over connects to a server in this process over pipes.
func over(t *testing.T, srv *sessiontest.Fake, entry config.Server, opts session.Options) *session.Session {
	t.Helper()
	s, err := tryOver(t, srv, entry, opts)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return s
}

func tryOver(t *testing.T, srv *sessiontest.Fake, entry config.Server, opts session.Options) (*session.Session, error) {
	t.Helper()
	r, w, wait := srv.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), dialTimeout)
	defer cancel()
	s, err := session.OverIO(ctx, r, w, entry, opts)
	if err != nil {
		wait()
		return nil, err
	}
	t.Cleanup(func() {
		_ = s.Close()
		wait()
	})
	return s, nil
}

const dialTimeout = 15 * time.Second

// serve runs a server as a child process of a test.
func serve(kind string) {
	srv := sessiontest.New()
	srv.SetQuietly("test://a", "a")
	switch kind {
	case "fake":
		fmt.Println("a banner that is no message")
		srv.ServeStdio(os.Stdin, os.Stdout)
	case "flood":
		flood(os.Stdin, os.Stdout)
	case "dies":
		starts, err := os.OpenFile(os.Args[1], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			panic(err)
		}
		_, _ = starts.WriteString("x")
		fmt.Fprintln(os.Stderr, "cannot open the database: token "+os.Getenv("DB_TOKEN"))
		os.Exit(3)
	case "hangs":
		fmt.Fprintln(os.Stderr, "open https://login.test/device to sign in, not with "+os.Getenv("DB_TOKEN"))
		select {}
	case "hangs-later":
		fmt.Fprintln(os.Stderr, "waiting for the lock of another server")
		srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		srv.ServeStdio(os.Stdin, os.Stdout)
	case "echoes":
		fmt.Fprintln(os.Stderr, "usage:", os.Args[1:])
		os.Exit(2)
	case "env":
		srv.SetQuietly("test://env", strings.Join(os.Environ(), "\n"))
		srv.ServeStdio(os.Stdin, os.Stdout)
	case "exits-later":
		srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		go srv.ServeStdio(os.Stdin, os.Stdout)
		backoff.Poll(context.Background(), time.Millisecond, func() bool { return srv.Count("tools/call") > 0 })
		os.Exit(7)
	case "unresponsive":
		// Answers the handshake, then stops reading.
		in := bufio.NewReader(os.Stdin)
		_, _ = in.ReadString('\n')
		fmt.Println(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`)
		_, _ = in.ReadString('\n')
		fmt.Println(`{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"unresponsive","version":"1"}}}`)
		select {}
	case "strict":
		// Exits if the first message is not initialize.
		in := bufio.NewReader(os.Stdin)
		line, _ := in.ReadString('\n')
		if !strings.Contains(line, `"initialize"`) {
			os.Exit(4)
		}
		srv.Modern = false
		srv.ServeStdio(io.MultiReader(strings.NewReader(line), in), os.Stdout)
	case "longline":
		in := bufio.NewReader(os.Stdin)
		_, _ = in.ReadString('\n')
		out := bufio.NewWriter(os.Stdout)
		_, _ = out.WriteString(`{"jsonrpc":"2.0","id":1,"result":{"x":"`)
		for range 1024 {
			_, _ = out.WriteString(strings.Repeat("x", 64<<10))
		}
		_, _ = out.WriteString("\"}}\n")
		_ = out.Flush()
		_, _ = in.ReadString(0)
	}
}
