package session_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// BenchmarkSubscribe is the way of one request and its answer, many being in flight: resources
// of a child process are subscribed and unsubscribed. Allocations are those of the client.
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
