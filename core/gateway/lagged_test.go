package gateway

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A resource that clients subscribed to is followed again in the next session of its server,
// also if the gateway missed the events that announced the end of the last one.
func TestAdhocSubscriptionsAfterLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		docs := w.Serve("docs", session.EraLegacy)
		docs.SetQuietly("file:///listed", "old")
		more := w.Serve("more", session.EraLegacy)
		more.SetQuietly("file:///x", "text")
		busy, held := make(chan struct{}), make(chan struct{})
		block := func() {}
		var mu sync.Mutex
		w.opts.Changed = func() {
			mu.Lock()
			f := block
			mu.Unlock()
			f()
		}
		w.start(sessiontest.Entry("docs", func(s *config.Server) { s.TrackResources = false }), sessiontest.Entry("more"))
		c := w.client(session.EraLegacy)
		w.subscribe(c, "file:///listed")
		received(c)

		mu.Lock()
		block = sync.OnceFunc(func() { close(busy); <-held })
		mu.Unlock()
		more.SetList(catalog.Tools, tool("two"))
		more.NotifyListChanged(catalog.Tools)
		<-busy
		for range journal.DefaultLag/2 + 1000 {
			if more := w.tracker.Client("more"); more.Subscribe(t.Context(), "file:///x") != nil || more.Unsubscribe(t.Context(), "file:///x") != nil {
				t.Fatal("cannot make events")
			}
		}
		w.SetDown("docs", sessiontest.ErrRefused)
		synctest.Wait()
		w.SetDown("docs", nil)
		w.advance(time.Minute)
		close(held)
		w.advance(time.Minute)
		if got := strings.Join(docs.Subscribed(), " "); got != "file:///listed" {
			t.Errorf("subscribed to %q", got)
		}
		received(c)
		docs.Set("file:///listed", "new")
		w.advance(5 * time.Second)
		if got := received(c); got != "file:///listed" {
			t.Errorf("received %q", got)
		}
	})
}
