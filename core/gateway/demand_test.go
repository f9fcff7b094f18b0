package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/serve"
	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// TestDemandIsBounded: the gateway is asked about a URI before the client's limit is
// looked at, so that what is refused there must not be kept without end here.
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
