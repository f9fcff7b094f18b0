package session_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"testing"

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
