package gateway

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Ad-hoc subscriptions that clients left stay for a while; their number is bounded.
func TestAdhocLimit(t *testing.T) {
	g, err := New(Options{Serve: mcpserver.Options{Subscriptions: subscriptions.Options{MaxTotal: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.view.Store(newView(contribution{}, []contribution{{id: "a", serverState: serverState{subscribes: true}}}, g.filter, func(Refusal) {}))
	for i := range 10 {
		if got := g.subscribable(fmt.Sprintf("x://%d", i)); got != (i < 3) {
			t.Errorf("%d: subscribable is %t", i, got)
		}
	}
	if !g.subscribable("x://0") {
		t.Error("what is wanted already is refused")
	}
	if n := len(g.adhoc.subs); n != 3 {
		t.Errorf("%d resources are wanted", n)
	}
}

// A resource whose last subscriber leaves while the task is subscribing is removed only
// after that, so that it can be unsubscribed.
func TestAdhocUnusedWhileSubscribing(t *testing.T) {
	d := adhocSet{limit: 10}
	at := target{"a", "x://1"}
	d.add(at, at.key)
	later := time.Now().Add(2 * minAdhocAge)
	none := func(string) bool { return false }
	if todo := d.pending(later, func(string) bool { return true }); len(todo["a"]) != 1 {
		t.Fatalf("to ask for: %v", todo)
	}
	d.unused(later, none)
	d.setActive("a", []string{at.key}) // the server took it
	d.attempted(at, false)
	if gone := d.unused(later, none); len(gone) != 1 || gone[0] != at {
		t.Errorf("given up: %v", gone)
	}
}

// When a client returns while the resource is being unsubscribed, the gateway subscribes
// afterwards, not concurrently: otherwise the last request to arrive would win.
func TestAdhocClientReturns(t *testing.T) {
	d := adhocSet{limit: 10}
	at := target{"a", "x://1"}
	d.add(at, at.key)
	later := time.Now().Add(2 * minAdhocAge)
	ready := func(string) bool { return true }
	d.pending(later, ready)
	d.attempted(at, false)
	d.setActive("a", []string{at.key})
	if gone := d.unused(later, func(string) bool { return false }); !slices.Equal(gone, []target{at}) {
		t.Fatalf("given up: %v", gone)
	}
	d.add(at, at.key)
	if todo := d.pending(later, ready); len(todo) > 0 {
		t.Errorf("asked for while it is given up: %v", todo)
	}
	if !d.setActive("a", nil) {
		t.Error("nothing was lost")
	}
	if !d.released(at) {
		t.Error("the returning client is not reported")
	}
	if todo := d.pending(later, ready); !slices.Equal(todo["a"], []string{at.key}) {
		t.Errorf("to ask for: %v", todo)
	}
	d.attempted(at, false)
	d.unused(later, func(string) bool { return false })
	if d.released(at) || len(d.subs) > 0 {
		t.Errorf("%d resources are kept", len(d.subs))
	}
}
