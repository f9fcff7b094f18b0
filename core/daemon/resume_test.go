package daemon_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/journal"
)

// lists returns what the daemon reports of the list of tools that it sends, and how many changes of it the client hears
// of before the list changes: at least want.
func (c *rawClient) lists(modern bool, want int) (seen map[string]string, changes int) {
	c.w.t.Helper()
	say := func(line string, args ...any) {
		_, err := fmt.Fprintf(c.conn, line+"\n", args...)
		must(c.w.t, err)
	}
	seen = map[string]string{}
	until := func(over func(id any) bool) {
		for id := any(nil); !over(id); {
			line, err := c.in.ReadBytes('\n')
			must(c.w.t, err)
			var m struct {
				ID     any
				Method string
				Track  struct{ Seen map[string]string } `json:"mcptrack"`
			}
			must(c.w.t, json.Unmarshal(line, &m))
			maps.Copy(seen, m.Track.Seen)
			if m.Method == "notifications/tools/list_changed" {
				changes++
			}
			id = m.ID
		}
	}
	meta := ""
	if modern {
		meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		say(`{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{%s,"notifications":{"toolsListChanged":true}}}`, meta)
		_, err := c.in.ReadBytes('\n') // the acknowledgement
		must(c.w.t, err)
	} else {
		say(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		until(func(id any) bool { return id == "i" })
		say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{%s}}`, meta)
	until(func(id any) bool { return id == 1.0 })
	until(func(any) bool { return changes >= want })
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"grow",%s}}`, strings.Trim(meta+`,"arguments":{}`, ","))
	before := changes
	until(func(any) bool { return changes > before })
	return seen, changes - 1
}

// A client that resumes hears that a list changed if and only if it differs from the one that the client saw last: also
// if the log has neither, as after the death of a daemon.
func TestAResumedClientHearsOfLists(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20})
	t.Cleanup(func() { _ = log.Close() })
	var dir string
	var config map[string]string
	// run starts a daemon for one client after the other.
	run := func(log journal.Log, clients func(attach func(seen map[string]string, modern bool, want int) (map[string]string, int))) {
		w := startOn(t, log, nil)
		if dir == "" {
			dir = w.folder(map[string]string{"a": `"cwd":""`})
			config = w.config
		}
		w.config = config
		clients(func(seen map[string]string, modern bool, want int) (map[string]string, int) {
			c := w.rawClient(ipc.Hello{Folder: dir, Server: "a", Client: fmt.Sprint(seen, modern), Resumes: seen != nil, Seen: seen})
			defer func() { _ = c.conn.(io.Closer).Close() }()
			return c.lists(modern, want)
		})
		w.cancel()
		_ = w.end()
	}
	var old, present map[string]string
	run(log, func(attach func(map[string]string, bool, int) (map[string]string, int)) {
		old, _ = attach(nil, false, 0)
	})
	must(t, os.WriteFile(filepath.Join(dir, "more-tools"), nil, 0o600))
	other := journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20})
	t.Cleanup(func() { _ = other.Close() })
	run(other, func(attach func(map[string]string, bool, int) (map[string]string, int)) {
		present, _ = attach(nil, true, 0)
	})
	if len(old) != 1 || len(present) != 1 || maps.Equal(old, present) {
		t.Fatalf("%v, %v", old, present)
	}
	for _, modern := range []bool{false, true} {
		run(log, func(attach func(map[string]string, bool, int) (map[string]string, int)) {
			if seen, n := attach(present, modern, 0); n != 0 {
				t.Errorf("modern %t: %d changes, and it saw %v", modern, n, seen)
			}
			if seen, n := attach(old, modern, 1); n != 1 || len(seen) != 1 {
				t.Errorf("modern %t: %d changes of a list that differs, and it saw %v", modern, n, seen)
			}
		})
	}
}
