package filewatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen; only a failure lasts
// that long.
const patience = 20 * time.Second

// onlyEvents disables polling, which would hide missing events.
func onlyEvents() FileOptions {
	return FileOptions{Poll: time.Hour, PollOnly: time.Hour}
}

var errTestOver = errors.New("test over")

// start runs a File until the test ends and checks how it returns.
func start(t testing.TB, path string, opts FileOptions) *File {
	t.Helper()
	f := NewFile(path, opts)
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel(errTestOver)
		if err := <-done; !errors.Is(err, errTestOver) {
			t.Errorf("Run returned %v, want the cause of its context", err)
		}
		for range f.Changes() { // ends only if Run closed it
		}
	})
	return f
}

func receive(t testing.TB, f *File) Change {
	t.Helper()
	select {
	case c := <-f.Changes():
		if c.SeenAt.IsZero() {
			t.Errorf("a change without SeenAt: %+v", c)
		}
		return c
	case <-time.After(patience):
		t.Fatalf("no change within %v (mode %v)", patience, f.Mode())
		panic("unreachable")
	}
}

func wantContent(t testing.TB, f *File, content string) Change {
	t.Helper()
	c := receive(t, f)
	if c.Missing || c.Err != nil || string(c.Data) != content {
		t.Fatalf("got %q (missing %v, err %v), want %q", c.Data, c.Missing, c.Err, content)
	}
	if c.Digest != sha256.Sum256(c.Data) {
		t.Fatal("Digest is not the SHA-256 of Data")
	}
	return c
}

func wantMissing(t testing.TB, f *File) {
	t.Helper()
	if c := receive(t, f); !c.Missing || c.Data != nil || c.Err != nil {
		t.Fatalf("got %q (missing %v, err %v), want missing", c.Data, c.Missing, c.Err)
	}
}

// wantSilence fails if anything is delivered within d.
func wantSilence(t testing.TB, f *File, d time.Duration) {
	t.Helper()
	select {
	case c := <-f.Changes():
		t.Fatalf("got %q (missing %v, err %v), want nothing", c.Data, c.Missing, c.Err)
	case <-time.After(d):
	}
}

func put(t testing.TB, path, content string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
