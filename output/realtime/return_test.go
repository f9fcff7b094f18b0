package realtime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// The content of a resource changes and changes back within moments: the last item in the
// conversation is about the last update, although the conversation has an item of the same
// content, which the endpoint reported twice.
func TestContentReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := map[string]bool{}
		var items []string
		far := &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.Item) {
			if sent[it.ID] {
				c.Fail(it.EventID, "item_already_exists", "")
				return
			}
			sent[it.ID] = true
			items = append(items, it.Texts[0])
			c.Acknowledge("conversation.item.added", it.ID)
			c.Acknowledge("conversation.item.done", it.ID)
		}}
		r := begin(t, far, func(o *SessionOptions) { o.Delivery.Message.ByContent = true })
		last := ""
		for i, digest := range []byte{1, 2, 1, 2} {
			e := update(uint64(i)+1, "file:///a", time.Now())
			e.Payload = event.ResourceUpdated{Digest: catalog.Digest{digest}}
			last = Text(e.ResourceURI, e.ServerID, e.Timestamp)
			r.Offer(e)
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
		}
		if len(items) != 4 || items[len(items)-1] != last || len(r.injected()) != 4 {
			t.Errorf("%d receipts, items %q", len(r.injected()), items)
		}
	})
}

// The same, but the first answer is lost: the repetition is refused because of the older item, which
// is no delivery of the last update.
func TestContentReturnsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := map[string]int{}
		var items []string
		far := &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.Item) {
			sent[it.ID]++
			switch {
			case sent[it.ID] == 1:
				items = append(items, it.Texts[0])
				c.Acknowledge("conversation.item.added", it.ID)
			case sent[it.ID] > 2:
				c.Fail(it.EventID, "item_already_exists", "")
			}
		}}
		r := begin(t, far, func(o *SessionOptions) { o.Delivery.Message.ByContent = true })
		last := ""
		for i, digest := range []byte{1, 2, 1} {
			e := update(uint64(i)+1, "file:///a", time.Now())
			e.Payload = event.ResourceUpdated{Digest: catalog.Digest{digest}}
			last = Text(e.ResourceURI, e.ServerID, e.Timestamp)
			r.Offer(e)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if len(items) != 3 || items[len(items)-1] != last || len(r.injected()) != 3 {
			t.Errorf("%d receipts, items %q, last is %q", len(r.injected()), items, last)
		}
	})
}
