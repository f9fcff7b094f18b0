package webhook

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/records"
)

// A failing delivery is attempted five times within 12 minutes, under the same ID. Then the endpoint
// gets a gap message, and the next refresh reports the gap.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		defer w.end()
		w.subscribe(params(hook, oneSecret))
		w.to.set(func(r received) int {
			if r.kind() == "event" && len(w.to.got) < 7 { // the challenge came first
				return 503
			}
			return 204
		})
		id := w.log.add("file:///a")
		time.Sleep(20 * time.Minute)
		tries := w.to.all("event")
		if len(tries) != 5 {
			t.Fatalf("%d attempts", len(tries))
		}
		for i, want := range schedule()[1:] {
			if wait := tries[i+1].at.Sub(tries[i].at); wait < want*8/10 || wait > want*12/10 || tries[i+1].id != id {
				t.Errorf("attempt %d of %s after %v, want %v", i+2, tries[i+1].id, wait, want)
			}
		}
		gaps := w.to.all("gap")
		if len(gaps) != 1 || gaps[0].body["cursor"] != id {
			t.Fatalf("%+v", gaps)
		}
		next := w.log.add("file:///b")
		time.Sleep(time.Second)
		if got := w.to.ids(); got[len(got)-1] != next {
			t.Errorf("%v", got)
		}
		if again := w.subscribe(params(hook, oneSecret)); !again.Truncated || again.Cursor != next {
			t.Errorf("the refresh does not report the gap: %+v", again)
		}
		if again := w.subscribe(params(hook, oneSecret)); again.Truncated {
			t.Error("the gap was reported twice")
		}
	})
}

// The statuses 410 and 413 drop the event: no retry, no gap, and the subscription stays active.
func TestDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		defer w.end()
		w.subscribe(params(hook, oneSecret))
		w.to.set(func(received) int { return 410 })
		for i := range 200 {
			w.log.add(fmt.Sprint("file:///", i))
		}
		time.Sleep(20 * time.Minute)
		if st := w.Stats(); len(w.to.ids()) != 200 || st.Dropped != 200 || st.Active != 1 || len(w.to.all("gap")) != 0 {
			t.Errorf("%d attempts, %+v", len(w.to.ids()), st)
		}
	})
}

// Retry-After is honoured.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		defer w.end()
		w.subscribe(params(hook, oneSecret))
		w.to.retry = "60"
		w.to.set(func(received) int {
			if len(w.to.got) == 2 {
				return 429
			}
			return 204
		})
		w.log.add("file:///a")
		time.Sleep(5 * time.Minute)
		if got := w.to.all("event"); len(got) != 2 || got[1].at.Sub(got[0].at) < time.Minute {
			t.Errorf("%+v", got)
		}
	})
}

// A receiver that is down for ten minutes gets all events that are not abandoned, and a gap message
// for the rest.
func TestReceiverDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		defer w.end()
		w.subscribe(params(hook, oneSecret))
		up := time.Now().Add(10 * time.Minute)
		w.to.set(func(received) int {
			if time.Now().Before(up) {
				return 503
			}
			return 204
		})
		var want []string
		for i := range 60 {
			want = append(want, w.log.add(fmt.Sprint("file:///", i)))
			time.Sleep(10 * time.Second)
		}
		time.Sleep(time.Hour)
		var got []string
		for _, r := range w.to.all("event") {
			if !r.at.Before(up) {
				got = append(got, r.id)
			}
		}
		missing := slices.DeleteFunc(want, func(id string) bool { return slices.Contains(got, id) })
		if len(missing) > maxConcurrent || len(missing) > 0 && len(w.to.all("gap")) == 0 {
			t.Errorf("%v were not accepted, %d gaps", missing, len(w.to.all("gap")))
		}
	})
}

// Nothing is sent after a subscription expires, and a new subscription begins at its cursor.
func TestExpiry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		defer w.end()
		sub := w.subscribe(params(hook, oneSecret, `,"ttlMs":60000`))
		first := w.log.add("file:///a")
		time.Sleep(59 * time.Second)
		w.to.set(func(received) int { return 503 })
		w.log.add("file:///b")
		time.Sleep(10 * time.Minute)
		for _, r := range w.to.all("") {
			if r.at.After(*sub.RefreshBefore) {
				t.Errorf("%s after the end", r.kind())
			}
		}
		if st := w.Stats(); st.Active != 0 {
			t.Errorf("%+v", st)
		}
		w.to.set(nil)
		w.log.add("file:///c")
		again := w.subscribe(`{"name":"resource.updated","delivery":{"url":"` + hook + `","secret":"` + oneSecret + `"},"cursor":"` + first + `"}`)
		if again.ID != sub.ID || again.Cursor != first || again.Truncated || again.DeliveryStatus != nil {
			t.Errorf("%+v", again)
		}
		time.Sleep(time.Second)
		if got := w.to.ids(); len(got) < 2 || !slices.Equal(slices.Sorted(slices.Values(got[len(got)-2:])), []string{w.log.id(2), w.log.id(3)}) {
			t.Errorf("%v", got)
		}
	})
}

// A subscription is suspended until its refresh if nearly all deliveries fail.
func TestSuspension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		defer w.end()
		w.subscribe(params(hook, oneSecret))
		w.to.set(func(received) int { return 500 })
		for i := range 100 {
			w.log.add(fmt.Sprint("file:///", i))
		}
		time.Sleep(2 * time.Hour)
		attempts := len(w.to.ids())
		if st := w.Stats(); st.Suspended != 1 || attempts < 100 || attempts > 110 {
			t.Fatalf("%+v after %d attempts", st, attempts)
		}
		w.to.set(nil)
		again := w.subscribe(params(hook, oneSecret))
		if again.DeliveryStatus.Active || *again.DeliveryStatus.LastError != string(HTTP5xx) {
			t.Errorf("%+v", again.DeliveryStatus)
		}
		last := w.log.add("file:///last")
		time.Sleep(time.Minute)
		if st := w.Stats(); st.Suspended != 0 || !slices.Contains(w.to.ids(), last) {
			t.Errorf("%+v", st)
		}
	})
}

// Missing events are reported once, before the events after them.
func TestGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, &testLog{journal.NewMemory(journal.MemoryOptions{Keep: 1}), must(records.Open(""))}, newReceiver(t), Options{})
		w.subscribe(params(hook, oneSecret))
		time.Sleep(answerWait)
		w.end()
		for range 3 {
			w.log.add("file:///a")
		}
		again := newWorldOn(t, w.log, w.to, Options{})
		defer again.end()
		time.Sleep(time.Second)
		next := w.log.add("file:///b")
		time.Sleep(time.Second)
		got := w.to.all("")[1:]
		if len(got) != 3 || got[0].kind() != "gap" || got[0].body["cursor"] != w.log.id(2) || got[1].id != w.log.id(3) || got[2].id != next {
			t.Errorf("%+v", got)
		}
	})
}

// After any sequence of failures, restarts and refreshes, every event was delivered, or a gap
// message was sent.
func TestNothingIsLostSilently(t *testing.T) {
	t.Parallel()
	seeds := uint64(200)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			log, to := newTestLog(), newReceiver(t)
			w := newWorldOn(t, log, to, Options{})
			w.subscribe(params(hook, oneSecret))
			answers := rand.New(rand.NewPCG(seed, 1))
			taken := map[string]bool{} // guarded by the receiver
			answer := func(r received) int {
				status := []int{204, 204, 500, 503, 410, 301}[answers.IntN(6)]
				if r.kind() == "event" && status != 500 && status != 503 && status != 301 {
					taken[r.id] = true
				}
				return status
			}
			to.set(answer)
			var want []string
			for range 200 {
				switch random.IntN(12) {
				case 0:
					w.end()
					w = newWorldOn(t, log, to, Options{})
				case 1:
					if _, err := w.ask(mcp.MethodSubscribeEvents, "chat", params(hook, oneSecret)); err != nil {
						t.Fatal(err)
					}
				case 2:
					time.Sleep(time.Duration(random.IntN(200)) * time.Second)
				default:
					want = append(want, log.add("file:///a"))
				}
			}
			to.set(func(r received) int {
				if r.kind() == "event" {
					taken[r.id] = true
				}
				return 204
			})
			time.Sleep(2 * time.Hour)
			w.end()
			missing := slices.DeleteFunc(want, func(id string) bool { return taken[id] })
			if len(missing) > 0 && len(to.all("gap")) == 0 {
				t.Errorf("seed %d: %v were not accepted, and no gap was sent", seed, missing)
			}
			if len(missing) > len(taken)/2 {
				t.Errorf("seed %d: %d of %d were not accepted", seed, len(missing), len(taken))
			}
		})
	}
}

// lose stores a gap of one event.
func (l *testLog) lose() {
	last := l.Last()
	l.Publish(event.Event{Timestamp: time.Now(), Payload: event.Gap{From: l.id(last), To: l.id(last + 1), Reason: journal.ReasonDamaged}})
}

// A gap message that was being sent when the process ended is sent by the next process: the
// watermark is already past the missing events.
func TestGapOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	abandoned := func(log *testLog) {
		log.add("file:///a")
		time.Sleep(10 * time.Second) // some attempts fail
	}
	lost := func(log *testLog) { log.lose() }
	for name, miss := range map[string]func(*testLog){"abandoned": abandoned, "lost": lost} {
		for _, kind := range []string{"subscription", "config"} {
			if kind == "config" && name == "abandoned" {
				continue // see TestHookGap
			}
			t.Run(name+" by a "+kind, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					log, to := newTestLog(), newReceiver(t)
					begin := func() (end func()) {
						if kind == "config" {
							return newWebhooksWorld(t, log, to, standard(hook)).end
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
					time.Sleep(time.Second) // before the second attempt
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

// New missing events are reported even if a killed process had answered with a count of missing
// events that it had not stored.
func TestMissedIsReportedAfterACountIsLost(t *testing.T) {
	t.Parallel()
	s, err := New(t.Context(), Options{Log: newTestLog(), Records: recordsOf(newTestLog())})
	if err != nil {
		t.Fatal(err)
	}
	e := &endpoint{sub: &record{Told: 2}, progress: progress{Missed: 1}}
	e.normalizeLocked()
	s.missedLocked(e)
	if e.Missed <= e.sub.Told {
		t.Errorf("missed %d, reported %d", e.Missed, e.sub.Told)
	}
}
