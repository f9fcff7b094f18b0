package feed

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcptrack/mcptrack/core/journal"
)

// There is one line when the source fails, however often it is retried, and one when it
// works again; for every outage.
func TestEveryOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		l.append(updates(10)...)
		steps := make(chan error) // received from by the follower: nil is the next entry
		l.follows = func(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
			return func(yield func(journal.Entry, error) bool) {
				for _, e := range l.from(from) {
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
