package gateway

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A single server is exported unchanged.
func TestOneServerKeepsItsNames(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetQuietly("file:///a.md", "the text")
		docs.SetList(catalog.Tools, tool("dig deep/now"))
		docs.SetList(catalog.Prompts, map[string]any{"name": "ask"})
		docs.SetList(catalog.Templates, map[string]any{"name": "t", "uriTemplate": "file:///{name}"})
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.wantKeys(c, catalog.Tools, "dig deep/now")
		w.wantKeys(c, catalog.Prompts, "ask")
		w.wantKeys(c, catalog.Resources, "file:///a.md")
		w.wantKeys(c, catalog.Templates, "file:///{name}")
		got, err := c.Read(w.Context(), "file:///a.md")
		if err != nil {
			w.Fatal(err)
		}
		if text, _ := got.Text(); text != "the text" {
			w.Errorf("read %q", text)
		}
		if _, err := c.Read(w.Context(), "file:///none"); !errors.Is(err, session.ErrNotFound) {
			w.Errorf("read of what is not there: %v", err)
		}
		if raw, err := w.do(c, "tools/call", `{"name":"dig deep/now","arguments":{"x":9007199254740993}}`); err != nil || !strings.Contains(raw, "dig deep/now") {
			w.Errorf("%s, %v", raw, err)
		}
		if raw, err := w.do(c, "prompts/get", `{"name":"ask"}`); err != nil || !strings.Contains(raw, `"description":"ask"`) {
			w.Errorf("%s, %v", raw, err)
		}
	})
}

// The items of several servers have distinct names, and requests carry the original names.
func TestSeveralServers(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		for _, id := range []string{"a", "b"} {
			s := w.Serve(id, era)
			s.SetQuietly("file:///shared", "of "+id)
			s.SetQuietly("file:///"+id, "only "+id)
			s.SetList(catalog.Tools, tool("dig"))
			s.SetList(catalog.Prompts, map[string]any{"name": "ask"})
			s.SetList(catalog.Templates, map[string]any{"name": "t", "uriTemplate": id + ":///x/{name}"},
				map[string]any{"name": "t", "uriTemplate": "both:///x/{name}"})
		}
		w.start(sessiontest.Entry("b"), sessiontest.Entry("a"))
		c := w.client(era)
		w.wantKeys(c, catalog.Tools, "a_dig", "b_dig")
		w.wantKeys(c, catalog.Prompts, "a_ask", "b_ask")
		w.wantKeys(c, catalog.Resources, "file:///a", "file:///b", "mcptrack://server/a/file:///shared", "mcptrack://server/b/file:///shared")
		w.wantKeys(c, catalog.Templates, "a:///x/{name}", "b:///x/{name}", "mcptrack://server/a/both:///x/{name}", "mcptrack://server/b/both:///x/{name}")
		for uri, want := range map[string]string{
			"file:///a": "only a", "file:///b": "only b",
			"mcptrack://server/a/file:///shared": "of a", "mcptrack://server/b/file:///shared": "of b",
			"mcptrack://server/a/file:///a": "only a", // qualified URIs always work
		} {
			got, err := c.Read(w.Context(), uri)
			if err != nil {
				w.Errorf("%s: %v", uri, err)
				continue
			}
			if text, _ := got.Text(); text != want || !strings.Contains(string(got.Raw), `"uri":"`+uri+`"`) {
				w.Errorf("%s: %s", uri, got.Raw)
			}
		}
		for _, uri := range []string{"file:///shared", "both:///x/1", "mcptrack://server/c/file:///a", "mcptrack://server/a/", "nothing:x"} {
			if _, err := c.Read(w.Context(), uri); !errors.Is(err, session.ErrNotFound) {
				w.Errorf("%s: %v", uri, err)
			}
		}
		w.Server("b").SetQuietly("b:///x/unlisted", "by template")
		if got, err := c.Read(w.Context(), "b:///x/unlisted"); err != nil || !strings.Contains(string(got.Raw), "by template") {
			w.Errorf("%v", err)
		}
		if raw, err := w.do(c, "tools/call", `{"name":"b_dig","arguments":{}}`); err != nil || !strings.Contains(raw, "dig map[]") {
			w.Errorf("%s, %v", raw, err)
		}
		if got := string(w.last("b", "tools/call")["name"]); got != `"dig"` {
			w.Errorf("b was asked for %s", got)
		}
		if n := w.Server("a").Count("tools/call"); n != 0 {
			w.Errorf("a was called %d times", n)
		}
		if _, err := w.do(c, "tools/call", `{"name":"dig"}`); err == nil || !strings.Contains(err.Error(), "unknown tool") {
			w.Errorf("dig: %v", err)
		}
		if _, err := w.do(c, "prompts/get", `{"name":"a_ask","arguments":{}}`); err != nil {
			w.Error(err)
		}
	})
}
