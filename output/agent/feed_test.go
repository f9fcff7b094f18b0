package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// A feed is reported from the last event that was reported on, also when writing failed,
// and what is not for agents moves the cursor, too.
func TestFeed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		entry := func(n int, e *event.Event) Entry { return Entry{fmt.Sprintf("ab-%d", n), e} }
		changed := func(uri string) *event.Event {
			return &event.Event{ServerID: "docs", ResourceURI: uri, Payload: event.ResourceUpdated{}}
		}
		// read is a run that gets the entries and is interrupted some time later.
		read := func(out *writer, after time.Duration, entries ...Entry) (began string, err error) {
			c, err := OpenCursor(dir, "k", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			began = c.LastID()
			return began, Feed(ctx, Options{W: out, Cursor: c}, func(ctx context.Context, deliver func(Entry) error) error {
				for _, x := range entries {
					if err := deliver(x); err != nil {
						return err
					}
				}
				<-ctx.Done()
				return nil
			})
		}
		for _, run := range []struct {
			fail    error
			after   time.Duration
			entries []Entry
			began   string
			want    []string
		}{
			{nil, time.Minute, []Entry{entry(1, nil), entry(2, changed("x:1")), entry(3, changed("x:2"))}, "", []string{"docs: x:1 changed, x:2 changed"}},
			{nil, time.Minute, []Entry{entry(4, &event.Event{ServerID: "docs", Payload: event.ServerState{}})}, "ab-3", nil},
			{errors.New("closed"), time.Minute, []Entry{entry(5, changed("x:3"))}, "ab-4", nil},
			{nil, 10 * time.Millisecond, []Entry{entry(5, changed("x:3"))}, "ab-4", []string{"docs: x:3 changed"}}, // at once, as it ends
			{nil, time.Minute, nil, "ab-5", nil},
		} {
			out := &writer{fail: run.fail}
			began, err := read(out, run.after, run.entries...)
			if began != run.began || !slices.Equal(out.lines, run.want) || !errors.Is(err, run.fail) {
				t.Errorf("from %q: %q, %v; want from %q: %q, %v", began, out.lines, err, run.began, run.want, run.fail)
			}
		}
	})
}
