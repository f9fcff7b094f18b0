package webhook

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// deliverBesideDead subscribes one working endpoint, and dead endpoints that accept connections but
// never respond, at one host. It publishes an event every tenth of a second, and returns how many
// the working endpoint has received by the end, and the most concurrent requests to dead endpoints.
func deliverBesideDead(t *testing.T, dead, events int, restart bool) (got, open int) {
	t.Helper()
	allowed, err := ParseURLs([]string{"https://hooks.example/**"})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		to.silent = func(path string) bool { return strings.HasPrefix(path, "/dead/") }
		w := newWorldOn(t, log, to, Options{Allow: allowed})
		for i := range dead {
			w.subscribe(params(fmt.Sprint("https://hooks.example/dead/", i), oneSecret))
		}
		if restart {
			w.log.add("file:///before")
			time.Sleep(time.Hour)
			w.end()
			w = newWorldOn(t, log, to, Options{Allow: allowed})
			w.log.add("file:///after")
			synctest.Wait()
		}
		defer w.end()
		w.subscribe(params("https://hooks.example/working", oneSecret))
		for i := range events {
			w.log.add(fmt.Sprint("file:///", i))
			time.Sleep(100 * time.Millisecond)
			open = max(open, int(to.open.Load()))
		}
		synctest.Wait()
		got = len(to.ids())
	})
	return got, open
}

// Dead endpoints take no slots from a working one, not even if they could fill all slots of the host.
func TestDeadEndpointsDoNotDelayOthersAtTheirHost(t *testing.T) {
	t.Parallel()
	for dead, events := range map[int]int{1: 300, promptPerHost: 300, maxPerHost: 300, 50: 1000} {
		got, open := deliverBesideDead(t, dead, events, false)
		if got != events {
			t.Errorf("%d of %d events arrived beside %d dead endpoints", got, events, dead)
		}
		if open > maxPerHost {
			t.Errorf("%d concurrent requests to %d dead endpoints", open, dead)
		}
	}
}

// The next process knows which endpoints did not respond before.
func TestDeadEndpointsAfterARestart(t *testing.T) {
	t.Parallel()
	got, open := deliverBesideDead(t, 50, 5, true)
	if got != 5 || open > latePerHost {
		t.Errorf("%d events arrived beside dead endpoints, with %d requests to the dead ones", got, open)
	}
}

// ask requests a slot. It returns a function that reports whether the slot was granted, and one that
// releases it or cancels the request.
func (p *slots) ask(t *testing.T, c *responder) (given func() bool, give func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *slot, 1) // sent to once
	go func() {
		one, _ := p.take(ctx, c)
		ended <- one
	}()
	synctest.Wait()
	var one *slot
	given = func() bool {
		synctest.Wait()
		select {
		case one = <-ended:
		default:
		}
		return one != nil
	}
	return given, func() {
		if cancel(); given() {
			one.release()
		}
	}
}

// Responders take turns. The last slot is for responders that hold none.
func TestRespondersTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newSlots(3, 1, 5)
		a, b, c := new(responder), new(responder), new(responder)
		holds := func(want string, all map[string]func() bool) {
			t.Helper()
			var got strings.Builder
			for _, name := range slices.Sorted(maps.Keys(all)) {
				if all[name]() {
					got.WriteString(name + " ")
				}
			}
			if got.String() != want {
				t.Errorf("%sare granted, want %s", &got, want)
			}
		}
		given, give := map[string]func() bool{}, map[string]func(){}
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
			given[name], give[name] = p.ask(t, map[byte]*responder{'a': a, 'b': b, 'c': c}[name[0]])
		}
		holds("a1 a2 b1 ", given)
		give["a3"]() // cancels the request
		give["a1"]()
		holds("a1 a2 b1 c1 ", given) // c1 is before a4, as a already holds a slot; b2 must wait, as b holds one
		give["b1"]()
		holds("a1 a2 b1 b2 c1 ", given)
		b.late.Store(true) // it keeps its slot
		give["c1"]()
		holds("a1 a2 b1 b2 c1 ", given) // the last slot is not for a4
		give["b2"]()
		holds("a1 a2 a4 b1 b2 c1 ", given)
		for _, name := range []string{"a2", "a4"} {
			give[name]()
		}
		if p.isPrompt+p.isLate+len(p.held)+len(p.waiting) != 0 {
			t.Errorf("left: %d prompt, %d late, %d held, %d waiting", p.isPrompt, p.isLate, len(p.held), len(p.waiting))
		}
	})
}
