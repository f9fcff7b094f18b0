package journal

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestReadAheadKeepsOrder(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	r := newReadAhead(here)
	var want bytes.Buffer
	for i := range 3 << 20 {
		want.WriteByte(byte(i * i >> 3))
	}
	go func() {
		for rest := want.Bytes(); len(rest) > 0; {
			n := min(1+rand.IntN(150<<10), len(rest))
			if _, err := there.Write(rest[:n]); err != nil {
				t.Errorf("write: %v", err)
			}
			rest = rest[n:]
		}
		_ = there.Close()
	}()
	var got bytes.Buffer
	buf := make([]byte, 100<<10)
	for {
		n, err := r.Read(buf[:1+rand.IntN(len(buf)-1)])
		got.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%d bytes came, %d were sent, or others", got.Len(), want.Len())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A reader that does not read holds the server up, after a bounded number of bytes,
// and neither end of the connection hangs on it when it is closed.
func TestReadAheadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		r := newReadAhead(here)
		sent := make(chan int, 1) // how much, once the pipe is closed
		go func() {
			total := 0
			for {
				n, err := there.Write(make([]byte, 10_000))
				total += n
				if err != nil {
					sent <- total
					return
				}
			}
		}()
		synctest.Wait() // all that can be written is
		if n, err := r.Read(make([]byte, 10)); n != 10 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		synctest.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if total := <-sent; total < aheadBytes || total > 2*aheadBytes+2*aheadPiece {
			t.Errorf("%d bytes were read ahead", total)
		}
		for end := 0; ; end++ { // what came before the end is there, and then the end
			if _, err := r.Read(make([]byte, aheadBytes)); err != nil {
				if !errors.Is(err, io.ErrClosedPipe) || end < 1 {
					t.Errorf("ended with %v after %d reads", err, end)
				}
				break
			}
		}
	})
}

func TestReadAheadKeepsDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		r := newReadAhead(here)
		if err := r.SetDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(began))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		_ = there.Close()
	})
}
