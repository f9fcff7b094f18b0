package jsonl

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// counting counts the writes.
type counting struct {
	strings.Builder
	writes int
}

func (c *counting) Write(b []byte) (int, error) {
	c.writes++
	return c.Builder.Write(b)
}

func sample(seq uint64) *event.Event {
	return &event.Event{ID: event.FormatID("ab", seq), Seq: seq, Timestamp: time.Unix(0, 0), Payload: event.Gap{From: "ab-1", To: "ab-2", Reason: "line\nfeed"}}
}

func TestBatchIsOneWrite(t *testing.T) {
	var out counting
	w := NewWriter(&out)
	if err := w.Write(sample(1), sample(2)); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 2 || out.writes != 1 {
		t.Errorf("%d lines in %d writes: %q", n, out.writes, out.String())
	}
	if !strings.HasPrefix(out.String(), `{"id":"ab-1","type":"gap",`) {
		t.Errorf("%q", out.String())
	}
}

func TestFailedWrite(t *testing.T) {
	r, pipe := io.Pipe()
	_ = r.Close()
	if err := NewWriter(pipe).Write(sample(1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
}
