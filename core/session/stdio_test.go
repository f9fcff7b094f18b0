package session_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func newServer(legacy, modern bool) *sessiontest.Fake {
	srv := sessiontest.New()
	srv.Legacy, srv.Modern = legacy, modern
	for _, u := range []string{"test://a", "test://b", "test://c"} {
		srv.SetQuietly(u, "text of "+u)
	}
	srv.SetList(catalog.Tools, map[string]any{"name": "echo", "x-extra": 9007199254740993})
	return srv
}

func TestEras(t *testing.T) {
	for _, tt := range []struct {
		name           string
		legacy, modern bool
		protocol       config.Protocol
		era            session.Era
		want           session.Era
		methods        []string // the first requests on the wire
	}{
		{"both", true, true, "", "", session.EraModern, []string{"server/discover"}},
		{"both, pinned modern", true, true, config.ProtocolModern, "", session.EraModern, []string{"server/discover"}},
		{"both, remembered modern", true, true, "", session.EraModern, session.EraModern, []string{"server/discover"}},
		{"both, remembered legacy", true, true, "", session.EraLegacy, session.EraLegacy, []string{"initialize", "notifications/initialized"}},
		{"legacy only", true, false, "", "", session.EraLegacy, []string{"server/discover", "initialize", "notifications/initialized"}},
		{"legacy only, remembered", true, false, "", session.EraLegacy, session.EraLegacy, []string{"initialize", "notifications/initialized"}},
		{"legacy only, remembered modern", true, false, "", session.EraModern, session.EraLegacy, []string{"server/discover", "initialize", "notifications/initialized"}},
		{"modern only", false, true, "", "", session.EraModern, []string{"server/discover"}},
		{"modern only, remembered legacy", false, true, "", session.EraLegacy, session.EraModern, []string{"initialize", "server/discover"}},
		{"modern only, pinned legacy", false, true, config.ProtocolLegacy, "", "", []string{"initialize"}},
		{"legacy only, pinned modern", true, false, config.ProtocolModern, "", "", []string{"server/discover"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(tt.legacy, tt.modern)
				s, err := tryOver(t, srv, config.Server{Protocol: tt.protocol}, session.Options{Era: tt.era})
				if (err == nil) != (tt.want != "") {
					t.Fatalf("connect: %v, want era %q", err, tt.want)
				}
				if err == nil && s.Info().Era != tt.want {
					t.Errorf("era %q, want %q", s.Info().Era, tt.want)
				}
				synctest.Wait()
				var got []string
				for _, m := range srv.Wire() {
					got = append(got, m.Method)
				}
				if !slices.Equal(got, tt.methods) {
					t.Errorf("wire %q, want %q", got, tt.methods)
				}
			})
		})
	}
}

// A legacy server that does not answer unknown requests is connected after a bounded wait, which
// leaves time for the handshake.
func TestSilentDiscoverFallsBack(t *testing.T) {
	for connect, most := range map[time.Duration]time.Duration{15 * time.Second: 8 * time.Second, 4 * time.Second: 3 * time.Second, 3 * time.Minute: 31 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(true, false)
			srv.Fail(sessiontest.Fault{Method: "server/discover", Silent: true})
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), connect)
			defer cancel()
			r, w, wait := srv.Pipe()
			s, err := session.OverIO(ctx, r, w, config.Server{}, session.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer wait()
			defer s.Close()
			if s.Info().Era != session.EraLegacy || s.Info().Other != "" || time.Since(start) > most {
				t.Errorf("%+v after %v", s.Info(), time.Since(start))
			}
		})
	}
}

// A server that starts slowly answers both handshakes late, in order.
func TestSlowStart(t *testing.T) {
	for name, legacy := range map[string]bool{"both eras": true, "modern only": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(legacy, true)
				srv.Fail(sessiontest.Fault{Method: "server/discover", Delay: 10 * time.Second, Times: 1})
				srv.Fail(sessiontest.Fault{Method: "initialize", Delay: 3*time.Second + time.Millisecond, Times: 1})
				s := over(t, srv, config.Server{}, session.Options{})
				want, other := session.EraModern, session.Era("")
				if legacy {
					want, other = session.EraLegacy, session.EraModern
				}
				if info := s.Info(); info.Era != want || info.Other != other || srv.Count("server/discover") != 1 {
					t.Errorf("%+v, %d discover", info, srv.Count("server/discover"))
				}
			})
		})
	}
}

// Errors that only modern servers return do not lead to the legacy handshake.
func TestModernErrorsOfDiscover(t *testing.T) {
	for code, data := range map[int]any{
		-32020: nil,
		-32021: map[string]any{"requiredCapabilities": map[string]any{"sampling": map[string]any{}}},
		-32022: map[string]any{"supported": []string{"2099-01-01"}, "requested": "2026-07-28"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(true, true)
			srv.Fail(sessiontest.Fault{Method: "server/discover", Code: code, Message: "no", Data: data})
			_, err := tryOver(t, srv, config.Server{}, session.Options{})
			if rpc, ok := errors.AsType[*session.RPCError](err); !ok || rpc.Code != code || srv.Count("initialize") != 0 {
				t.Errorf("%d: %v, %d initialize", code, err, srv.Count("initialize"))
			}
		})
	}
}

// If a server is replaced by one that speaks another version, the session ends and nothing was
// done.
func TestVersionRefusedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		s := over(t, srv, config.Server{}, session.Options{})
		srv.Fail(sessiontest.Fault{Method: "tools/call", Code: -32022, Message: "unsupported", Data: map[string]any{"supported": []string{"2025-11-25"}}})
		_, err := s.CallTool(t.Context(), "echo", nil)
		if e, ok := errors.AsType[*session.InterruptedError](err); !ok || e.Sent {
			t.Errorf("%v", err)
		}
		<-s.Done()
	})
}

func TestVersionsNamedByTheServer(t *testing.T) {
	unsupported := func(method string, versions ...string) sessiontest.Fault {
		return sessiontest.Fault{Method: method, Code: -32022, Message: "unsupported", Data: map[string]any{"supported": versions}, Times: 1}
	}
	t.Run("legacy named in discover", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(true, false)
			srv.Fail(unsupported("server/discover", "2024-11-05", "2025-06-18"))
			over(t, srv, config.Server{}, session.Options{Era: session.EraModern})
			if got := string(srv.Wire()[1].Params); !contains(got, `"2025-06-18"`) {
				t.Errorf("initialize with %s", got)
			}
		})
	})
	t.Run("legacy named in initialize", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(true, false)
			srv.Fail(unsupported("initialize", "2025-03-26"))
			s := over(t, srv, config.Server{}, session.Options{Era: session.EraLegacy})
			if s.Info().Era != session.EraLegacy || srv.Count("server/discover") != 0 {
				t.Errorf("era %q, %d discover", s.Info().Era, srv.Count("server/discover"))
			}
		})
	})
	t.Run("discover without a modern version", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(true, true)
			srv.Fail(sessiontest.Fault{Method: "server/discover", Result: map[string]any{"supportedVersions": []string{"2025-11-25"}}})
			s := over(t, srv, config.Server{}, session.Options{Era: session.EraModern})
			if s.Info().Era != session.EraLegacy {
				t.Errorf("era %q", s.Info().Era)
			}
		})
	})
}

// No client capability is declared, except MCP Events unless the config says off.
func TestNoCapabilityIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		off := config.Server{Tracking: config.Tracking{Events: config.Events{Off: true}}}
		over(t, srv, off, session.Options{Era: session.EraLegacy})
		if got := string(srv.Wire()[0].Params); !contains(got, `"capabilities":{}`) {
			t.Errorf("initialize %s", got)
		}
		modern := newServer(false, true)
		over(t, modern, off, session.Options{Era: session.EraModern})
		if got := string(modern.Wire()[0].Params); !contains(got, `"io.modelcontextprotocol/clientCapabilities":{}`) {
			t.Errorf("discover %s", got)
		}
	})
}

func TestServerRequestsAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		over(t, srv, config.Server{}, session.Options{})
		srv.Broadcast(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ping"})
		srv.Broadcast(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "roots/list"})
		synctest.Wait()
		var answers []string
		for _, m := range srv.Wire() {
			if m.Method == "" {
				answers = append(answers, string(m.Raw))
			}
		}
		slices.Sort(answers)
		if len(answers) != 2 || !contains(answers[0], `"result":{}`) || !contains(answers[1], `-32601`) {
			t.Errorf("answers %q", answers)
		}
	})
}

func TestRequestDeadline(t *testing.T) {
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(era == session.EraLegacy, era == session.EraModern)
			srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
			srv.Fail(sessiontest.Fault{Method: "ping", Silent: true})
			s := over(t, srv, config.Server{RequestTimeout: 7 * time.Second}, session.Options{Era: era})
			srv.Fail(sessiontest.Fault{Method: "server/discover", Silent: true})
			start := time.Now()
			if _, err := s.CallTool(t.Context(), "echo", nil); err == nil || time.Since(start) != 7*time.Second {
				t.Errorf("%s: call: %v after %v", era, err, time.Since(start))
			}
			if err := s.Ping(t.Context()); err == nil {
				t.Errorf("%s: an unanswered ping succeeded", era)
			}
			synctest.Wait()
			if srv.Count("notifications/cancelled") != 2 {
				t.Errorf("%s: %d cancelled", era, srv.Count("notifications/cancelled"))
			}
			srv.Heal()
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("%s: ping: %v", era, err)
			}
		})
	}
}

func TestLostServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		s := over(t, srv, config.Server{}, session.Options{})
		errs := make(chan error, 1)
		go func() { _, err := s.CallTool(t.Context(), "echo", nil); errs <- err }()
		synctest.Wait()
		srv.Disconnect()
		<-s.Done()
		if _, ok := errors.AsType[*session.EndError](s.Err()); !ok {
			t.Errorf("ended with %v", s.Err())
		}
		if err := <-errs; err == nil {
			t.Error("the waiting request succeeded")
		}
		if _, err := s.Read(t.Context(), "test://a"); err == nil {
			t.Error("a request after the end succeeded")
		}
	})
}

func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		srv.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		s := over(t, srv, config.Server{}, session.Options{})
		errs := make(chan error, 1)
		go func() { _, err := s.CallTool(t.Context(), "echo", nil); errs <- err }()
		synctest.Wait()
		go s.Close()
		_ = s.Close()
		if err := <-errs; !errors.Is(err, session.ErrClosed) {
			t.Errorf("waiting request: %v", err)
		}
		if !errors.Is(s.Err(), session.ErrClosed) {
			t.Errorf("err %v", s.Err())
		}
		if _, err := s.List(t.Context(), catalog.Tools); !errors.Is(err, session.ErrClosed) {
			t.Errorf("list after close: %v", err)
		}
	})
}

// If a server writes log lines to stdout instead of a response, the error shows them.
func TestNoAnswerButNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fromServer, stdout := io.Pipe()
		stdin, toServer := io.Pipe()
		go func() { _, _ = io.Copy(io.Discard, stdin) }()
		go func() { _, _ = io.WriteString(stdout, "\nlistening on port 3000\x1b[m\nready\n") }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := session.OverIO(ctx, fromServer, toServer, config.Server{ID: "web"}, session.Options{})
		if want := `the server wrote text that is not MCP to stdout: listening on port 3000\x1b[m (`; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		_ = stdin.Close()
	})
}
