package tracker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// What is too long to be kept is too long for an event, and so is what has no room
// beside the others.
func TestTextsInEventsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Texts: true, MaxText: 100, MaxTexts: 150})
		docs := w.Serve("docs", session.EraLegacy)
		settledOn(w, docs, "file:///a.md", "file:///b.md", "file:///c.md")
		docs.Set("file:///a.md", strings.Repeat("x", 101))
		w.pass(time.Second)
		docs.Set("file:///b.md", strings.Repeat("x", 90))
		w.pass(time.Second)
		docs.Set("file:///c.md", strings.Repeat("x", 90))
		w.pass(time.Second)
		var got []bool
		for _, e := range w.published(event.TypeResourceUpdated) {
			u := e.Payload.(event.ResourceUpdated)
			got = append(got, u.Text != nil)
			if u.Digest.IsZero() || *u.Size < 90 {
				w.Errorf("published %+v", u)
			}
		}
		if len(got) != 3 || got[0] || !got[1] || got[2] {
			w.Errorf("events with their text: %v, want the second of three", got)
		}
	})
}
