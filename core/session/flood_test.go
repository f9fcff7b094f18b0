package session

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

const updatedLine = `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"test://5"}}`

func subscribed(n int) *Signals {
	g := newSignals(20_000, false)
	var f Filter
	for i := range n {
		f.URIs = append(f.URIs, fmt.Sprintf("test://%d", i))
	}
	g.setWanted(wantedOf(f))
	return g
}

// A flood of signals for known keys must not allocate: it would be the decoder's
// garbage twice.
func TestSignalDoesNotAllocate(t *testing.T) {
	g := subscribed(1000)
	var n mcp.JSONRPCNotification
	if err := json.Unmarshal([]byte(updatedLine), &n); err != nil {
		t.Fatal(err)
	}
	g.notify(n, false)
	if got := testing.AllocsPerRun(1000, func() { g.notify(n, false) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkNotify(b *testing.B) {
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var n mcp.JSONRPCNotification
			_ = json.Unmarshal([]byte(updatedLine), &n)
		}
	})
	b.Run("fold", func(b *testing.B) {
		b.ReportAllocs()
		g := subscribed(1000)
		var n mcp.JSONRPCNotification
		_ = json.Unmarshal([]byte(updatedLine), &n)
		for b.Loop() {
			g.notify(n, false)
		}
	})
	b.Run("fold unsubscribed", func(b *testing.B) {
		b.ReportAllocs()
		g := subscribed(1000)
		n := mcp.JSONRPCNotification{}
		_ = json.Unmarshal([]byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"other://a/b/c/d/e/f"}}`), &n)
		for b.Loop() {
			g.notify(n, false)
		}
	})
}
