package coalesce

import (
	"fmt"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// Resources that are announced more often than the server can answer do not keep an idle one from
// being compared, however few reads may be in flight.
func TestIdleResourcesAreComparedBesideBusyOnes(t *testing.T) {
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
			l.c.opts.Baseline = func(string) catalog.Digest { return digestOf(1) }
			l.c.Add("quiet", event.Descriptor{})
			for n := range 40 {
				for _, uri := range busy {
					l.change(uri, 1)
				}
				if n == 2 {
					l.c.Check("quiet", Resync)
				}
				l.run(500 * time.Millisecond)
			}
			if len(l.events["quiet"]) != 1 {
				t.Errorf("published %v about the idle resource in 19 s", l.events["quiet"])
			}
			urgent := 0
			for _, uri := range busy {
				urgent += len(l.events[uri])
			}
			if urgent == 0 {
				t.Error("published nothing about the busy ones")
			}
		})
	}
}

// A key whose read is repeatedly replaced by a more urgent one is queued once.
func TestAKeyIsQueuedOnce(t *testing.T) {
	l := newLab(true)
	l.follow("a")
	for range 1000 {
		l.c.Check("a", Poll)
		l.announce("a", 1)
		l.run(5 * time.Second)
	}
	if n := l.c.reads.waiting[0].Len() + l.c.reads.waiting[1].Len(); n != 0 {
		t.Errorf("%d reads are still queued", n)
	}
	l.c.Check("a", Poll)
	l.c.Signal("a", Signal{N: 1, Received: l.now}, l.now)
	if n := l.c.reads.waiting[0].Len() + l.c.reads.waiting[1].Len(); n != 1 {
		t.Errorf("one key is queued %d times", n)
	}
}
