package webhook

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// lose stores n events that nobody can read any more.
func (l *memoryLog) lose(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		seq := uint64(len(l.entries) + 1)
		l.entries = append(l.entries, journal.Entry{ID: event.FormatID(epoch, seq), Seq: seq, Stored: time.Now()})
	}
	l.first = uint64(len(l.entries) + 1)
	close(l.moved)
	l.moved = make(chan struct{})
}

// A gap message that was being sent when the process ended is sent by the next one: the
// watermark is already behind the events that are missing.
func TestGapOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	givenUp := func(log *memoryLog) {
		log.add("file:///a")
		time.Sleep(10 * time.Second) // after attempts that fail
	}
	lost := func(log *memoryLog) { log.lose(3) }
	for name, miss := range map[string]func(*memoryLog){"given up": givenUp, "lost": lost} {
		for _, kind := range []string{"subscription", "config"} {
			t.Run(name+" by a "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					log, to, file := newMemoryLog(), newReceiver(t), filepath.Join(t.TempDir(), "webhooks.json")
					begin := func() (end func()) {
						if kind == "config" {
							return newHooksWorld(t, log, to, file, standard(hook)).end
						}
						w := newWorldOn(t, log, to, Options{File: file})
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
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	sub := &subscription{record: record{Told: 2, progress: progress{Missed: 1}}}
	s.missedLocked(sub)
	if !sub.truncated() {
		t.Errorf("missed %d, told %d", sub.Missed, sub.Told)
	}
}
