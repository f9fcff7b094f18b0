package realtime

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// Temporary errors are retried with backoff. Like a rejected message, one that was abandoned is not sent by the next run.
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
			if len(r.injected()) != 1 || len(r.failed()) != 1 || tries != attempts || r.Progress().Cursor != event.FormatID("00000000000000aa", 2) {
				t.Errorf("%s: %d receipts, %+v, %d attempts, %+v", code, len(r.injected()), r.failed(), tries, r.Progress())
			}
			r.Offer(update(3, "file:///bad", time.Now()))
			time.Sleep(time.Minute)
		})
	}
}
