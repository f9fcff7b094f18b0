package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/session"
)

// While an entry is edited, calls wait for the new process. One that the old process has received may be
// lost with it, and says so.
func TestCallsDuringAnEdit(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	entry := func(n int) map[string]string {
		return map[string]string{"a": fmt.Sprintf(`"env":{"%s":"1","EDIT":"%d"}`, serverKey, n), "b": ""}
	}
	dir := w.folder(entry(0))
	s := w.client(ipc.Hello{Folder: dir}, nil, session.Options{})
	for n := range 6 {
		w.setConfig(dir, entry(n))
		if err := os.WriteFile(filepath.Join(dir, "mcp.json"), []byte(w.config[dir]), 0o600); err != nil {
			t.Fatal(err)
		}
		w.until("the new process answers", func() bool {
			text, err := w.tryCall(s, "a_env", map[string]any{"Text": "EDIT"})
			if err != nil && !strings.Contains(err.Error(), "may have been processed") {
				t.Fatal(err)
			}
			return text == fmt.Sprint(n)
		})
	}
}
