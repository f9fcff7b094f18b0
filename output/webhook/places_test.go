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

// beside subscribes a living endpoint and dead ones, which accept everything and never answer, at
// one host, and publishes an event every tenth of a second. It returns how many the living one has
// got when the last was published, and the most requests to dead ones at a time.
func beside(t *testing.T, dead, events int, restart bool) (got, open int) {
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
		w.subscribe(params("https://hooks.example/living", oneSecret))
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

// One endpoint that never answers, or as many as would hold all places of a host, take nothing
// from one that does.
func TestDeadEndpointsDoNotSilenceTheirNeighbours(t *testing.T) {
	t.Parallel()
	for dead, events := range map[int]int{1: 300, 2: 300, perHost: 300, mostOfHost: 300, 50: 1000} {
		got, open := beside(t, dead, events, false)
		if got != events {
			t.Errorf("%d of %d events came beside %d dead endpoints", got, events, dead)
		}
		if open > mostOfHost {
			t.Errorf("%d requests to %d dead endpoints at a time", open, dead)
		}
	}
}

// After a restart it is known which endpoints did not answer before.
func TestDeadEndpointsAfterARestart(t *testing.T) {
	t.Parallel()
	got, open := beside(t, 50, 5, true)
	if got != 5 || open > lateOfHost {
		t.Errorf("%d events came beside dead endpoints, with %d requests to those", got, open)
	}
}

// ask asks for a place and returns a function that reports whether it was given.
func (p *places) ask(t *testing.T, c *caller) (given func() bool, give func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan *place, 1) // sent to once
	go func() {
		one, _ := p.take(ctx, c)
		ended <- one
	}()
	synctest.Wait()
	var one *place
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
			one.give()
		}
	}
}

// Places are given in turn. A caller that has not answered yet holds one, and others leave the
// last one to those that hold none.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(3, 1, 5)
		a, b, c := new(caller), new(caller), new(caller)
		a.proven.Store(true)
		holds := func(want string, all map[string]func() bool) {
			t.Helper()
			var got strings.Builder
			for _, name := range slices.Sorted(maps.Keys(all)) {
				if all[name]() {
					got.WriteString(name + " ")
				}
			}
			if got.String() != want {
				t.Errorf("%sare given, want %s", &got, want)
			}
		}
		given, give := map[string]func() bool{}, map[string]func(){}
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
			given[name], give[name] = p.ask(t, map[byte]*caller{'a': a, 'b': b, 'c': c}[name[0]])
		}
		holds("a1 a2 b1 ", given)
		give["a3"]() // it stops waiting
		give["a1"]()
		holds("a1 a2 b1 c1 ", given) // c1 before a4, as a holds one already; b2 never, as b holds one
		give["b1"]()
		holds("a1 a2 b1 b2 c1 ", given)
		b.late.Store(true) // what it holds stays
		give["c1"]()
		holds("a1 a2 b1 b2 c1 ", given) // the last place is not for a4
		give["b2"]()
		holds("a1 a2 a4 b1 b2 c1 ", given)
		for _, name := range []string{"a2", "a4"} {
			give[name]()
		}
		if p.isPrompt+p.isLate+len(p.turns)+p.waiting.Len() != 0 {
			t.Errorf("left: %d prompt, %d late, %d turns, %d waiting", p.isPrompt, p.isLate, len(p.turns), p.waiting.Len())
		}
	})
}
