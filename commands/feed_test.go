package commands

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/demo"
)

// TestDemoFeedKeepsItsEvents: a demo that begins leaves the events of another alone,
// however long that has been quiet, and they go when it ends.
func TestDemoFeedKeepsItsEvents(t *testing.T) {
	temp := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP"} { // on Unix, on Windows
		t.Setenv(name, temp)
	}
	f := &feed{log: slog.New(slog.DiscardHandler)}
	if err := f.open(t.Context(), &Env{}, &serveOptions{demo: true}); err != nil {
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
	other, err := demo.OpenHome("")
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
