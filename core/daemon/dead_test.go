package daemon_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/session"
)

// rawClient is a client that sees errors as they are sent.
type rawClient struct {
	w    *world
	conn io.ReadWriter
	in   *bufio.Reader
	id   int
}

func (w *world) rawClient(hello ipc.Hello) *rawClient {
	w.t.Helper()
	conn, err := w.connect(hello, nil)
	must(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	return &rawClient{w: w, conn: conn, in: bufio.NewReader(conn)}
}

// ask returns the result of a request, or the text of the error.
func (c *rawClient) ask(method, params string) (result, failed string) {
	c.w.t.Helper()
	c.id++
	_, err := fmt.Fprintf(c.conn, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params)
	must(c.w.t, err)
	for {
		line, err := c.in.ReadBytes('\n')
		must(c.w.t, err)
		var m struct {
			ID     int
			Result json.RawMessage
			Error  struct{ Message string }
		}
		must(c.w.t, json.Unmarshal(line, &m))
		if m.ID == c.id {
			return string(m.Result), m.Error.Message
		}
	}
}

func (c *rawClient) initialize() (result, failed string) {
	c.w.t.Helper()
	return c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
}

// A client of one server that cannot start gets the reason; when the server can start, it is served.
func TestADeadServerLooksDead(t *testing.T) {
	w := start(t, func(o *daemon.Options) { o.Gateway.Grace = 100 * time.Millisecond })
	flag := filepath.Join(t.TempDir(), "flag")
	fails := fmt.Sprintf(`"command":"sh","args":["-c","[ -e '%s' ] || { echo out of order >&2; exit 125; }; exec '%s'"]`, flag, os.Args[0])
	dir := w.folder(map[string]string{"exits": fails, "unset": `"env":{"X":"${DEAD_TEST_UNSET}"}`,
		"nowhere": `"command":"no-such-program-of-a-test"`, "works": "", "later": fails})
	for server, why := range map[string]string{"exits": "exited with status 125: out of order", "unset": "DEAD_TEST_UNSET", "nowhere": "no-such-program-of-a-test"} {
		c := w.rawClient(ipc.Hello{Folder: dir, Server: server})
		if result, failed := c.initialize(); !strings.Contains(failed, "server "+server+": ") || !strings.Contains(failed, why) {
			t.Errorf("%s: initialize: %s%s", server, result, failed)
		}
		const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		for method, params := range map[string]string{"server/discover": "", "tools/list": "", "tools/call": `"name":"pid",`, "resources/read": `"uri":"file:///a",`} {
			if result, failed := c.ask(method, "{"+params+meta+"}"); !strings.Contains(failed, why) {
				t.Errorf("%s: %s: %s%s", server, method, result, failed)
			}
		}
	}
	all := w.client(ipc.Hello{Folder: dir}, nil, session.Options{})
	if got := w.call(all, "works_pid", nil); got == "" {
		t.Error("a server that works is not served beside the others")
	}
	if _, err := w.tryCall(all, "exits_pid", nil); err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("a call to a dead server among others: %v", err)
	}
	// A client that had a session with an earlier daemon still has one.
	if result, failed := w.rawClient(ipc.Hello{Folder: dir, Server: "exits", Resumes: true}).initialize(); failed != "" {
		t.Errorf("resumed: %s%s", result, failed)
	}

	c := w.rawClient(ipc.Hello{Folder: dir, Server: "later"})
	_, failed := c.initialize()
	must(t, os.WriteFile(flag, nil, 0o600))
	w.until("the server is tried again", func() bool {
		_, failed = c.initialize()
		return failed == ""
	})
	must(t, os.Remove(flag))
	if result, failed := c.ask("tools/call", `{"name":"exit","arguments":{}}`); failed == "" {
		t.Errorf("the server did not end: %s", result)
	}
	if result, failed := w.rawClient(ipc.Hello{Folder: dir, Server: "later"}).initialize(); failed != "" {
		t.Errorf("a server that was reached before: %s%s", result, failed)
	}
	if result, _ := c.ask("tools/list", "{}"); !strings.Contains(result, `"pid"`) {
		t.Errorf("the lists of a server that was reached before: %s", result)
	}
	w.until("a call has the reason", func() bool {
		_, failed := c.ask("tools/call", `{"name":"pid","arguments":{}}`)
		return strings.Contains(failed, "out of order")
	})
}
