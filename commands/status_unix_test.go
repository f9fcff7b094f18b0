//go:build unix

package commands

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
)

// TestStatusTokenFile: the token file is checked like every file with a secret.
func TestStatusTokenFile(t *testing.T) {
	b := clitest.New(t, Main)
	asked := make(chan string, 8)
	running := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked <- q.Header.Get("Authorization")
		text := "[]"
		if q.URL.Path == "/api/status" {
			text = "{}"
		}
		_, _ = io.WriteString(w, text)
	}))
	defer running.Close()
	file := filepath.Join(t.TempDir(), "token")
	status := func() int {
		t.Helper()
		began := time.Now()
		code, _ := b.Run(t, "status", running.URL, "--token-file", file, "--timeout", "30s", "-o", "json")
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("status took %s", took)
		}
		return code
	}
	if err := os.WriteFile(file, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := status(); code != cli.ExitOK || <-asked != "Bearer 0123456789abcdef0123456789abcdef" {
		t.Errorf("exit %d: %s", code, &b.Stderr)
	}
	for name, spoil := range map[string]func() error{
		"others may read it": func() error { return os.Chmod(file, 0o644) },
		"it is a FIFO":       func() error { return syscall.Mkfifo(file, 0o600) },
		"it is endless":      func() error { return os.Symlink("/dev/zero", file) },
		"it is too long":     func() error { return os.WriteFile(file, make([]byte, 1<<20), 0o600) },
	} {
		if name != "others may read it" {
			_ = os.Remove(file)
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if code := status(); code != cli.ExitUsage {
			t.Errorf("%s: exit %d: %s", name, code, &b.Stderr)
		}
	}
}
