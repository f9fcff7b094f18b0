package mcpserver_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// BenchmarkCall is one tools/call of the modern era over HTTP on loopback.
func BenchmarkCall(b *testing.B) {
	h := newNoteServer(mcpserver.Options{})
	url := h.over(b).URL
	body := []byte(call("echo", ","+metaModern))
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		r, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"echo"}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkFanOut notifies 500 HTTP listens of one update.
func BenchmarkFanOut(b *testing.B) {
	h := newNoteServer(mcpserver.Options{}, "a")
	url := h.over(b).URL
	const listens = 500
	received := make(chan struct{}, listens) // each reader sends once for an update
	for range listens {
		r, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, url,
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+metaModern+`,"notifications":{"resourceSubscriptions":["note:///a"]}}}`))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"subscriptions/listen"}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = resp.Body.Close() })
		go func() {
			for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
				if strings.HasPrefix(lines.Text(), "data:") {
					received <- struct{}{}
				}
			}
		}()
	}
	all := func() {
		for range listens {
			<-received
		}
	}
	all()
	for b.Loop() {
		h.Updated(note("a"))
		all()
	}
}
