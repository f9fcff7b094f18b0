//go:build unix

package daemon_test

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/session"
)

// TestFIFO: a config whose command is a FIFO, which blocks whoever opens it, delays nobody.
func TestFIFO(t *testing.T) {
	w := start(t, nil)
	fifo := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(fifo, 0o700))
	w.client(ipc.Hello{Folder: w.folder(map[string]string{"a": fmt.Sprintf(`"command":%q`, fifo)})}, nil, session.Options{})
	s := w.client(ipc.Hello{Server: "a", Folder: w.folder(map[string]string{"a": ""})}, nil, session.Options{})
	if got := w.call(s, "echo", map[string]any{"text": "hello"}); got != "hello" {
		t.Fatal(got)
	}
}
