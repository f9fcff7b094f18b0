package gateway

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Subscribers of the index are notified of a real change within 3 s and then read the new state;
// they are not notified if nothing has really changed.
func TestIndexNotifiesSubscribers(t *testing.T) {
	const uri = "capability-index://full"
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetList(catalog.Tools, tool("one"))
		x, err := NewIndex(capindex.Options{Expose: []string{"summary", "full"}, TTL: 5 * time.Minute, Source: func() capindex.Capabilities { return w.gateway.Capabilities() }})
		if err != nil {
			w.Fatal(err)
		}
		w.opts.Local = x.Local()
		w.start(sessiontest.Entry("docs"))
		ctx, cancel := context.WithCancel(context.Background())
		w.running.Go(func() { x.Run(ctx, w.gateway.Server()) })
		w.Cleanup(cancel)
		c := w.client(era)
		w.subscribe(c, uri)
		wantRead := func(name string) {
			w.Helper()
			got, err := c.Read(w.Context(), uri)
			if text, _ := got.Text(); err != nil || !strings.Contains(text, "`"+name+"`") {
				w.Errorf("it says %s, %v", text, err)
			}
		}
		wantRead("one")
		x.Changed()
		w.advance(3 * time.Second)
		received(c) // the first generation always notifies
		x.Changed()
		w.advance(3 * time.Second)
		if got := received(c); got != "" {
			w.Errorf("notified of %s although nothing changed", got)
		}
		docs.SetList(catalog.Tools, tool("two"))
		docs.NotifyListChanged(catalog.Tools)
		w.advance(time.Second)
		for range 100 {
			x.Changed()
		}
		wantRead("two")
		w.advance(3 * time.Second)
		if got := received(c); got != uri+" tools" {
			w.Errorf("notified of %q", got)
		}
		if _, err := c.Read(w.Context(), "capability-index://stats"); err == nil {
			w.Error("what is not exposed can be read")
		}
		if raw, err := c.CallTool(w.Context(), capindex.SearchToolName, map[string]any{"query": "two"}); err != nil || !strings.Contains(string(raw), `two`) {
			w.Errorf("%s, %v", raw, err)
		}
	})
}
