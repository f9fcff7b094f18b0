package feed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
)

// For every outage of the log, the hub logs one line when it begins, however often it retries, and
// one when it ends.
func TestEveryOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		l.append(updates(10)...)
		steps := make(chan error) // what the follower gets; nil: the next entry
		l.follows = func(ctx context.Context, _ uint64) iter.Seq2[journal.Entry, error] {
			return func(yield func(journal.Entry, error) bool) {
				for _, e := range l.from(1) { // the ring is empty
					select {
					case err := <-steps:
						if !yield(e, err) || err != nil {
							return
						}
					case <-ctx.Done():
						return
					}
				}
			}
		}
		var buf bytes.Buffer
		h := New(Options{Log: l, Logger: slog.New(slog.NewTextHandler(&buf, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1) // sent to once
		go func() { done <- h.Run(ctx) }()
		gone := errors.New("disk gone")
		for _, step := range []struct {
			err   error
			lines int
		}{{nil, 0}, {gone, 1}, {gone, 1}, {nil, 2}, {nil, 2}, {gone, 3}, {nil, 4}} {
			steps <- step.err
			synctest.Wait()
			if n := strings.Count(buf.String(), "\n"); n != step.lines {
				t.Fatalf("%d lines, want %d:\n%s", n, step.lines, buf.String())
			}
		}
		cancel()
		<-done // it could not catch up with the rest
	})
}

// Shutdown right after the last event was appended, while the log syncs it.
func TestShutdownSendsWhatIsBeingStored(t *testing.T) {
	const total = 200
	for good, end := 0, time.Now().Add(time.Minute); good < 2; {
		j, err := sqlitelog.Open(t.Context(), sqlitelog.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Close() })
		h, base := serve(t, Options{Log: j})
		s := connect(t, base, "/events", "")
		s.next() // it is connected
		for n := range total {
			e := event.Event{ServerID: "docs", ResourceURI: fmt.Sprint("a:", n), Timestamp: time.Now(), Payload: event.ResourceUpdated{}}
			if err := j.Append(&e); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.Shutdown(t.Context()); errors.Is(err, context.DeadlineExceeded) && time.Now().Before(end) {
			continue // it does not wait long for a slow log
		} else if err != nil {
			t.Fatal(err)
		}
		good++
		got := s.rest()
		if len(got) < 2 || got[len(got)-1].event != "tracker_stopped" || got[len(got)-2].id != event.FormatID(j.Epoch(), total) {
			t.Errorf("%d messages, the last are %+v", len(got), got[max(0, len(got)-2):])
		}
	}
}
