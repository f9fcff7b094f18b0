package gateway

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/serve"
	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// TestDemandIsBounded: what clients subscribe to and leave again is kept for a while,
// which must not be without end.
func TestDemandIsBounded(t *testing.T) {
	g, err := New(Options{Serve: serve.Options{Subscriptions: subscriptions.Options{MaxTotal: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.view.Store(newView(source{}, []source{{id: "a", subscribes: true}}, g.filter, func(Refusal) {}))
	for i := range 10 {
		if got := g.subscribable(fmt.Sprintf("x://%d", i)); got != (i < 3) {
			t.Errorf("%d: subscribable is %t", i, got)
		}
	}
	if !g.subscribable("x://0") {
		t.Error("what is wanted already is refused")
	}
	if n := len(g.demand.wants); n != 3 {
		t.Errorf("%d resources are wanted", n)
	}
}

// TestDemandAskedWhileLeft: a resource that is being asked for when its last
// subscriber has left is forgotten only after that, so that it can be given up.
func TestDemandAskedWhileLeft(t *testing.T) {
	d := demand{limit: 10}
	at := target{"a", "x://1"}
	d.add(at, at.key)
	later := time.Now().Add(2 * settling)
	nobody := func(string) bool { return false }
	if todo := d.open(later, func(string) bool { return true }); len(todo["a"]) != 1 {
		t.Fatalf("to ask for: %v", todo)
	}
	d.sweep(later, nobody)
	d.active("a", []string{at.key}) // the server took it
	d.asked(at, false)
	if gone := d.sweep(later, nobody); len(gone) != 1 || gone[0] != at {
		t.Errorf("given up: %v", gone)
	}
}

// TestDemandComesBack: a client that comes back while the resource is being given up
// gets it asked for after that, not beside it: whichever came last would hold.
func TestDemandComesBack(t *testing.T) {
	d := demand{limit: 10}
	at := target{"a", "x://1"}
	d.add(at, at.key)
	later := time.Now().Add(2 * settling)
	ready := func(string) bool { return true }
	d.open(later, ready)
	d.asked(at, false)
	d.active("a", []string{at.key})
	if gone := d.sweep(later, func(string) bool { return false }); !slices.Equal(gone, []target{at}) {
		t.Fatalf("given up: %v", gone)
	}
	d.add(at, at.key)
	if todo := d.open(later, ready); len(todo) > 0 {
		t.Errorf("asked for while it is given up: %v", todo)
	}
	if !d.active("a", nil) {
		t.Error("nothing was lost")
	}
	if !d.left(at) {
		t.Error("nobody came back")
	}
	if todo := d.open(later, ready); !slices.Equal(todo["a"], []string{at.key}) {
		t.Errorf("to ask for: %v", todo)
	}
	d.asked(at, false)
	d.sweep(later, func(string) bool { return false })
	if d.left(at) || len(d.wants) > 0 {
		t.Errorf("%d resources are kept", len(d.wants))
	}
}
