package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func TestList(t *testing.T) {
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(era == session.EraLegacy, era == session.EraModern)
				srv.PageSize = 2
				srv.EmptyCursor = true
				s := over(t, srv, config.Server{}, session.Options{Era: era})
				l, err := s.List(t.Context(), catalog.Resources)
				if err != nil || fmt.Sprint(l.Keys()) != "[test://a test://b test://c]" {
					t.Errorf("resources %v, %v", l.Keys(), err)
				}
				tools, err := s.List(t.Context(), catalog.Tools)
				if err != nil || len(tools) != 1 || !contains(string(tools[0].Raw), `"x-extra":9007199254740993`) {
					t.Errorf("tools %v, %v", tools, err)
				}
			})
		})
	}
}

func TestListOfUndeclaredKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, false)
		srv.Capabilities = map[string]any{"resources": map[string]any{}}
		srv.Fail(sessiontest.Fault{Method: "resources/templates/list", Code: -32601, Message: "no"})
		s := over(t, srv, config.Server{}, session.Options{})
		for _, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Templates} {
			if l, err := s.List(t.Context(), k); err != nil || len(l) != 0 {
				t.Errorf("%s: %v, %v", k, l, err)
			}
		}
		if n := srv.Count("tools/list") + srv.Count("prompts/list"); n != 0 {
			t.Errorf("%d requests for undeclared kinds", n)
		}
	})
}

func TestListLimits(t *testing.T) {
	for _, tt := range []struct {
		name     string
		set      func(*sessiontest.Fake)
		limit    string
		requests int
	}{
		{"repeated cursor", func(s *sessiontest.Fake) { s.RepeatedCursor = true }, "repeated cursor", 2},
		{"endless pages", func(s *sessiontest.Fake) { s.EndlessPages = true }, "5 pages", 5},
		{"too many items", func(s *sessiontest.Fake) {
			for i := range 50 {
				s.SetQuietly(fmt.Sprintf("test://%d", i), "")
			}
			s.PageSize = 9
		}, "20 items", 3},
		{"too many bytes", func(s *sessiontest.Fake) {
			for i := range 10 {
				s.SetQuietly(fmt.Sprintf("test://%d/%s", i, strings.Repeat("x", 4<<10)), "")
			}
			s.PageSize = 4
		}, "65536 bytes", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(true, true)
				tt.set(srv)
				s := over(t, srv, config.Server{}, session.Options{Limits: session.Limits{MaxPages: 5, MaxItems: 20, MaxList: 64 << 10}})
				_, err := s.List(t.Context(), catalog.Resources)
				e, ok := errors.AsType[*session.LimitError](err)
				if !ok || e.Limit != tt.limit || srv.Count("resources/list") != tt.requests {
					t.Errorf("%v after %d requests, want %q after %d", err, srv.Count("resources/list"), tt.limit, tt.requests)
				}
			})
		})
	}
}

func TestListFailingPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		srv.PageSize = 1
		srv.Fail(sessiontest.Fault{Method: "resources/list", Page: 3, Code: -32603, Message: "boom\x1b[31m"})
		s := over(t, srv, config.Server{}, session.Options{})
		l, err := s.List(t.Context(), catalog.Resources)
		if err == nil || l != nil || contains(err.Error(), "\x1b") {
			t.Errorf("%v, %q", l, err)
		}
	})
}

func TestMalformedItemsAreSkippedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(true, true)
		srv.SetList(catalog.Tools, map[string]any{"name": "good"}, map[string]any{"title": "no name"}, map[string]any{"name": 5}, []int{1},
			map[string]any{"name": strings.Repeat("x", 8<<10+1)})
		s := over(t, srv, config.Server{}, session.Options{})
		l, err := s.List(t.Context(), catalog.Tools)
		if err != nil || fmt.Sprint(l.Keys()) != "[good]" {
			t.Errorf("%v, %v", l.Keys(), err)
		}
		if n := s.Signals().Take().Dropped[session.DroppedItems]; n != 4 {
			t.Errorf("%d counted", n)
		}
	})
}
