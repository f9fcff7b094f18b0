package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
)

// quickServer is a legacy server over HTTP that answers immediately.
func quickServer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var q struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal(body, &q) != nil || q.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"quick","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"dig","inputSchema":{"type":"object"}}]}`,
		"tools/call": `{"content":[{"type":"text","text":"` + strings.Repeat("x", 500) + `"}]}`,
	}[q.Method]
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

// BenchmarkCall makes tool calls over HTTP directly and through the gateway, in turns so that both see
// the same machine, and reports the percentiles of the direct calls and what the gateway adds to them.
func BenchmarkCall(b *testing.B) {
	direct := httptest.NewServer(http.HandlerFunc(quickServer))
	defer direct.Close()
	o := newOutside(b, Options{}, config.Server{ID: "quick", Enabled: true, Transport: config.TransportHTTP, Protocol: config.ProtocolLegacy,
		URL: config.NewSecret(direct.URL), Tracking: config.Tracking{TrackTools: true, PollInterval: time.Hour}})
	call := func(url string) float64 { // ms
		began := time.Now()
		q, _ := http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"dig","arguments":{"text":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)))
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "dig"} {
			q.Header.Set(name, value)
		}
		p, err := http.DefaultClient.Do(q)
		if err != nil {
			b.Fatal(err)
		}
		body, err := io.ReadAll(p.Body)
		_ = p.Body.Close()
		if err != nil || !bytes.Contains(body, []byte("xxx")) {
			b.Fatalf("%s %v", body, err)
		}
		return float64(time.Since(began)) / float64(time.Millisecond)
	}
	var took [2][]float64
	b.ReportAllocs()
	for b.Loop() {
		for i, url := range []string{direct.URL, o.url} {
			took[i] = append(took[i], call(url))
		}
	}
	for _, percent := range []int{50, 99} {
		at := len(took[0]) * percent / 100
		for i := range took {
			slices.Sort(took[i])
		}
		b.ReportMetric(took[0][at], fmt.Sprintf("p%d-direct-ms", percent))
		b.ReportMetric(took[1][at]-took[0][at], fmt.Sprintf("p%d-added-ms", percent))
	}
}
