package realtime

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mcptrack/mcptrack/core/event"
)

func message(n uint64, uri string, at time.Time) Message {
	m, _ := newMessage(update(n, uri, at), MessageOptions{})
	return m
}

// takeOne takes one message.
func (q *queue) takeOne(now time.Time) *pending {
	batch, _ := q.take(now, limits{messages: 1})
	if len(batch) == 0 {
		return nil
	}
	return batch[0]
}

// The trace of a queue: when messages are offered, and when they are taken.
func TestQueueMerges(t *testing.T) {
	start := time.Unix(1000, 0)
	q := newQueue(QueueOptions{Every: -1})
	var got []string
	offers := map[int]string{0: "a", 100: "a", 200: "a", 300: "b", 1900: "a", 5000: "a", 5100: "a", 9000: "b"}
	n := uint64(0)
	for ms := 0; ms <= 12_000; ms += 100 {
		now := start.Add(time.Duration(ms) * time.Millisecond)
		if uri, ok := offers[ms]; ok {
			n++
			q.offer(message(n, uri, now), now)
		}
		for p := q.takeOne(now); p != nil; p = q.takeOne(now) {
			got = append(got, fmt.Sprintf("%d:%s%d", ms, p.ResourceURI, p.Timestamp.Sub(start).Milliseconds()))
		}
	}
	// The leading update immediately, trailing ones at the end of the window with the newest state.
	want := []string{"0:a0", "300:b300", "2000:a1900", "5000:a5000", "7000:a5100", "9000:b9000"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if q.merged != 2 {
		t.Errorf("%d merged", q.merged)
	}
}

// Updates that happened during an outage arrive late, and make one message per resource. A resource
// that keeps changing delays its message for a limited time.
func TestQueueSettles(t *testing.T) {
	start := time.Unix(1000, 0)
	q := newQueue(QueueOptions{Every: -1, Window: -1})
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	var got []string
	n := uint64(0)
	for ms := 0; ms <= 10_000; ms += 50 {
		now := at(ms)
		offer := func(uri string, old time.Duration) {
			n++
			q.offer(message(n, uri, now.Add(-old)), now)
		}
		if ms <= 200 {
			offer("a", time.Hour)
			offer("fresh", 900*time.Millisecond)
		}
		if ms <= 5000 {
			offer("busy", time.Minute)
		}
		for p := q.takeOne(now); p != nil; p = q.takeOne(now) {
			got = append(got, fmt.Sprintf("%d:%s", ms, p.ResourceURI))
		}
	}
	want := []string{"0:fresh", "50:fresh", "100:fresh", "150:fresh", "200:fresh", "450:a", "2000:busy", "4050:busy", "5250:busy"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	q.hasten = true // the source has ended: nothing waits
	q.offer(message(n+1, "end", start), at(11_000))
	if q.takeOne(at(11_000)) == nil {
		t.Error("it waits for what will not come")
	}
}

// Within an epoch the IDs decide what is newer, whatever the clock does. Without IDs the timestamps
// decide.
func TestQueueRejectsUpdatesThatAreNotNewer(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		ids      []string
		after    []time.Duration
		accepted []bool
	}{
		"one epoch":   {[]string{"aa-5", "aa-5", "aa-4", "aa-6", "aa-8", "aa-9"}, []time.Duration{0, 0, time.Hour, -time.Hour, -time.Hour, -time.Minute}, []bool{true, false, false, true, false, true}},
		"a new epoch": {[]string{"aa-5", "bb-1", "bb-1", "bb-2"}, []time.Duration{0, -time.Hour, 0, -time.Minute}, []bool{true, true, false, true}},
		"no ids":      {make([]string, 6), []time.Duration{0, 0, -time.Second, time.Microsecond, time.Millisecond, 0}, []bool{true, false, false, false, true, false}},
	} {
		q := newQueue(QueueOptions{Every: -1, Window: -1})
		q.hasten = true
		for i, id := range c.ids {
			e := update(1, "a", now.Add(c.after[i]))
			e.ID = id
			m, _ := newMessage(e, MessageOptions{})
			if got := q.offer(m, now); got != c.accepted[i] {
				t.Errorf("%s, %d: accepted %t", name, i, got)
			}
			q.takeOne(now)
		}
		if last := c.ids[len(c.ids)-1]; q.cursor(nil) != last {
			t.Errorf("%s: cursor %s", name, q.cursor(nil))
		}
	}
}

// The limits hold. The oldest waiting message is dropped and counted.
func TestQueueBounds(t *testing.T) {
	now := time.Unix(1000, 0)
	q := newQueue(QueueOptions{MaxPending: 10, Every: -1, Window: -1})
	for i := range 1000 {
		q.offer(message(uint64(i+1), fmt.Sprint(i), now), now)
		if len(q.waiting) > 10 || len(q.known) > 40 {
			t.Fatalf("%d waiting, %d known", len(q.waiting), len(q.known))
		}
	}
	var got []string
	for p := q.takeOne(now); p != nil; p = q.takeOne(now) {
		got = append(got, p.ResourceURI)
	}
	if q.dropped != 990 || len(got) != 10 || got[0] != "990" || got[9] != "999" {
		t.Errorf("%d dropped, %q", q.dropped, got)
	}
}

// Whenever a run ends, the next run, given the progress and the log after the cursor, sends the
// newest state of every resource exactly once, and nothing that is older or was delivered before.
func TestProgressNeitherRepeatsNorLoses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(1000, 0)
		log := make([]*event.Event, rapid.IntRange(1, 40).Draw(t, "events"))
		for i := range log {
			log[i] = update(uint64(i+1), rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "uri"), start.Add(time.Duration(i)*time.Second))
		}
		lang, _ := OpenAI.of("")
		delivered, newestSent := map[string]int{}, map[string]uint64{}
		var kept Progress
		for len(log) > 0 {
			c := newConversation("", lang, DeliveryOptions{Queue: QueueOptions{Window: time.Duration(rapid.IntRange(1, 10).Draw(t, "window")) * time.Second, Every: -1}})
			c.resumable = true
			c.queue.last = kept.Cursor
			c.progress = newHandledUpdates(kept)
			_, after, _ := event.ParseID(kept.Cursor)
			steps := rapid.IntRange(0, 60).Draw(t, "steps")
			now := start.Add(time.Duration(after) * time.Second)
			next := after
			whole := rapid.Bool().Draw(t, "to its end")
			for i := 0; i < steps || whole && (next < uint64(len(log)) || len(c.queue.waiting) > 0 || c.flight != nil); i++ {
				now = now.Add(500 * time.Millisecond)
				if rapid.Bool().Draw(t, "offer") && next < uint64(len(log)) {
					// Like Session.Offer, at a simulated time.
					m := message(next+1, log[next].ResourceURI, log[next].Timestamp)
					if c.progress.covers(&m) || !c.queue.offer(m, now) {
						c.queue.last = m.EventID
					}
					next++
				}
				frame, _, _ := c.step(now)
				switch {
				case frame == nil:
				case rapid.IntRange(0, 3).Draw(t, "ack") > 0:
					for _, p := range c.flight.batch {
						delivered[p.EventID]++
						if p.position().seq < newestSent[p.ResourceURI] {
							t.Errorf("%s was delivered after a newer one", p.EventID)
						}
						newestSent[p.ResourceURI] = max(newestSent[p.ResourceURI], p.position().seq)
					}
					c.delivered(c.flight, now)
				default:
					c.begin() // another connection
				}
			}
			c.mu.Lock()
			kept = c.progress.upTo(c.cursor())
			c.mu.Unlock()
			if whole {
				break
			}
		}
		newest := map[string]string{}
		for _, e := range log {
			newest[e.ResourceURI] = e.ID
		}
		for id, n := range delivered {
			if n > 1 {
				t.Errorf("%s was delivered %d times", id, n)
			}
		}
		for uri, id := range newest {
			if delivered[id] == 0 {
				t.Errorf("%s of %s was never delivered", id, uri)
			}
		}
	})
}
