package wire

import (
	"fmt"
	"testing"
)

// TestSeenNotifications: the same text again is the same notification, without being
// decoded again; what is remembered is bounded, and nothing that only looks alike is
// taken for it.
func TestSeenNotifications(t *testing.T) { // not parallel: allocations are counted
	var got []Notification
	c := &Conn{cfg: Config{Handler: Handler{Notification: func(n *Notification) { got = append(got, *n); n.URI = "spoilt" }}}}
	var m scratch
	updated := func(uri, more string) []byte {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q%s}}`, uri, more)
	}
	for range 3 {
		for _, data := range [][]byte{
			updated("a", ""), updated("b", ""), updated("a", `,"_meta":{"io.modelcontextprotocol/subscriptionId":"1"}`),
			[]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`),
		} {
			if !c.receive(&m, data) {
				t.Fatalf("%s is left to the transport", data)
			}
		}
		if len(got) != 4 || got[0].URI != "a" || got[1].URI != "b" || got[2].URI != "a" || got[0].Meta.Subscription.Present ||
			got[2].Meta.Subscription.ID != "1" || got[3].Method != "notifications/tools/list_changed" || got[0].Method != "notifications/resources/updated" {
			t.Fatalf("%+v", got)
		}
		got = nil
	}
	again := updated("a", "")
	if n := testing.AllocsPerRun(100, func() { c.receive(&m, again); got = got[:0] }); n > 0 {
		t.Errorf("%v allocations for what was decoded before", n)
	}
	for i := range 10 * maxSeen {
		c.receive(&m, updated(fmt.Sprint(i), ""))
	}
	for _, data := range [][]byte{
		updated(fmt.Sprintf("%0*d", maxSeenSize, 1), ""),
		[]byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":1}}`),
		[]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":1}}`),
	} {
		c.receive(&m, data)
		if _, ok := m.seen[string(data)]; ok {
			t.Errorf("%.100s is remembered", data)
		}
	}
	if len(m.seen) != maxSeen {
		t.Errorf("%d are remembered", len(m.seen))
	}
}
