package table

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/termtext"
)

var update = flag.Bool("update", false, "write the golden files")

func reports(t *testing.T) []session.Report {
	t.Helper()
	items := func(k catalog.Kind, raw ...string) catalog.List {
		var out []catalog.Item
		for _, r := range raw {
			it, err := catalog.NewItem(k, json.RawMessage(r))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, it)
		}
		return catalog.NewList(out)
	}
	return []session.Report{
		{Server: config.Server{ID: "docs", Enabled: true, Transport: config.TransportHTTP, Tracking: config.Tracking{TrackResources: true}},
			Info: session.Info{Transport: config.TransportSSE, Era: session.EraLegacy, ProtocolVersion: "2025-11-25", ServerName: "Docs", ServerVersion: "1.2"},
			Lists: map[catalog.Kind]catalog.List{
				catalog.Resources: items(catalog.Resources, `{"uri":"file:///ガイド.md","name":"日本語","mimeType":"text/markdown","size":12}`, `{"uri":"file:///b","name":"evil \u001b[31m\n\u202ename"}`),
				catalog.Templates: items(catalog.Templates, `{"uriTemplate":"file:///{path}","name":"any"}`),
				catalog.Tools:     items(catalog.Tools, `{"name":"search","description":"Finds\nthings 🎉"}`, `{"name":"wrong","description":"Not callable"}`),
			}, Invalid: map[string]string{"wrong": "empty x-mcp-header"}},
		{Server: config.Server{ID: "broken", Enabled: true, Transport: config.TransportStdio}, Err: errors.New("connect: start \"nope\": no such file\x07")},
	}
}

func TestGolden(t *testing.T) {
	all := reports(t)
	for name, draw := range map[string]func(*strings.Builder) error{
		"servers":      func(b *strings.Builder) error { return Servers(b, all, Options{}) },
		"servers.wide": func(b *strings.Builder) error { return Servers(b, all, Options{Wide: true}) },
		"resources":    func(b *strings.Builder) error { return Items(b, catalog.Resources, all, Options{}) },
		"templates":    func(b *strings.Builder) error { return Items(b, catalog.Templates, all, Options{Wide: true}) },
		"tools":        func(b *strings.Builder) error { return Items(b, catalog.Tools, all, Options{}) },
		"empty":        func(b *strings.Builder) error { return Items(b, catalog.Prompts, nil, Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			if err := draw(&got); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsFunc(got.String(), func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf) }) {
				t.Errorf("hidden characters in %q", got.String())
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// On a terminal nothing is wider than it, URIs keep their ends, errors are below their
// rows, and every state has its colour; in a pipe URIs are whole.
func TestFits(t *testing.T) {
	all := reports(t)
	all[0].Server.ID = "a-server-whose-name-is-far-too-long"
	long := "file:///" + strings.Repeat("deep/", 60) + "end.md"
	list, err := catalog.NewItem(catalog.Resources, json.RawMessage(`{"uri":"`+long+`","name":"👩\u200d👩\u200d👧 family"}`))
	if err != nil {
		t.Fatal(err)
	}
	all[0].Lists[catalog.Resources] = append(all[0].Lists[catalog.Resources], list)
	all[1].Err = errors.New("connect: " + strings.Repeat("it does not answer and ", 9) + "that is it")
	all = append(all, session.Report{Server: config.Server{ID: "off", Transport: config.TransportStdio}})
	for _, width := range []int{80, 120, 200} {
		var servers, items strings.Builder
		o := Options{Width: width}
		if err := errors.Join(Servers(&servers, all, o), Items(&items, catalog.Resources, all, o)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(servers.String() + items.String()) {
			if termtext.Width(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("wider than %d: %q", width, line)
			}
		}
		if got := servers.String(); !strings.Contains(got, "\n    connect: it does not answer") || !strings.Contains(got, "that is it\n") || !strings.Contains(got, "off  ") || !strings.Contains(got, "disabled") {
			t.Errorf("servers on %d columns:\n%s", width, got)
		}
		if got := items.String(); !strings.Contains(got, "…") || !strings.Contains(got, "/end.md ") || !strings.Contains(got, "👩\u200d👩\u200d👧 family") {
			t.Errorf("resources on %d columns:\n%s", width, got)
		}
	}
	var painted, piped strings.Builder
	if err := errors.Join(Servers(&painted, all, Options{Width: 120, Colour: true}), Items(&piped, catalog.Resources, all, Options{})); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\x1b[32mready\x1b[0m", "\x1b[31mfailed\x1b[0m", "\x1b[90mdisabled\x1b[0m"} {
		if !strings.Contains(painted.String(), want) {
			t.Errorf("no %q in\n%s", want, &painted)
		}
	}
	if !strings.Contains(piped.String(), long) {
		t.Errorf("a URI was cut in a pipe:\n%s", &piped)
	}
}

// In a pipe nothing is cut, whatever its length; on a terminal errors follow their rows, in every
// table, and times and states stay whole.
func TestRows(t *testing.T) {
	long := strings.Repeat("it does not answer and ", 60) + "that is it"
	head := []string{"Server", "State", "Since", "Error"}
	rows := func() [][]string {
		return [][]string{{"docs", "needs login", "2026-11-24 10:20:19", long}, {"wiki", "ready", "", ""}}
	}
	var piped, wide, fitted strings.Builder
	if err := errors.Join(Rows(&piped, head, rows()), Options{Width: 80, Wide: true}.Rows(&wide, head, rows()), Options{Width: 80, Colour: true}.Rows(&fitted, head, rows())); err != nil {
		t.Fatal(err)
	}
	for _, whole := range []string{piped.String(), wide.String()} {
		if lines := strings.Split(whole, "\n"); len(lines) != 4 || !strings.HasSuffix(lines[1], long) || !strings.Contains(lines[2], "  ready        -") {
			t.Errorf("cut or wrapped:\n%s", whole)
		}
	}
	if got := fitted.String(); !strings.Contains(got, "\x1b[33mneeds login\x1b[0m  2026-11-24 10:20:19\n    \x1b[31mit does not") || !strings.Contains(got, "…") || !strings.Contains(got, "\x1b[32mready\x1b[0m") || strings.Contains(got, "ERROR") {
		t.Errorf("on a terminal:\n%s", got)
	}
	description := strings.Repeat("Finds notes. ", 40) + "The end"
	tool, err := catalog.NewItem(catalog.Tools, json.RawMessage(`{"name":"search","description":"`+description+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("long-", 20) + "id"
	var items strings.Builder
	if err := Items(&items, catalog.Tools, []session.Report{{Server: config.Server{ID: id}, Lists: map[catalog.Kind]catalog.List{catalog.Tools: {tool}}}}, Options{}); err != nil {
		t.Fatal(err)
	}
	if got := items.String(); !strings.Contains(got, id+"  search") || !strings.Contains(got, description) {
		t.Errorf("cut in a pipe:\n%s", got)
	}
}

// Every state of a server has a colour.
func TestStateColours(t *testing.T) {
	for _, s := range []event.State{event.Pending, event.Connecting, event.Ready, event.Backoff, event.Unsupported, event.NeedsAuth,
		event.Disabled, event.Unconfigured, event.Unapproved, event.Stopping, event.Failed} {
		if stateColour(s.Words()) == "" {
			t.Errorf("%s has no colour", s.Words())
		}
	}
}
