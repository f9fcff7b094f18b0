package coalesce

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// lab drives a Coalescer in simulated time against resources whose true content it knows. It models
// a server that announces every change.
type lab struct {
	c       *Coalescer
	now     time.Time
	truth   map[string]int
	events  map[string][]published
	flights []flight
	rtt     func() time.Duration
	fail    func() bool
	signals uint64
	slots   int // reads that may be in flight
}

type published struct {
	at    time.Time
	cause event.Cause
	read  bool
	value int
	gone  bool
}

// flight is a read in flight: the server reads the content at one time, and the answer arrives
// later.
type flight struct {
	read         Read
	looks, lands time.Time
	looked       bool
	value        int
	failed       bool
}

func newLab(digests bool) *lab {
	l := &lab{now: time.Unix(1_700_000_000, 0), slots: 8, truth: map[string]int{}, events: map[string][]published{}}
	l.rtt = func() time.Duration { return 10 * time.Millisecond }
	l.fail = func() bool { return false }
	l.c = New(Options{Window: 2 * time.Second, Patience: 250 * time.Millisecond, Digests: digests, Publish: func(u Update) {
		e := published{at: l.now, cause: u.Cause, read: u.Read, gone: u.Removed}
		if u.Read {
			e.value = value(u.Content.Digest)
		}
		l.events[u.URI] = append(l.events[u.URI], e)
	}})
	return l
}

func digestOf(v int) catalog.Digest {
	var d catalog.Digest
	d[0], d[1], d[2] = 1, byte(v), byte(v>>8)
	return d
}

func value(d catalog.Digest) int { return int(d[1]) | int(d[2])<<8 }

func (l *lab) follow(uris ...string) {
	for _, u := range uris {
		l.c.Add(u, event.Descriptor{})
	}
	l.c.CompareAll()
	l.launch()
	l.run(time.Second)
}

// change changes the content and announces it n times.
func (l *lab) change(uri string, n int) {
	l.truth[uri]++
	l.announce(uri, n)
}

func (l *lab) announce(uri string, n int) {
	l.signals += uint64(n)
	l.c.Signal(uri, Signal{N: n, Received: l.now}, l.now)
	l.launch()
}

func (l *lab) launch() {
	for r, ok := l.c.NextRead(l.slots); ok; r, ok = l.c.NextRead(l.slots) {
		d := l.rtt()
		l.flights = append(l.flights, flight{read: r, looks: l.now.Add(d / 2), lands: l.now.Add(d), failed: l.fail()})
	}
}

// run lets time pass and performs everything that becomes due, in order.
func (l *lab) run(d time.Duration) {
	end := l.now.Add(d)
	for {
		at, what := end, -1
		if t := l.c.Next(); !t.IsZero() && t.Before(at) {
			at, what = t, -2
		}
		for i, f := range l.flights {
			t := f.lands
			if !f.looked {
				t = f.looks
			}
			if t.Before(at) {
				at, what = t, i
			}
		}
		if at.After(l.now) {
			l.now = at
		}
		switch {
		case what == -1:
			return
		case what == -2:
			l.c.Advance(l.now)
		case !l.flights[what].looked:
			f := &l.flights[what]
			f.looked, f.value = true, l.truth[f.read.URI]
		default:
			f := l.flights[what]
			l.flights = append(l.flights[:what:what], l.flights[what+1:]...)
			outcome := OK
			if f.failed {
				outcome = Failed
			}
			l.c.Answer(f.read, outcome, Content{Digest: digestOf(f.value)}, l.now)
		}
		l.launch()
	}
}

func (l *lab) last(uri string) published {
	if t := l.events[uri]; len(t) > 0 {
		return t[len(t)-1]
	}
	return published{}
}

func TestDuplicateSignalsInAWindowGiveOneEvent(t *testing.T) {
	l := newLab(true)
	l.follow("a")
	l.change("a", 1)
	l.run(500 * time.Millisecond)
	l.announce("a", 1)
	l.run(1600 * time.Millisecond) // 2.1 s after the first
	if n := len(l.events["a"]); n != 1 {
		t.Fatalf("%d events for one change announced twice, want 1: %v", n, l.events["a"])
	}
	l.announce("a", 1)
	l.run(5 * time.Second)
	if n := len(l.events["a"]); n != 2 {
		t.Fatalf("%d events after a third announcement outside the window, want 2", n)
	}
}

func TestSecondChangeInAWindowIsPublishedAtItsEnd(t *testing.T) {
	l := newLab(true)
	l.follow("a")
	opened := l.now
	l.change("a", 1)
	l.run(time.Second)
	l.change("a", 1)
	l.run(10 * time.Second)
	if n := len(l.events["a"]); n != 2 {
		t.Fatalf("%d events, want a leading and a trailing one", n)
	}
	got := l.last("a")
	if got.cause != event.CauseTrailing || got.value != l.truth["a"] {
		t.Errorf("last event %+v, want trailing with content %d", got, l.truth["a"])
	}
	if late := got.at.Sub(opened); late < 2*time.Second || late > 2050*time.Millisecond {
		t.Errorf("published %s after the window opened, want at its end", late)
	}
}

func TestSlowReadGivesAnEventWithoutDigestThenOneWithIt(t *testing.T) {
	l := newLab(true)
	l.follow("a")
	l.rtt = func() time.Duration { return time.Second }
	opened := l.now
	l.change("a", 1)
	l.run(20 * time.Second)
	got := l.events["a"]
	if len(got) != 2 {
		t.Fatalf("%d events, want 2: %+v", len(got), got)
	}
	if got[0].read || got[0].at.Sub(opened) != 250*time.Millisecond {
		t.Errorf("first event %+v, want one without content after 250 ms", got[0])
	}
	if !got[1].read || got[1].value != l.truth["a"] {
		t.Errorf("second event %+v, want the content", got[1])
	}
}

func TestChangeDuringATrailingReadIsPublished(t *testing.T) {
	l := newLab(true)
	l.follow("a")
	l.change("a", 1)
	l.run(time.Second)
	l.announce("a", 1) // without a change: the end of the window reads
	l.rtt = func() time.Duration { return time.Second }
	l.run(1600 * time.Millisecond) // and the answer has been sent
	l.change("a", 1)
	l.run(10 * time.Second)
	if got := l.events["a"]; len(got) != 2 || l.last("a").value != l.truth["a"] {
		t.Errorf("got %+v, want the change published", got)
	}
}

func TestResourcesThatAreNotReadGiveTwoEventsPerWindow(t *testing.T) {
	l := newLab(false)
	l.follow("a")
	l.change("a", 1)
	for range 10 {
		l.run(100 * time.Millisecond)
		l.change("a", 1)
	}
	l.run(10 * time.Second)
	got := l.events["a"]
	if len(got) != 2 || got[0].cause != event.CauseNotify || got[1].cause != event.CauseTrailing {
		t.Errorf("got %+v, want one leading and one trailing event", got)
	}
}

func TestMissingResourceIsPublishedAndComesBack(t *testing.T) {
	l := newLab(true)
	l.follow("a")
	answer := func(o Outcome, v int) {
		l.c.Signal("a", Signal{N: 1, Received: l.now}, l.now)
		r, ok := l.c.NextRead(8)
		if !ok || r.URI != "a" {
			t.Fatal("no read was queued")
		}
		l.c.Answer(r, o, Content{Digest: digestOf(v)}, l.now)
		l.run(3 * time.Second)
	}
	answer(Missing, 0)
	answer(Missing, 0)
	if n := len(l.events["a"]); n != 2 || !l.last("a").gone {
		t.Fatalf("got %+v, want each announcement answered with its absence", l.events["a"])
	}
	answer(OK, 7)
	if got := l.last("a"); got.gone || got.value != 7 {
		t.Errorf("after its return: %+v", got)
	}
}

// properties checks a random schedule of changes, announcements, slow and failing reads, and
// suspensions against the promises of the tracker.
func properties(t *rapid.T) {
	l := newLab(true)
	uris := []string{"a", "b", "c"}
	l.follow(uris...)
	rtts := rapid.SampledFrom([]time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 1900 * time.Millisecond, 2500 * time.Millisecond})
	l.rtt = func() time.Duration { return rtts.Draw(t, "rtt") }
	flaky := rapid.Bool().Draw(t, "flaky")
	l.fail = func() bool { return flaky && rapid.IntRange(0, 4).Draw(t, "fail") == 0 }
	pauses := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 50 * time.Millisecond, 240 * time.Millisecond, time.Second, 1990 * time.Millisecond, 3 * time.Second})
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		uri := rapid.SampledFrom(uris).Draw(t, "uri")
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0:
			l.announce(uri, rapid.IntRange(1, 3).Draw(t, "n")) // without a change
		case 1:
			l.c.Suspend()
			l.truth[uri]++ // while no notification could arrive
			l.run(pauses.Draw(t, "away"))
			if rapid.Bool().Draw(t, "routine") { // a read that begins before the subscription does
				l.c.CheckAll(Resync)
				l.launch()
				l.run(pauses.Draw(t, "still away"))
				l.truth[uri]++
			}
			l.c.CompareAll()
			l.launch()
		default:
			l.change(uri, rapid.IntRange(1, 3).Draw(t, "n"))
		}
		l.run(pauses.Draw(t, "pause"))
	}
	l.fail = func() bool { return false }
	l.rtt = func() time.Duration { return 20 * time.Millisecond }
	// Quiet: the window, the wait after failed reads, and one read.
	l.run(2*maxRetryWait + 5*time.Second)

	for _, uri := range uris {
		got := l.events[uri]
		if len(got) == 0 {
			if l.truth[uri] != 0 {
				t.Fatalf("%s changed and nothing was published", uri)
			}
			continue
		}
		if last := got[len(got)-1]; !last.read || last.value != l.truth[uri] { // converge
			t.Fatalf("%s: the last event is %+v, the content is %d", uri, last, l.truth[uri])
		}
		value := -1
		for _, e := range got { // order
			if e.read && e.value < value {
				t.Fatalf("%s: content %d published after %d", uri, e.value, value)
			}
			if e.read {
				value = e.value
			}
		}
	}
	c := l.c.Counts() // conserve
	if c.Signals != l.signals || c.Signals != c.Led+c.Folded+c.Unknown {
		t.Fatalf("%d signals were sent; counted %+v", l.signals, c)
	}
	if len(l.c.timers.heap) != 0 || l.c.Busy() {
		t.Fatalf("not idle after a long quiet: %d timers", len(l.c.timers.heap))
	}
}

func TestProperties(t *testing.T) { rapid.Check(t, properties) }

// TestRateAndLatency checks schedules without suspensions and failures, which publish immediately.
func TestRateAndLatency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLab(true)
		l.follow("a")
		pauses := rapid.SampledFrom([]time.Duration{0, time.Millisecond, 300 * time.Millisecond, 1990 * time.Millisecond, 4 * time.Second})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			idle, before := !l.c.keys["a"].open, len(l.events["a"])
			l.change("a", 1)
			if pause := pauses.Draw(t, "pause"); pause >= 50*time.Millisecond || !idle {
				l.run(pause)
			} else {
				l.run(50 * time.Millisecond)
			}
			if idle && len(l.events["a"]) == before {
				t.Fatal("a change of an idle resource was not published within its read and 50 ms")
			}
		}
		l.run(10 * time.Second)
		for i, e := range l.events["a"][1:] {
			if gap := e.at.Sub(l.events["a"][i].at); gap < 1900*time.Millisecond {
				t.Fatalf("events %s apart", gap)
			}
		}
	})
}

func TestConstantChangesGiveOneEventPerWindow(t *testing.T) {
	l := newLab(true)
	l.follow("a")
	for range 60_000 { // 1,000/s for 60 s
		l.change("a", 1)
		l.run(time.Millisecond)
	}
	l.run(5 * time.Second)
	if n := len(l.events["a"]); n > 31 {
		t.Errorf("%d events in 60 s, want at most 31", n)
	}
	if got := l.last("a"); got.value != l.truth["a"]&0xFFFF {
		t.Errorf("the last event says %d, the content is %d", got.value, l.truth["a"])
	}
}

func TestUrgentReadsGoFirst(t *testing.T) {
	l := newLab(true)
	for i := range 100 {
		l.c.Add(fmt.Sprint("r", i), event.Descriptor{})
	}
	l.c.CompareAll()
	l.launch()
	if got := l.c.reads.inFlight; got != [2]int{0, 4} {
		t.Fatalf("reads in flight %v, want half the slots for comparing", got)
	}
	waiting := "r0"
	for uri, k := range l.c.keys {
		if !k.inFlight {
			waiting = uri
		}
	}
	l.c.Signal(waiting, Signal{N: 1, Received: l.now}, l.now)
	if r, ok := l.c.NextRead(8); !ok || r.URI != waiting {
		t.Errorf("the next read is %v, want the announced resource", r)
	}
}

// An unannounced change while a read is in flight is found by the check that follows: the answer of
// that read, which may be older, does not count as the check.
func TestCheckDuringAReadReadsAgain(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*lab){
		"leading read": func(l *lab) { l.change("a", 1) },
		"comparison":   func(l *lab) { l.c.Check("a", Resync) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(true)
			l.follow("a")
			l.rtt = func() time.Duration { return 100 * time.Millisecond }
			begin(l)
			l.launch()
			l.run(80 * time.Millisecond) // the server has read it and sent the answer
			l.truth["a"] += 10
			l.c.CheckNext(1, Resync)
			l.launch()
			l.run(5 * time.Second)
			if got := l.events["a"]; len(got) == 0 || got[len(got)-1].value != l.truth["a"] {
				t.Errorf("%+v, want the last to be %d", got, l.truth["a"])
			}
		})
	}
}
