package journal

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// TestRunningLogIsRead: the log of a directory that another process has, also one with a
// long path, is read through that process, and nothing is left behind.
func TestRunningLogIsRead(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for what, dir := range map[string]string{"short": shortDir(t), "long": filepath.Join(t.TempDir(), strings.Repeat("long/", 30))} {
		t.Run(what, func(t *testing.T) {
			j := open(t, Options{Dir: dir})
			s := newSource()
			appendN(t, j, s, 700)
			reader := open(t, Options{Dir: dir, Existing: true})
			inOrder(t, read(t, reader, 0), j.Epoch(), 1, 700)
			appendN(t, j, s, 3)
			inOrder(t, read(t, reader, 699), j.Epoch(), 699, 5)
			if seq, err := reader.Since(t.Context(), time.Now().Add(-time.Hour)); seq != 1 || err != nil {
				t.Errorf("since an hour: %d, %v", seq, err)
			}
			closeJournal(t, reader)
			if err := j.Err(); err != nil {
				t.Error(err)
			}
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("others can reach the socket: %v, %v", info.Mode(), err)
			}
			closeJournal(t, j)
			if _, err := os.Lstat(filepath.Join(dir, socketName)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the socket is left: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			inOrder(t, read(t, open(t, Options{Dir: dir, Existing: true}), 0), j.Epoch(), 1, 703)
		})
	}
}

// shortDir is a directory with a short path.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "j")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "events")
}

// TestUnsupportedNATSFailsSoon: within 2 s, with the version that is needed.
func TestUnsupportedNATSFailsSoon(t *testing.T) {
	t.Parallel()
	for what, url := range map[string]string{ // each is asked again if the machine is too slow for its answer
		"version 2.9.25":           oldServer(t, "2.9.25"),
		"version 2.12.0":           oldServer(t, "2.12.0"),
		"version 2.10.29":          oldServer(t, "2.10.29"),
		"JetStream is not enabled": journaltest.Start(t, "").URL,
	} {
		began := time.Now()
		j, err := Open(t.Context(), Options{URL: url})
		for range 5 {
			if !errors.Is(err, context.DeadlineExceeded) {
				break
			}
			began = time.Now()
			j, err = Open(t.Context(), Options{URL: url})
		}
		if err == nil {
			_ = j.Close()
			t.Errorf("%s: opened", what)
			continue
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: it took %v", what, took)
		}
		if !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "NATS 2.12.1 or newer with JetStream") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// oldServer is as much of a NATS server as connecting to it needs.
func oldServer(t *testing.T, version string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(`INFO {"server_id":"x","version":"` + version + `","max_payload":1048576,"headers":true,"jetstream":true}` + "\r\nPONG\r\n"))
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return "nats://" + l.Addr().String()
}
