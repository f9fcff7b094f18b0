package nowait_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/nowait"
)

// pipe returns the ends of a pipe, in blocking mode or not.
func pipe(t *testing.T, blocking bool) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	if blocking {
		_, _ = r.Fd(), w.Fd() // has this effect
	}
	return r, w
}

// All that is written arrives, however much more it is than the stream takes.
func TestStreams(t *testing.T) {
	t.Parallel()
	dial := func(t *testing.T) (r io.ReadCloser, w io.WriteCloser) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		here, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		there, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return nowait.Conn(here), nowait.Conn(there)
	}
	for name, open := range map[string]func(*testing.T) (io.ReadCloser, io.WriteCloser){
		"socket":        dial,
		"pipe":          func(t *testing.T) (io.ReadCloser, io.WriteCloser) { return pipe(t, false) },
		"blocking pipe": func(t *testing.T) (io.ReadCloser, io.WriteCloser) { return pipe(t, true) },
		"no file":       func(*testing.T) (io.ReadCloser, io.WriteCloser) { return io.Pipe() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w := open(t)
			defer r.Close()
			sent := bytes.Repeat([]byte("0123456789abcdef!"), 1<<16)
			var writing sync.WaitGroup
			writing.Go(func() {
				defer w.Close()
				out := nowait.NewWriter(w)
				for part := range bytes.SplitAfterSeq(sent, []byte("!")) {
					if n, err := out.Write(part); n != len(part) || err != nil {
						t.Errorf("%d of %d bytes, %v", n, len(part), err)
						return
					}
				}
				if n, err := out.Write(sent); n != len(sent) || err != nil {
					t.Errorf("%d of %d bytes, %v", n, len(sent), err)
				}
			})
			got, err := io.ReadAll(nowait.NewReader(r))
			writing.Wait()
			if err != nil || !bytes.Equal(got, append(sent, sent...)) {
				t.Errorf("%d of %d bytes arrived, %v", len(got), 2*len(sent), err)
			}
		})
	}
}

func TestTryDoesNotWait(t *testing.T) {
	t.Parallel()
	for _, blocking := range []bool{false, true} {
		r, w := pipe(t, blocking)
		out, taken := nowait.NewWriter(w), 0
		for n := 1; n > 0; taken += n {
			n = out.Try(make([]byte, 100_000))
		}
		if got, err := io.ReadFull(r, make([]byte, taken)); err != nil {
			t.Errorf("%d of %d bytes, %v", got, taken, err)
		}
	}
}

func TestErrorsAreThoseOfTheStream(t *testing.T) {
	t.Parallel()
	r, w := pipe(t, false)
	in, out := nowait.NewReader(r), nowait.NewWriter(w)
	var reading sync.WaitGroup
	reading.Go(func() {
		if _, err := in.Read(make([]byte, 10)); !errors.Is(err, os.ErrClosed) {
			t.Errorf("read: %v", err)
		}
	})
	_ = r.Close() // before the Read or during it
	reading.Wait()
	if n, err := out.Write([]byte("x")); n != 0 || err == nil || errors.Is(err, os.ErrClosed) {
		t.Errorf("written to nobody: %d, %v", n, err)
	}
	_ = w.Close()
	if n, err := out.Write([]byte("x")); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("written after the end: %d, %v", n, err)
	}
}
