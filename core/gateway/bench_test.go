package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// quickAnswer answers a message immediately, as a legacy server. It returns nil for a notification.
func quickAnswer(message []byte) []byte {
	var q struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal(message, &q) != nil || q.ID == nil {
		return nil
	}
	result := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"quick","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"dig","inputSchema":{"type":"object"}}]}`,
		"tools/call": `{"content":[{"type":"text","text":"` + strings.Repeat("x", 500) + `"}]}`,
	}[q.Method]
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}

// quickServer serves quickAnswer over HTTP.
func quickServer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	answer := quickAnswer(body)
	if answer == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

// pipes returns the ends of two OS pipes.
func pipes(b *testing.B) (in io.ReadCloser, toPeer io.WriteCloser, peerIn io.ReadCloser, fromPeer io.WriteCloser) {
	b.Helper()
	peerIn, toPeer, err1 := os.Pipe()
	in, fromPeer, err2 := os.Pipe()
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	return in, toPeer, peerIn, fromPeer
}

// BenchmarkCallOverPipes makes tool calls of a legacy client through the gateway to a server, both over pipes.
func BenchmarkCallOverPipes(b *testing.B) {
	legacy := sessiontest.Entry("quick")
	legacy.Protocol = config.ProtocolLegacy
	o := newOutside(b, Options{Dial: func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		in, to, peerIn, out := pipes(b)
		go func() {
			defer out.Close()
			for lines := bufio.NewScanner(peerIn); lines.Scan(); {
				if answer := quickAnswer(lines.Bytes()); answer != nil {
					_, _ = out.Write(append(answer, '\n'))
				}
			}
		}()
		return session.OverIO(ctx, in, to, srv, opts)
	}}, legacy)
	in, to, peerIn, out := pipes(b)
	defer to.Close()
	go func() { _ = o.gateway.Server().ServeIO(b.Context(), peerIn, out) }()
	lines := bufio.NewScanner(in)
	ask := func(request string) {
		if _, err := io.WriteString(to, request+"\n"); err != nil || !lines.Scan() || !bytes.Contains(lines.Bytes(), []byte(`"result"`)) {
			b.Fatalf("%s %v", lines.Bytes(), err)
		}
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"bench","version":"1"}}}`)
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"dig","arguments":{"text":"hello"}}}`
	ask(call) // opens the client's session
	b.ReportAllocs()
	for b.Loop() {
		ask(call)
	}
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
