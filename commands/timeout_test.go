package commands

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
)

// dripping returns the address of a server that answers each request with head and then, forever, with
// drop after drop.
func dripping(t *testing.T, head, drop string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	ended := make(chan struct{}) // closed by the cleanup
	serving.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				_, err := http.ReadRequest(bufio.NewReader(c))
				if err == nil {
					_, err = io.WriteString(c, head)
				}
				for err == nil {
					select {
					case <-tick.C:
						_, err = io.WriteString(c, drop)
					case <-ended:
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		close(ended)
		_ = ln.Close()
		serving.Wait()
	})
	return "http://" + ln.Addr().String()
}

// --timeout ends a request whose answer never ends.
func TestDrippingServers(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct{ head, drop, message string }{
		"a status line that does not end": {"H", "T", "cannot be reached"},
		"headers that do not end":         {ok, "X-More: x\r\n", "cannot be reached"},
		"interim answers":                 {"", "HTTP/1.1 103 Early Hints\r\n\r\n", "cannot be reached"},
		"a body that does not end":        {ok + "\r\n[", " ", "is incomplete"},
		"a chunk that does not end":       {ok + "Transfer-Encoding: chunked\r\n\r\nFFFFFF\r\n[", " ", "is incomplete"},
		"a body that does not begin":      {ok + "Content-Length: 10\r\n\r\n", "", "is incomplete"},
	} {
		for _, command := range [][]string{{"history", "s", "u", "--url"}, {"diff", "s", "u", "--url"}, {"status"}} {
			t.Run(command[0]+" of "+name, func(t *testing.T) {
				t.Parallel()
				var out, errs clitest.Buffer
				env := &cli.Env{Out: &out, Err: &errs, LookupEnv: func(string) (string, bool) { return "", false }}
				code := Main(t.Context(), env, append(slices.Clip(command), dripping(t, c.head, c.drop), "--timeout", "2s"))
				if text := errs.String(); code != cli.ExitUnreachable || !strings.Contains(text, c.message) || !strings.Contains(text, "--timeout") {
					t.Errorf("exit %d: %s", code, text)
				}
			})
		}
	}
}

// history and diff have a default timeout with --url.
func TestAskTime(t *testing.T) {
	for url, want := range map[string]bool{"http://127.0.0.1:1": true, "": false} {
		o := versionFlags{RemoteFlags: cli.RemoteFlags{URL: url}}
		ctx, cancel := o.bound(t.Context())
		defer cancel()
		if _, bounded := ctx.Deadline(); bounded != want {
			t.Errorf("--url %q: a limit %t", url, bounded)
		}
	}
	b := clitest.New(t, Main)
	if code, _ := b.Run(t, "history", "s", "u", "--timeout", "-1s"); code != cli.ExitUsage {
		t.Errorf("exit %d: %s", code, b.Stderr.String())
	}
}
