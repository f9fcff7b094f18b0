package tracker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// all are the lists that a fake server offers.
func all() []catalog.Kind {
	return []catalog.Kind{catalog.Tools, catalog.Resources, catalog.Templates, catalog.Prompts}
}

// A list that the server refuses, hangs on or dies of is left out, with one warning: the server is Ready with
// the others, and stays so.
func TestListsThatAServerDoesNotSurviveAreLeftOut(t *testing.T) {
	for name, fault := range map[string]sessiontest.Fault{
		"refuses": {Code: -32603, Message: "no"}, "never answers": {Silent: true}, "hangs": {Stuck: true}, "dies": {Dies: true},
	} {
		for _, broken := range all() {
			for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
				t.Run(fmt.Sprint(name, " ", broken, " ", era), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, Options{})
						docs := w.Serve("docs", era)
						docs.SetQuietly("file:///a.md", "one")
						docs.SetList(catalog.Tools, map[string]any{"name": "tool", "inputSchema": map[string]any{"type": "object"}})
						fault.Method = broken.Method()
						docs.Fail(fault)
						w.start(sessiontest.Entry("docs"))
						w.pass(5 * time.Minute)
						w.wantState("docs", event.Ready)
						w.forget()
						dials := len(w.Dialled("docs"))
						w.pass(time.Hour)
						w.wantState("docs", event.Ready)
						if n := len(w.Dialled("docs")); n != dials || len(w.published(event.TypeServerState)) > 0 {
							t.Errorf("dialled %d times, and then %d times", dials, n-dials)
						}
						st, _ := w.tracker.Snapshot().Server("docs")
						for _, k := range []catalog.Kind{catalog.Tools, catalog.Resources} {
							if k != broken && len(st.Lists[k]) != 1 {
								t.Errorf("the list of %s: %v", k, st.Lists[k])
							}
						}
						about := slices.DeleteFunc(w.logs.warnings(), func(line string) bool { return !strings.Contains(line, "list="+string(broken)) })
						if len(about) != 1 {
							t.Errorf("warnings: %q", w.logs.warnings())
						}
					})
				})
			}
		}
	}
}

// A server that survives no list at all is not Ready.
func TestAllListsAreNotLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		docs := w.Serve("docs", session.EraLegacy)
		for _, k := range all() {
			docs.Fail(sessiontest.Fault{Method: k.Method(), Dies: true})
		}
		w.start(sessiontest.Entry("docs"))
		w.pass(time.Hour)
		for _, state := range w.states("docs") {
			if strings.HasPrefix(state, string(event.Ready)) {
				t.Errorf("states %q", w.states("docs"))
				break
			}
		}
		docs.Heal()
		w.pass(10 * time.Minute)
		w.wantState("docs", event.Ready)
	})
}

// A list that was answered before is not left out because a server crashes at its start for a while.
func TestKnownListsAreNotLeftOut(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		settledOn(w, docs, "file:///a.md")
		docs.Fail(sessiontest.Fault{Method: catalog.Resources.Method(), Dies: true, Times: 4})
		docs.Disconnect()
		w.pass(10 * time.Minute)
		w.wantState("docs", event.Ready)
		docs.Set("file:///a.md", "two")
		w.pass(10 * time.Second)
		w.wantUpdates("file:///a.md notify")
	})
}
