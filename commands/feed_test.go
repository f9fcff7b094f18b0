package commands

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/demo"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// TestDemoFeedKeepsItsEvents: a demo that starts does not remove the events of one
// that runs, however long that one has been idle. They are removed when it ends.
func TestDemoFeedKeepsItsEvents(t *testing.T) {
	temp := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP"} { // on Unix, on Windows
		t.Setenv(name, temp)
	}
	f, err := openFeed(t.Context(), &Env{}, slog.New(slog.DiscardHandler), serveOptions{demo: true}, tracker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(made) != 1 {
		t.Fatalf("made: %q, %v", made, err)
	}
	quiet := time.Now().Add(-time.Hour)
	if err := os.Chtimes(made[0], quiet, quiet); err != nil {
		t.Fatal(err)
	}
	other, err := demo.NewTempDir("")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(made[0]); err != nil {
		t.Errorf("the events are gone: %v", err)
	}
	f.close()
	if _, err := os.Stat(made[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left behind: %v", err)
	}
}
