package tracker

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A list that grows in every moment without a subscription, as often as one sync subscribes
// anew, is known to its end.
func TestListGrowsDuringInterruptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{Resync: 1000 * time.Hour})
		docs := w.Serve("docs", session.EraModern)
		docs.SetQuietly("file:///0", "text")
		var acks atomic.Int32
		last := ""
		tap := &sessiontest.Tap{Server: docs, Change: func(line string) string {
			// The first subscription is to lists only; each of the others replaces one.
			if n := acks.Load(); strings.Contains(line, mcp.NotificationAcknowledged) && acks.Add(1) > 1 && n <= maxInterruptions+1 {
				last = fmt.Sprintf("file:///%d", n)
				docs.SetQuietly(last, "text")
			}
			return line
		}}
		w.opts.Dial = tap.Dial
		w.start(sessiontest.Entry("docs"))
		w.pass(time.Minute)
		w.wantState("docs", event.Ready)
		st, _ := w.tracker.Snapshot().Server("docs")
		if n := len(st.Resources); n != maxInterruptions+2 {
			t.Errorf("%d resources are tracked, the last is %s; %d subscriptions", n, last, acks.Load())
		}
		w.stop()
		tap.Wait()
	})
}
