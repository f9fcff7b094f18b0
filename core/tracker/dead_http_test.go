package tracker

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// An HTTP server that dies enters Backoff as soon as resubscribing fails, long before the next
// ping. It is not mistaken for a server that does not push.
func TestDeadHTTPServerIsNoticedImmediately(t *testing.T) {
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			docs := sessiontest.New()
			docs.Legacy, docs.Modern = era == session.EraLegacy, era == session.EraModern
			docs.SetQuietly("file:///a.md", "one")
			served := httptest.NewServer(docs)
			defer served.Close()
			srv := sessiontest.Entry("docs", func(s *config.Server) {
				s.Transport, s.URL = config.TransportHTTP, config.NewSecret(served.URL+"/mcp")
			})
			var log bytes.Buffer
			tr := New(Options{Liveness: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			tr.Apply(&config.Config{Servers: []config.Server{srv}})
			ctx, cancel := context.WithCancel(t.Context())
			_, sub := tr.Subscribe(ctx)
			var running sync.WaitGroup
			running.Go(func() { _ = tr.Run(ctx) })
			if snap, err := tr.Settled(ctx); err != nil || snap.Servers[0].State != event.Ready {
				t.Fatalf("%v, %+v", err, snap.Servers)
			}
			_ = served.Listener.Close()
			served.CloseClientConnections()
			watchdog := time.AfterFunc(time.Minute, cancel)
			defer watchdog.Stop()
			active := 0
			for e := range sub.Events() {
				if e.Type() == event.TypeSubscriptionActive {
					active++
				}
				if st, ok := e.Payload.(event.ServerState); ok && st.State == event.Backoff {
					if st.Error == "" {
						t.Error("the state has no error")
					}
					break
				}
			}
			cancel()
			running.Wait()
			if active > 1 { // the first one is from the start
				t.Errorf("subscription.active was published %d times", active)
			}
			if strings.Contains(log.String(), "does not push") || strings.Contains(log.String(), "cannot subscribe") {
				t.Errorf("a false warning:\n%s", log.String())
			}
		})
	}
}
