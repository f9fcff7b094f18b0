package sqlitelog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/event"
)

// A copy of events.db alone can be read where no file can be created beside it. The error for a
// foreign file is a sentence, not a text of SQLite.
func TestReadOnlyCopy(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	l, err := Open(t.Context(), Options{Dir: from})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(&event.Event{ServerID: "a", ResourceURI: "x://1", Payload: event.ResourceAdded{}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(from, "events.db"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(to, "events.db")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file+"-shm", 0o700); err != nil { // as in a folder that cannot be written to, also for root
		t.Fatal(err)
	}
	read := func() (n int, err error) {
		copied, err := Open(t.Context(), Options{Dir: to, Existing: true})
		if err != nil {
			return 0, err
		}
		defer func() { _ = copied.Close() }()
		for _, err := range copied.Read(t.Context(), 0) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	if n, err := read(); n != 1 || err != nil {
		t.Errorf("%d events: %v", n, err)
	}
	wantError := func(want string) {
		t.Helper()
		if _, err := read(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sqlite:") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file + "-shm"); err != nil {
		t.Fatal(err)
	}
	wantError("it is damaged or was not created by mcptrack")
}
