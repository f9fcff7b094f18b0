package daemon_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
)

// dialAs connects a client that calls itself by a name, and returns the answer to tools/list.
func (w *world) toolsAs(name, dir string) (tools string, conn net.Conn) {
	w.t.Helper()
	conn, err := w.connect(ipc.Hello{Folder: dir}, nil)
	must(w.t, err)
	w.t.Cleanup(func() { _ = conn.Close() })
	const first = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":%q,"version":"1"}}}`
	_, err = fmt.Fprintf(conn, first+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n", name)
	must(w.t, err)
	return w.line(conn, `"id":2,`), conn
}

// line returns the next line that contains a text, or "" if the connection ends.
func (w *world) line(conn net.Conn, text string) string {
	var line strings.Builder
	for b := make([]byte, 1); ; {
		if _, err := conn.Read(b); err != nil {
			return ""
		}
		if b[0] != '\n' {
			line.Write(b)
			continue
		}
		if strings.Contains(line.String(), text) {
			return line.String()
		}
		line.Reset()
	}
}

// TestClients: a session sees what the config lets its client see, by the name of the client or by the folder. A
// change of that ends the sessions, so that they connect again, but no server.
func TestClients(t *testing.T) {
	w := start(t, nil)
	dir, work := w.folder(map[string]string{"a": "", "b": ""}), w.folder(map[string]string{"a": "", "b": ""})
	with := func(dir, clients string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		text, _, _ := strings.Cut(w.config[dir], `,"clients"`)
		w.config[dir] = strings.TrimSuffix(text, "}") + "}"
		w.config[dir] = w.config[dir][:len(w.config[dir])-1] + `,"clients":` + clients + `}`
	}
	const rules = `{"cursor-vscode":{"deny":["*_exit"]},"claude-code":{"servers":["a"]},"here":{"folder":"%s/**","servers":["b"]}}`
	with(dir, fmt.Sprintf(rules, work))
	with(work, fmt.Sprintf(rules, filepath.ToSlash(filepath.Dir(work))))
	see := func(name, dir string, wants, hides []string) net.Conn {
		t.Helper()
		tools, conn := w.toolsAs(name, dir)
		for _, want := range wants {
			if !strings.Contains(tools, `"name":"`+want+`"`) {
				t.Errorf("%s does not see %s: %s", name, want, tools)
			}
		}
		for _, hidden := range hides {
			if strings.Contains(tools, `"name":"`+hidden+`"`) {
				t.Errorf("%s sees %s", name, hidden)
			}
		}
		return conn
	}
	see("other", dir, []string{"a_exit", "b_pid"}, nil)
	see("Cursor VSCode", dir, []string{"a_pid", "b_pid"}, []string{"a_exit", "b_exit"})
	see("other", work, []string{"pid"}, []string{"a_pid", "b_pid"})
	link := filepath.Join(t.TempDir(), "link")
	if real, err := filepath.EvalSymlinks(work); err == nil && os.Symlink(work, link) == nil { // where links can be made
		w.config[link] = w.config[work]
		with(link, fmt.Sprintf(rules, filepath.ToSlash(real)))
		see("other", link, []string{"pid"}, []string{"a_pid", "b_pid"})
	}
	conn := see("Claude Code", dir, []string{"exit"}, []string{"b_pid", "a_pid"})
	pid := func(conn net.Conn) string {
		t.Helper()
		_, err := fmt.Fprintln(conn, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"pid"}}`)
		must(t, err)
		return w.line(conn, `"id":3,`)
	}
	before := pid(conn)
	with(dir, `{"claude-code":{"servers":["a"],"deny":["exit"]}}`)
	must(t, os.WriteFile(filepath.Join(dir, "mcp.json"), []byte(w.config[dir]), 0o600))
	if line := w.line(conn, "nothing has this"); line != "" {
		t.Error(line)
	}
	conn = see("Claude Code", dir, []string{"pid"}, []string{"exit"})
	if after := pid(conn); after != before || !strings.Contains(after, "text") {
		t.Errorf("another process: %s, before %s", after, before)
	}
	see("Cursor VSCode", dir, []string{"a_exit"}, nil)
}
