package realtime

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// With the default limits, the updates of 200 resources that change every second are in the
// conversation within 3 s of the oldest update that a message covers, and no item has a resource
// twice.
func TestManyResourcesWithinThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, &realtimetest.Endpoint{}, func(o *SessionOptions) { o.Delivery.Queue = QueueOptions{} })
		synctest.Wait()
		const resources, seconds = 200, 60
		n := uint64(0)
		for range seconds {
			for i := range resources {
				n++
				r.Offer(update(n, fmt.Sprintf("file:///%d", i), time.Now()))
				time.Sleep(time.Second / resources)
			}
		}
		time.Sleep(5 * time.Second)
		var latencies []time.Duration
		covered := 0
		for _, x := range r.injected() {
			latencies = append(latencies, x.Latency)
			covered += 1 + x.Merged
		}
		slices.Sort(latencies)
		if p99 := latencies[len(latencies)*99/100]; p99 > 3*time.Second {
			t.Errorf("p99 is %v, the worst %v", p99, latencies[len(latencies)-1])
		}
		if covered != resources*seconds {
			t.Errorf("the messages cover %d updates, want %d", covered, resources*seconds)
		}
		items := r.far.Items()
		if most := 5 + seconds/2 + 3; len(items) > most {
			t.Errorf("%d items, want at most %d", len(items), most)
		}
		for _, it := range items {
			about := map[string]bool{}
			for _, text := range it.Texts {
				uri, _, _ := strings.Cut(text, " updated")
				if about[uri] {
					t.Fatalf("%s appears twice in an item", uri)
				}
				about[uri] = true
			}
		}
	})
}

// The receipt of each message has the item ID and the number of merged updates.
func TestReceiptsOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, &realtimetest.Endpoint{}, func(o *SessionOptions) { o.Delivery.Queue = QueueOptions{Window: -1, Every: time.Minute, Burst: 1} })
		synctest.Wait()
		r.Offer(update(1, "file:///first", time.Now()))
		synctest.Wait()
		for i, uri := range []string{"file:///a", "file:///b", "file:///a"} {
			r.Offer(update(uint64(i+2), uri, time.Now()))
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		got, items := r.injected(), r.far.Items()
		if len(got) != 3 || len(items) != 2 || got[1].ItemID != items[1].ID || got[2].ItemID != items[1].ID {
			t.Fatalf("receipts %+v, items %+v", got, items)
		}
		if a := got[1]; a.ResourceURI != "file:///a" || a.EventID != event.FormatID("00000000000000aa", 4) || a.Merged != 1 || a.Latency != time.Minute {
			t.Errorf("%+v", a)
		}
	})
}

// Two injectors that track the same servers announce the same content once. When a content returns
// later, it is announced again.
func TestTwoInjectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := map[string]time.Time{}
		shared := func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
			if _, twice := known[it.ID]; twice {
				c.Fail(it.EventID, "item_already_exists", "")
				return
			}
			known[it.ID] = time.Now()
			c.Acknowledge("conversation.item.added", it.ID)
		}
		// Each has its own event IDs.
		start := func() *rig {
			return begin(t, &realtimetest.Endpoint{Create: shared}, func(o *SessionOptions) { o.Delivery.Message.ByContent = true })
		}
		state := func(epoch string, n uint64, digest byte) *event.Event {
			e := update(n, "file:///a", time.Now())
			e.ID = event.FormatID(epoch, n)
			e.Payload = event.ResourceUpdated{Digest: catalog.Digest{digest}}
			return e
		}
		until := func(what string, ok func() bool) {
			t.Helper()
			for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
				if synctest.Wait(); time.Since(began) > 5*time.Second {
					t.Fatalf("no %s", what)
				}
			}
		}
		a, b := start(), start()
		a.Offer(state("aa", 1, 1))
		until("receipt of the first injector", func() bool { return len(a.injected()) == 1 })
		// The endpoint reports new items on all connections of a call.
		e := serverEvent{Type: "conversation.item.added"}
		e.Item.ID = a.injected()[0].ItemID
		b.conv.observe(e)
		b.Offer(state("bb", 7, 1))
		began := time.Now()
		until("receipt of the second injector", func() bool { return len(b.injected()) == 1 })
		t.Log(time.Since(began))
		synctest.Wait()
		if len(known) != 1 || len(b.injected()) != 1 {
			t.Errorf("%d items, receipts %+v", len(known), b.injected())
		}
		time.Sleep(time.Minute)
		a.Offer(state("aa", 2, 2))
		synctest.Wait()
		time.Sleep(time.Second)
		a.Offer(state("aa", 3, 1)) // the first content again
		synctest.Wait()
		if len(known) != 3 || len(a.injected()) != 3 {
			t.Errorf("%d items, receipts %+v", len(known), a.injected())
		}
	})
}

// Temporary errors are retried with backoff, and then left to the next run.
func TestTemporaryErrors(t *testing.T) {
	for code, attempts := range map[string]int{"rate_limit_exceeded": 3, "server_error": 3, "invalid_value": 1} {
		synctest.Test(t, func(t *testing.T) {
			good := 0
			r := begin(t, &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
				if strings.Contains(it.Texts[0], "bad") || good == 0 && code != "invalid_value" {
					good++
					c.Fail(it.EventID, code, "")
					return
				}
				c.Add(it)
			}}, nil)
			r.Pass(event.FormatID("00000000000000aa", 0))
			synctest.Wait()
			start := time.Now()
			r.Offer(update(1, "file:///good", start))
			time.Sleep(10 * time.Second)
			r.Offer(update(2, "file:///bad", time.Now()))
			time.Sleep(time.Minute)
			items := r.far.Items()
			tries := 0
			for _, it := range items {
				if strings.Contains(it.Texts[0], "bad") {
					tries++
				}
			}
			cursor := map[bool]uint64{true: 2, false: 1}[attempts == 1]
			if len(r.injected()) != 1 || len(r.failed()) != 1 || tries != attempts || r.Progress().Cursor != event.FormatID("00000000000000aa", cursor) {
				t.Errorf("%s: %d receipts, %+v, %d attempts, %+v", code, len(r.injected()), r.failed(), tries, r.Progress())
			}
			r.Offer(update(3, "file:///bad", time.Now()))
			time.Sleep(time.Minute)
		})
	}
}

// The content of a resource changes and quickly changes back. The last item in the conversation is
// about the last update, although an older item has the same content and the endpoint reported it
// twice, or its first answer is lost: that it rejects the repetition because of the older item does not
// mean that the last update was delivered.
func TestContentReturns(t *testing.T) {
	for name, c := range map[string]struct {
		digests []byte
		every   time.Duration
		lost    bool // the first answer to an item that exists
	}{"answered": {[]byte{1, 2, 1, 2}, 500 * time.Millisecond, false}, "lost": {[]byte{1, 2, 1}, time.Minute, true}} {
		synctest.Test(t, func(t *testing.T) {
			sent := map[string]int{}
			var items []string
			far := &realtimetest.Endpoint{Create: func(conn *realtimetest.Conn, it realtimetest.ReceivedItem) {
				switch sent[it.ID]++; {
				case sent[it.ID] == 1:
					items = append(items, it.Texts[0])
					conn.Acknowledge("conversation.item.added", it.ID)
					conn.Acknowledge("conversation.item.done", it.ID)
				case !c.lost || sent[it.ID] > 2:
					conn.Fail(it.EventID, "item_already_exists", "")
				}
			}}
			r := begin(t, far, func(o *SessionOptions) { o.Delivery.Message.ByContent = true })
			last := ""
			for i, digest := range c.digests {
				e := update(uint64(i)+1, "file:///a", time.Now())
				e.Payload = event.ResourceUpdated{Digest: catalog.Digest{digest}}
				last = Text(e.ResourceURI, e.ServerID, e.Timestamp)
				r.Offer(e)
				time.Sleep(c.every)
				synctest.Wait()
			}
			if len(items) != len(c.digests) || items[len(items)-1] != last || len(r.injected()) != len(c.digests) {
				t.Errorf("%s: %d receipts, items %q, last is %q", name, len(r.injected()), items, last)
			}
		})
	}
}
