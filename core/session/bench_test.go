package session_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// BenchmarkNotification measures one resources/updated from the server to the session's signals: in
// this process over an OS pipe, and from a child process, whose stdout is also searched for lines
// that are not messages. The allocations are the client's.
func BenchmarkNotification(b *testing.B) {
	b.Run("pipe", func(b *testing.B) {
		in, toServer, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		fromServer, out, err := os.Pipe()
		if err != nil {
			b.Fatal(err)
		}
		go flood(in, out)
		s, err := session.OverIO(b.Context(), fromServer, toServer, config.Server{}, session.Options{})
		if err != nil {
			b.Fatal(err)
		}
		benchmarkFlood(b, s)
	})
	b.Run("process", func(b *testing.B) {
		exe, err := os.Executable()
		if err != nil {
			b.Fatal(err)
		}
		entry := config.Server{Transport: config.TransportStdio, Program: config.Program{Command: exe, Env: map[string]config.Secret{serveKey: config.NewSecret("flood")}}}
		s, err := session.Dial(b.Context(), entry, session.Options{})
		if err != nil {
			b.Fatal(err)
		}
		benchmarkFlood(b, s)
	})
}

// benchmarkFlood takes the server's floods until each iteration had its update.
func benchmarkFlood(b *testing.B, s *session.Session) {
	defer s.Close()
	if _, err := s.Subscribe(context.Background(), session.Filter{URIs: floodURIs()}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= floodSize {
		if _, err := s.CallTool(context.Background(), "flood", nil); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if got := s.Signals().Take(); len(got.URIs) != len(floodURIs()) {
		b.Errorf("%d of %d URIs were signalled", len(got.URIs), len(floodURIs()))
	}
}

// floodSize is how many updates the benchmark's server sends per call, before the response.
const floodSize = 1000

func floodURIs() []string {
	uris := make([]string, 100)
	for i := range uris {
		uris[i] = fmt.Sprintf("test://resource/%d", i)
	}
	return uris
}

// flood is a server that costs as little as possible: it answers by rote.
func flood(in io.ReadCloser, out io.WriteCloser) {
	defer in.Close()
	defer out.Close()
	var updates []byte
	uris := floodURIs()
	for i := range floodSize {
		updates = fmt.Appendf(updates, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"%s"}}`+"\n", uris[i%len(uris)])
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		result := "{}"
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"flood","version":"1"}}`
		case "tools/call":
			_, _ = out.Write(updates)
		}
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, result)
	}
}

// BenchmarkSubscribe measures one request and its response with many in flight: resources of a
// child process are subscribed and unsubscribed. The allocations are the client's.
func BenchmarkSubscribe(b *testing.B) {
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	entry := config.Server{Transport: config.TransportStdio, Program: config.Program{Command: exe, Env: map[string]config.Secret{serveKey: config.NewSecret("flood")}}}
	s, err := session.Dial(b.Context(), entry, session.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	uris := make([]string, 1000)
	for i := range uris {
		uris[i] = fmt.Sprintf("test://resource/%d", i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= 2 * len(uris) {
		for _, f := range []session.Filter{{URIs: uris}, {}} {
			if _, err := s.Subscribe(b.Context(), f); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkHTTP measures requests over Streamable HTTP whose responses are JSON or an event stream: a call of
// a tool and a list of 1,000 tools. The server answers by rote, in the same process.
func BenchmarkHTTP(b *testing.B) {
	tools := make([]string, 1000)
	for i := range tools {
		tools[i] = fmt.Sprintf(`{"name":"tool-%d","description":"a tool that has a description of usual length, of two lines or so, with its method","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"method":{"type":"string","description":"what to do"}},"required":["path"]}}`, i)
	}
	results := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"rote","version":"1"}}`,
		"tools/call": `{"content":[{"type":"text","text":"done"}]}`,
		"tools/list": `{"tools":[` + strings.Join(tools, ",") + `]}`,
	}
	for _, kind := range []string{"application/json", "text/event-stream"} {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var m struct {
				ID     json.RawMessage
				Method string
			}
			switch err := json.Unmarshal(body, &m); {
			case r.Method != http.MethodPost || err != nil:
				w.WriteHeader(http.StatusMethodNotAllowed)
			case m.ID == nil:
				w.WriteHeader(http.StatusAccepted)
			default:
				w.Header().Set("Content-Type", kind)
				answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, results[m.Method])
				if kind != "application/json" {
					answer = "event: message\ndata: " + answer + "\n\n"
				}
				_, _ = io.WriteString(w, answer)
			}
		}))
		defer ts.Close()
		s, err := session.Dial(b.Context(), httpEntry(ts.URL), session.Options{Era: session.EraLegacy})
		if err != nil {
			b.Fatal(err)
		}
		defer s.Close()
		b.Run("call "+kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.CallTool(context.Background(), "x", nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("list "+kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if list, err := s.List(context.Background(), catalog.Tools); err != nil || len(list) != len(tools) {
					b.Fatal(err)
				}
			}
		})
	}
}
