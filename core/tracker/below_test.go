package tracker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// dirWorld follows file:///dir, whose server announces arbitrary sub-resources.
func dirWorld(w *world, docs *sessiontest.Fake) {
	docs.SetQuietly("file:///dir", "one")
	w.start(sessiontest.Entry("docs", func(s *config.Server) { s.Include = []string{"file:///dir"} }))
	w.pass(3 * time.Second)
	w.forget()
}

// Every announcement of a sub-resource causes a read of the parent: not only the first one, and
// even one that arrives while the parent is being read.
func TestParentIsComparedEveryTime(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		dirWorld(w, docs)
		for i := range 3 {
			docs.SetQuietly("file:///dir/x.md", fmt.Sprint(i))
			docs.SetQuietly("file:///dir", fmt.Sprint("listing ", i))
			docs.NotifyUpdated("file:///dir/x.md")
			w.pass(5 * time.Second)
		}
		parents := func() int {
			return len(slices.DeleteFunc(w.updates(), func(s string) bool { return !strings.HasPrefix(s, "file:///dir ") }))
		}
		if n := parents(); n != 3 {
			w.Errorf("the parent changed 3 times and was published %d times:\n%s", n, w.log())
		}
		w.forget()
		docs.Fail(sessiontest.Fault{Method: "resources/read", URI: "file:///dir", Times: 1, Result: content1("file:///dir", "listing 2"), Delay: time.Second})
		docs.NotifyUpdated("file:///dir/x.md") // the pending answer has the current content
		w.pass(500 * time.Millisecond)
		docs.SetQuietly("file:///dir", "listing 3")
		docs.NotifyUpdated("file:///dir/x.md")
		w.pass(10 * time.Second)
		if n := parents(); n != 1 {
			w.Errorf("a change of the parent while it was read was published %d times:\n%s", n, w.log())
		}
	})
}

func content1(uri, text string) any {
	return map[string]any{"resultType": "complete", "contents": []any{map[string]any{"uri": uri, "mimeType": "text/plain", "text": text}}}
}

// A change of the entry that does not concern resources keeps the known sub-resources.
func TestSubResourceSurvivesAConfigChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		dirWorld(w, docs)
		docs.SetQuietly("file:///dir/x.md", "one")
		docs.NotifyUpdated("file:///dir/x.md")
		w.pass(5 * time.Second)
		w.apply(sessiontest.Entry("docs", func(s *config.Server) { s.Include, s.TrackPrompts = []string{"file:///dir"}, false }))
		w.pass(time.Second)
		w.forget()
		docs.NotifyUpdated("file:///dir/x.md")
		w.pass(time.Second)
		w.wantUpdates("file:///dir/x.md notify")
		if u := w.published(event.TypeResourceUpdated)[0].Payload.(event.ResourceUpdated); u.Changed == nil || *u.Changed {
			w.Errorf("its earlier state is forgotten: %+v", u)
		}
	})
}

// A sub-resource that becomes listed is followed in its own right, and changes announced in the
// meantime are published.
func TestSubResourceBecomesListed(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		docs.SetQuietly("file:///dir", "one")
		w.start(sessiontest.Entry("docs"))
		w.pass(3 * time.Second)
		docs.Mute(true)
		docs.Set("file:///dir/x.md", "one") // listed from now on, but the tracker does not know yet
		docs.Mute(false)
		docs.NotifyUpdated("file:///dir/x.md")
		w.pass(3 * time.Second)
		w.forget()
		docs.NotifyUpdated("file:///dir/x.md") // opens a window
		w.pass(100 * time.Millisecond)
		docs.Set("file:///dir/x.md", "two") // makes it dirty
		docs.Remove("file:///dir")          // the list is published
		w.pass(10 * time.Second)
		w.wantUpdates("file:///dir/x.md notify", "file:///dir/x.md trailing")
		docs.Set("file:///dir/x.md", "three")
		w.pass(time.Second)
		w.wantUpdates("file:///dir/x.md notify", "file:///dir/x.md trailing", "file:///dir/x.md notify")
	})
}

// However many sub-resources a server invents, memory is bounded. Idle ones make room, so that new
// ones are published under their own URI.
func TestSubResourcesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		dirWorld(w, docs)
		for round := range 5 {
			for i := range 400 {
				docs.SetQuietly(fmt.Sprintf("file:///dir/%d-%d.md", round, i), "one")
				docs.NotifyUpdated(fmt.Sprintf("file:///dir/%d-%d.md", round, i))
			}
			w.pass(10 * time.Second)
			st, _ := w.tracker.Snapshot().Server("docs")
			if n := len(st.Resources); n > 1001 {
				w.Fatalf("round %d: %d resources are cached", round, n)
			}
		}
		published := map[string]bool{}
		for _, e := range w.published(event.TypeResourceUpdated) {
			published[e.ResourceURI] = true
		}
		if len(published) < 5*400 {
			w.Errorf("only %d of 2,000 sub-resources were published under their own URI", len(published))
		}
		st, _ := w.tracker.Snapshot().Server("docs")
		if c := st.Counts; c.Folded+c.Unknown > c.Signals {
			w.Errorf("counts are not conserved: %+v", c)
		}
	})
}
