package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

func large(tools, size int) (c mcpserver.Catalog) {
	pad := strings.Repeat("x", size)
	for i := range tools {
		c.Tools = append(c.Tools, object(`{"name":"tool-%05d","description":%q,"inputSchema":{"type":"object"}}`, i, pad))
	}
	return c
}

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

// BenchmarkCallStdio is the same over pipes.
func BenchmarkCallStdio(b *testing.B) {
	h := newNoteServer(mcpserver.Options{})
	defer h.Close()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() { _ = h.ServeIO(context.Background(), inR, outW) }()
	out := json.NewDecoder(outR)
	body := []byte(call("echo", ","+metaModern) + "\n")
	for b.Loop() {
		_, _ = inW.Write(body)
		var m json.RawMessage
		if err := out.Decode(&m); err != nil {
			b.Fatal(err)
		}
	}
	_ = inW.Close()
}

// BenchmarkList10000 walks a list of 10,000 tools of 1 KB over HTTP.
func BenchmarkList10000(b *testing.B) {
	h := newNoteServer(mcpserver.Options{})
	url := h.over(b).URL
	h.SetCatalog(large(10_000, 1000))
	for b.Loop() {
		for cursor := ""; ; {
			params := metaModern
			if cursor != "" {
				params += fmt.Sprintf(`,"cursor":%q`, cursor)
			}
			r, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, url,
				strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+params+`}}`))
			r.Header = http.Header{"Content-Type": {"application/json"}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/list"}}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			page, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			_, after, more := bytes.Cut(page, []byte(`"nextCursor":"`))
			if !more {
				break
			}
			next, _, _ := bytes.Cut(after, []byte(`"`))
			cursor = string(next)
		}
	}
}

// BenchmarkSetCatalog swaps in 10,000 tools of which one changed.
func BenchmarkSetCatalog(b *testing.B) {
	s := mcpserver.New(mcpserver.Options{})
	defer s.Close()
	c := large(10_000, 1000)
	for i := 0; b.Loop(); i++ {
		next := mcpserver.Catalog{Tools: append([]json.RawMessage(nil), c.Tools...)}
		next.Tools[5000] = object(`{"name":"%d"}`, i)
		s.SetCatalog(next)
	}
}
