package tracker

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// However long the wait for a type of events that the server did not know, it is over when the
// server announces that its types changed.
func TestChangedEventTypesEndTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		feed := sessiontest.NewFeed("resource.updated")
		withEvents(docs, feed)
		var known atomic.Bool
		feed.Override(func(c *sessiontest.EventCall) (any, *sessiontest.EventError) {
			if c.Method == "events/list" || known.Load() {
				return feed.Answer(c)
			}
			return nil, &sessiontest.EventError{Code: -32011, Message: "NotFound"}
		})
		docs.SetQuietly("file:///a.md", "one")
		w.start(sessiontest.Entry("docs"))
		w.pass(20 * time.Minute)
		for calls := feed.Calls("events/list"); feed.Calls("events/list") == calls; { // a long wait begins now
			w.pass(time.Second)
		}
		w.pass(time.Second)
		known.Store(true)
		docs.NotifyEventsChanged()
		w.pass(10 * time.Second)
		if n := feed.Streams(); n != 1 {
			t.Errorf("%d streams", n)
		}
	})
}
