package feed

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
)

// The hub is shut down right after the last event was appended, while the store syncs
// it.
func TestShutdownSendsWhatIsBeingStored(t *testing.T) {
	const total = 200
	for good, end := 0, time.Now().Add(time.Minute); good < 5; {
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
			continue // it does not wait long for a slow store
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
