package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// lose stores that an event went missing.
func (l *testLog) lose() {
	last := l.Last()
	l.Publish(event.Event{Timestamp: time.Now(), Payload: event.Gap{From: l.id(last), To: l.id(last + 1), Reason: journal.ReasonDamaged}})
}

// A gap message that was being sent when the process ended is sent by the next one: the
// watermark is already behind the events that are missing.
func TestGapOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	givenUp := func(log *testLog) {
		log.add("file:///a")
		time.Sleep(10 * time.Second) // after attempts that fail
	}
	lost := func(log *testLog) { log.lose() }
	for name, miss := range map[string]func(*testLog){"given up": givenUp, "lost": lost} {
		for _, kind := range []string{"subscription", "config"} {
			t.Run(name+" by a "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					log, to := newTestLog(), newReceiver(t)
					begin := func() (end func()) {
						if kind == "config" {
							return newHooksWorld(t, log, to, standard(hook)).end
						}
						w := newWorldOn(t, log, to, Options{})
						if len(to.all("")) == 0 {
							w.subscribe(params(hook, oneSecret))
						}
						return w.end
					}
					end := begin()
					time.Sleep(time.Second)
					to.set(func(received) int { return 503 })
					miss(log)
					for len(to.all("gap")) == 0 {
						time.Sleep(100 * time.Millisecond)
					}
					time.Sleep(time.Second) // within the wait before the second attempt
					end()
					tried := len(to.all("gap"))
					to.set(nil)
					end = begin()
					time.Sleep(time.Minute)
					end()
					if got := len(to.all("gap")) - tried; tried != 1 || got != 1 {
						t.Errorf("%d gap messages before the restart and %d after it", tried, got)
					}
				})
			})
		}
	}
}

// What goes missing after a process was killed that had said so in an answer, but had not
// stored the count, is said in the next one.
func TestMissedIsToldAfterACountIsLost(t *testing.T) {
	t.Parallel()
	s, err := New(t.Context(), Options{Log: newTestLog()})
	if err != nil {
		t.Fatal(err)
	}
	sub := &subscription{record: record{Told: 2, progress: progress{Missed: 1}}}
	s.missedLocked(sub)
	if !sub.truncated() {
		t.Errorf("missed %d, told %d", sub.Missed, sub.Told)
	}
}
