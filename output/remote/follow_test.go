package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// The log of this process is read from any position, up to its newest event or on, and a gap is told.
func TestFollowLog(t *testing.T) {
	errEnough := errors.New("enough")
	for name, c := range map[string]struct {
		from   Position
		after  uint64 // from.ID, in the log
		stored bool
		want   string
	}{
		"all":          {Position{All: true}, 0, true, "[gap 3 4 5 6]"},
		"after an id":  {Position{}, 4, true, "[5 6]"},
		"expired":      {Position{}, 1, true, "[gap 3 4 5 6]"},
		"another log":  {Position{ID: "00000000000000ab-9"}, 0, true, "[gap 3 4 5 6]"},
		"the end":      {Position{}, 0, true, "[]"},
		"and then new": {Position{}, 5, false, "[6 7]"},
	} {
		log := journal.NewMemory(journal.MemoryOptions{Keep: 4})
		add := func(n int) {
			for range n {
				log.Publish(event.Event{ServerID: "a", Payload: event.ServerState{State: event.Ready}})
			}
		}
		add(6)
		if c.after > 0 {
			c.from.ID = event.FormatID(log.Epoch(), c.after)
		}
		client := Local(log, http.NotFoundHandler())
		var got []string
		err := client.Follow(t.Context(), ReadOptions{From: c.from, Stored: c.stored}, func(e journal.Entry) error {
			if e.Gap != nil {
				got = append(got, "gap")
				return nil
			}
			if got = append(got, fmt.Sprint(e.Seq)); !c.stored {
				add(1)
			}
			if e.Seq == 7 {
				return errEnough
			}
			return nil
		})
		if fmt.Sprint(got) != c.want || c.stored && err != nil || !c.stored && !errors.Is(err, errEnough) {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
	}
}

// What was appended before the end of the context is delivered.
func TestFollowLogToItsEnd(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	client := Local(log, http.NotFoundHandler())
	ctx, cancel := context.WithCancel(t.Context())
	var got []uint64
	log.Publish(event.Event{Payload: event.ServerState{State: event.Ready}})
	err := client.Follow(ctx, ReadOptions{From: Position{All: true}}, func(e journal.Entry) error {
		if got = append(got, e.Seq); e.Seq == 1 {
			log.Publish(event.Event{Payload: event.ServerState{State: event.Stopping}})
			cancel()
		}
		return nil
	})
	if err != nil || !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("%v, %v", got, err)
	}
}
