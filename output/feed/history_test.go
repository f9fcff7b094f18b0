package feed

import (
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// Clients that do not read their page of history occupy neither a reader nor the pages
// of others.
func TestSlowReadersOfHistoryDoNotDelayOthers(t *testing.T) {
	const total, missed = 1000, 50 // 16 MB, more than a connection takes unread
	l := newMemLog()
	h, base := serve(t, Options{Log: l, Ring: 16, WriteTimeout: time.Minute})
	l.append(large(total)...)
	eventually(t, "all is followed", func() bool { return h.current().followed() > total })
	connect(t, base, "/events?since=earliest", "")
	sent, since := uint64(0), time.Now()
	eventually(t, "its writes block", func() bool {
		if now := h.Stats().Replayed; now != sent {
			sent, since = now, time.Now()
		}
		return sent > 0 && time.Since(since) > time.Second
	})
	if len(h.pages) != 1 || len(h.readers) != 0 {
		t.Errorf("it holds %d pages and %d readers", len(h.pages), len(h.readers))
	}
	for range maxPages - 1 {
		h.pages <- struct{}{} // as if there were more of them
	}
	s := connect(t, base, "/events", event.FormatID(testEpoch, total-missed))
	for i, m := range s.events(missed) {
		if want := event.FormatID(testEpoch, uint64(total-missed+1+i)); m.id != want {
			t.Fatalf("%s instead of %s", m.id, want)
		}
	}
	if len(h.pages) != maxPages {
		t.Error("the slow client has read its page")
	}
	for range maxPages - 1 {
		<-h.pages
	}
}

// An event that does not fit into a small page waits for a large one, in its order.
func TestLargeEventsOfHistoryKeepTheirOrder(t *testing.T) {
	l := newMemLog()
	h, base := serve(t, Options{Log: l, Ring: 4, WriteTimeout: time.Minute})
	events := updates(30)
	const at = 12 // its number is one more
	events[at].Payload = event.ResourceUpdated{Name: strings.Repeat("x", 3*smallPage)}
	l.append(events...)
	eventually(t, "all is followed", func() bool { return h.current().followed() > uint64(len(events)) })
	for range maxPages {
		h.pages <- struct{}{} // as if others had them
	}
	s := connect(t, base, "/events?since=earliest", "")
	for i, m := range s.events(at) {
		if want := event.FormatID(testEpoch, uint64(i+1)); m.id != want {
			t.Fatalf("%s instead of %s", m.id, want)
		}
	}
	eventually(t, "the small page is counted", func() bool { return h.Stats().Replayed == at })
	<-h.pages
	for i, m := range s.events(len(events) - at) {
		if want := event.FormatID(testEpoch, uint64(at+i+1)); m.id != want {
			t.Fatalf("%s instead of %s", m.id, want)
		}
	}
	for range maxPages - 1 {
		<-h.pages
	}
}
