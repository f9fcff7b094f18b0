package mcpserver_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// dialled is one transport of our own client to the test server.
type dialled struct {
	name string
	era  session.Era
	dial func(*testing.T, *testServer) *session.Session
}

func ways() []dialled {
	http := func(protocol config.Protocol) func(*testing.T, *testServer) *session.Session {
		return func(t *testing.T, h *testServer) *session.Session {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := session.Dial(ctx, config.Server{ID: "notes", Transport: config.TransportHTTP, URL: config.NewSecret(h.over(t).URL), Protocol: protocol}, session.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
	}
	pipes := func(protocol config.Protocol) func(*testing.T, *testServer) *session.Session {
		return func(t *testing.T, h *testServer) *session.Session {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				err := h.ServeIO(context.Background(), inR, outW)
				_ = outW.Close()
				ended <- err
			}()
			s, err := session.OverIO(ctx, outR, inW, config.Server{ID: "notes", Protocol: protocol}, session.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = s.Close()
				if err := within(t, ended, "the end of ServeIO"); err != nil {
					t.Errorf("ServeIO: %v", err)
				}
			})
			return s
		}
	}
	return []dialled{
		{"stdio legacy", session.EraLegacy, pipes(config.ProtocolLegacy)},
		{"stdio modern", session.EraModern, pipes(config.ProtocolModern)},
		{"http legacy", session.EraLegacy, http(config.ProtocolLegacy)},
		{"http modern", session.EraModern, http(config.ProtocolModern)},
		{"http auto", session.EraModern, http(config.ProtocolAuto)},
	}
}

// mcptrack tracks what mcptrack serves, over every transport and in both eras.
func TestOwnClient(t *testing.T) {
	t.Parallel()
	for _, way := range ways() {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			h := newTestServer(t, mcpserver.Options{PageSize: 2}, "a", "b", "c", "d", "e")
			s := way.dial(t, h)
			if info := s.Info(); info.Era != way.era || !info.Push || info.ServerName != "notes" || info.ServerVersion != "1.2.3" {
				t.Errorf("%+v", info)
			}
			for kind, want := range map[catalog.Kind]int{catalog.Resources: 5, catalog.Tools: len(tools()), catalog.Prompts: 1, catalog.Templates: 1} {
				if list, err := s.List(t.Context(), kind); err != nil || len(list) != want {
					t.Errorf("%s: %d items (%v), want %d", kind, len(list), err, want)
				}
			}
			ack, err := s.Subscribe(t.Context(), session.Filter{Tools: true, Prompts: true, Resources: true, URIs: []string{note("a"), note("b"), "other:///x"}})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(ack.MissingURIs, []string{"other:///x"}) || len(ack.MissingLists) > 0 {
				t.Errorf("missing: %q, %v", ack.MissingURIs, ack.MissingLists)
			}
			h.write("c", "not subscribed")
			h.write("a", "a 1")
			got := s.Signals()
			within(t, got.C(), "a signal")
			batch := got.Take()
			if _, ok := batch.URIs[note("a")]; !ok || len(batch.URIs) != 1 || len(batch.Dropped) > 0 {
				t.Errorf("%+v", batch)
			}
			read, err := s.Read(t.Context(), note("a"))
			if err != nil {
				t.Fatal(err)
			}
			if text, _ := read.Text(); text != "a 1" {
				t.Errorf("read %q", text)
			}
			h.SetCatalog(h.catalog("a", "b"))
			within(t, got.C(), "a signal")
			if batch := got.Take(); len(batch.Lists) == 0 || len(batch.Dropped) > 0 {
				t.Errorf("%+v", batch)
			}
			if _, err := s.Read(t.Context(), note("zzz")); err == nil || !strings.Contains(err.Error(), "not found") {
				t.Errorf("a missing note: %v", err)
			}
			if raw, err := s.CallTool(t.Context(), "echo", map[string]any{"x": 1}); err != nil || !strings.Contains(string(raw), `\"x\":1`) {
				t.Errorf("echo: %s, %v", raw, err)
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("ping: %v", err)
			}
		})
	}
}
