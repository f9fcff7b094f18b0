package tracker

import (
	"fmt"
	"testing"
	"time"
)

// What is announced all the time, more than the server can answer, does not keep a
// quiet resource from being compared, however few reads there may be at once.
func TestQuietBesideBusy(t *testing.T) {
	for _, slots := range []int{1, 8} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			l := newLab(true)
			l.slots = slots
			var busy []string
			for i := range 200 {
				busy = append(busy, fmt.Sprint("busy", i))
			}
			l.follow(busy...)
			l.run(time.Minute)
			l.rtt = func() time.Duration { return 100 * time.Millisecond }
			l.truth["quiet"] = 2
			k := l.c.add("quiet", content{digest: digestOf(1)})
			for n := range 40 {
				for _, uri := range busy {
					l.change(uri, 1)
				}
				if n == 2 {
					l.c.check(k, roleResync)
				}
				l.run(500 * time.Millisecond)
			}
			if len(l.told["quiet"]) != 1 {
				t.Errorf("told %v of the quiet resource in 19 s", l.told["quiet"])
			}
			urgent := 0
			for _, uri := range busy {
				urgent += len(l.told[uri])
			}
			if urgent == 0 {
				t.Error("told nothing of the busy ones")
			}
		})
	}
}

// A key whose wish is taken back for a more urgent one, again and again, stands in
// the queues once.
func TestWishesAreBounded(t *testing.T) {
	l := newLab(true)
	l.follow("a")
	k := l.c.keys["a"]
	for range 1000 {
		l.c.check(k, rolePoll)
		l.announce("a", 1)
		l.run(5 * time.Second)
	}
	if n := l.c.wishes[0].queue.Len() + l.c.wishes[1].queue.Len(); n != 0 {
		t.Errorf("%d wishes are left", n)
	}
	l.c.check(k, rolePoll)
	l.c.signal("a", 1, l.now, l.now)
	if n := l.c.wishes[0].queue.Len() + l.c.wishes[1].queue.Len(); n != 1 {
		t.Errorf("one key stands in the queues %d times", n)
	}
}
