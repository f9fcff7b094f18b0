package remote

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"

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

// The stored events of a feed end with the one that is the newest at the beginning, or if the log was replaced.
func TestFollowStored(t *testing.T) {
	const a, b = "00000000000000ab-", "00000000000000cd-"
	checkpoint := func(id string) string { return "event: checkpoint\nid: " + id + "\ndata: {}\n\n" }
	ready := func(id string) string {
		return "event: server.state\nid: " + id + `
data: {"id":"` + id + `","type":"server.state","serverId":"a","timestamp":"2026-11-24T09:30:00.000Z","state":"Ready"}

`
	}
	for name, c := range map[string]struct {
		stored string
		want   []string
	}{
		"some events":     {checkpoint(a+"1") + ready(a+"2") + ready(a+"3") + ready(a+"4"), []string{a + "1", a + "2", a + "3"}},
		"no event":        {checkpoint(a + "3"), []string{a + "3"}},
		"another log":     {checkpoint(b+"0") + ready(b+"1"), []string{b + "0"}},
		"of a newer type": {"event: of.tomorrow\nid: " + a + "3\n" + `data: {"type":"of.tomorrow","timestamp":"2026-11-24T09:30:00.000Z"}` + "\n\n", []string{a + "3"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []func(*http.Request) *http.Response{answer(200, "application/json", `{"epoch":"00000000000000ab","seq":3}`), hanging(c.stored)}}
			client := Client{Base: &url.URL{Scheme: "http", Host: "feed.example"}, HTTP: &http.Client{Transport: s}}
			var got []string
			err := client.Follow(t.Context(), ReadOptions{Stored: true, Passed: func(id string) { got = append(got, id) }},
				func(e journal.Entry) error { got = append(got, e.ID); return nil })
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, %q", name, err, got)
			}
		})
	}
	s := &script{answers: []func(*http.Request) *http.Response{answer(200, "text/html", "<html>")}}
	client := Client{Base: &url.URL{Scheme: "http", Host: "feed.example"}, HTTP: &http.Client{Transport: s}}
	if _, refused := errors.AsType[*RefusedError](client.Follow(t.Context(), ReadOptions{Stored: true}, nil)); !refused {
		t.Error("another program is followed")
	}
}
