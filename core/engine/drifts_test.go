package engine_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/lock/locktest"
)

// lockDrifts returns what was published as lock.drift about a server: lock, state and item.
func (r *run) lockDrifts(server string) (out []string) {
	r.Helper()
	for entry, err := range r.events.Read(r.Context(), 0) {
		if err != nil {
			r.Fatal(err)
		}
		e, err := entry.Event()
		if err != nil {
			r.Fatal(err)
		}
		if p, ok := e.Payload.(event.LockDrift); ok && e.ServerID == server {
			out = append(out, strings.TrimSpace(p.Lock+" "+string(p.Change)+" "+p.Item))
		}
	}
	return out
}

// Verdicts of several judges: each change is published once for each lock. A change is over only if it was
// approved, or somebody has looked for it. A restart repeats nothing.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	approve(t, path, "docs", "dig digs")
	g, err := guard.New(guard.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	judge := func(texts ...string) *guard.Verdict {
		t.Helper()
		var items []catalog.Item
		for _, tool := range described(texts...) {
			raw, err := json.Marshal(tool)
			if err != nil {
				t.Fatal(err)
			}
			it, err := catalog.NewItem(catalog.Tools, raw)
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, it)
		}
		return g.Judge("docs", nil, guard.Offer{Lists: map[catalog.Kind][]catalog.Item{catalog.Tools: items}})
	}
	unknown := g.Judge("docs", nil, guard.Offer{})
	set := func(v *engine.Verdicts, verdict *guard.Verdict) { v.Set(map[string]*guard.Verdict{"docs": verdict}) }
	w, at := newWorld(t), place{dir: t.TempDir()}
	var r *run
	marks := 0
	var published []string
	expect := func(what string, want ...string) {
		t.Helper()
		published = append(published, want...)
		marks++
		mark := fmt.Sprint("mark", marks) // its event follows those that are expected
		end := r.Verdicts("")
		end.Set(map[string]*guard.Verdict{mark: g.Judge(mark, nil, guard.Offer{})})
		eventually(t, what, publishedWithin, func() bool { return len(r.lockDrifts(mark)) > 0 })
		end.Close()
		if got := r.lockDrifts("docs"); !slices.Equal(got, published) {
			t.Fatalf("%s: %q, want %q", what, got, published)
		}
	}
	r = w.engine(at, engine.Options{}, w.config())
	a, b, other := r.Verdicts(""), r.Verdicts(""), r.Verdicts("other")
	set(a, judge("dig EVIL"))
	expect("a change", "changed tool/dig")
	set(a, judge("dig EVIL"))
	set(b, judge("dig EVIL"))
	expect("another judge finds it, too")
	set(other, judge("dig EVIL"))
	expect("another lock", "other changed tool/dig")
	set(a, unknown)
	expect("one knows nothing, the other still finds it")
	set(b, judge("dig EVIL2"))
	expect("changed again", "changed tool/dig")
	set(a, judge("dig EVIL2"))
	b.Close()
	expect("one judge leaves")
	if changes := r.LockChanges()["docs"]; len(changes) != 2 {
		t.Errorf("in two locks: %v", changes)
	}
	set(a, judge("dig digs"))
	expect("taken back", "resolved tool/dig")
	r.stop()

	r = w.engine(at, engine.Options{}, w.config())
	a, other = r.Verdicts(""), r.Verdicts("other")
	set(a, judge("dig digs"))
	set(other, judge("dig EVIL"))
	expect("a restart")
	set(a, judge("dig digs", "sow sows"))
	expect("another change", "changed tool/sow")
	approve(t, path, "docs", "dig digs", "sow sows")
	g.Reload()
	set(a, judge("dig digs", "sow sows"))
	expect("approved", "approved tool/sow")
	other.Set(nil)
	expect("nothing is known")
	set(other, nil)
	expect("the other lock was removed", "other resolved tool/dig")
	if changes, compared := r.LockChanges()["docs"]; len(changes) != 0 || !compared {
		t.Errorf("%v, %t", changes, compared)
	}
}
