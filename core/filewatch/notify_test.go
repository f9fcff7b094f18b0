package filewatch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Directories can be added to a source while it has an error to send.
func TestErrorDoesNotBlockAdd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	onEvents(t, dir)
	n, err := patientNotifier()
	must(t, err)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must(t, os.Mkdir(a, 0o755))
	must(t, n.add(dir))
	must(t, n.add(a))
	// The source stands at the first event, which nobody takes yet, until the watch
	// of a directory that was moved is gone; then it hears of the move.
	put(t, filepath.Join(dir, "first"), "x")
	must(t, os.Rename(a, b))
	must(t, os.Remove(b))
	put(t, filepath.Join(dir, "last"), "x")
	took := make(chan struct{}) // closed by the goroutine below
	go func() {
		defer close(took)
		for ev := range n.events {
			if strings.HasSuffix(ev.Name, "last") {
				return
			}
		}
	}()
	done := make(chan error, 1) // sent to once
	go func() {
		<-took
		done <- n.add(t.TempDir())
	}()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(patience):
		t.Fatal("nothing can be watched any more")
	}
	select {
	case err, ok := <-n.errors:
		if !ok || err == nil {
			t.Error("the error was lost")
		}
	case <-time.After(patience):
		t.Error("there was no error: the test shows nothing")
	}
	must(t, n.close())
}
