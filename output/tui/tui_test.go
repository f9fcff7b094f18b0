package tui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/serverlog"
)

// hostile is text of a server that would change the screen if it were printed as it is.
const hostile = "evil\x1b[2J\x1b]0;title\x07\u202e\r\nnext"

// fixed is the API of 100 servers that do not change.
type fixed struct{ reconnected string }

func (f *fixed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type object map[string]any
	now := time.Now().UTC().Format(event.TimeFormat)
	var answer any
	switch query := r.URL.Query(); path.Base(r.URL.Path) {
	case "servers":
		servers := []status.Summary{
			{ID: "broken", State: event.Backoff, Error: "connection refused: " + hostile + strings.Repeat(" very long", 60)},
			{ID: "docs", State: event.Ready, Since: time.Now().Add(-90 * time.Second).UTC().Format(event.TimeFormat), Lists: status.Lists{Resources: 2, Tools: 1}},
		}
		for i := range 98 {
			servers = append(servers, status.Summary{ID: fmt.Sprintf("server-%02d", i), State: event.Ready})
		}
		answer = servers
	case "resources":
		answer = []object{{"uri": "file:///guide.md", "mimeType": "text/markdown", "size": 2048, "changed": now}, {"uri": "file:///" + strings.Repeat("deep/", 60) + hostile}}
	case "history":
		if !query.Has("uri") {
			answer = object{"events": []*event.Event{{ServerID: "docs", Timestamp: time.Now(), Payload: event.ServerState{State: event.Backoff, Error: "gone away"}}}}
			break
		}
		answer = object{"versions": []history.Version{{ID: "00000000000000ab-2", Timestamp: time.Now(), Digest: catalog.Digest{3}}, {ID: "00000000000000ab-1", Timestamp: time.Now(), Digest: catalog.Digest{2}}, {Digest: catalog.Digest{1}}}}
	case "content":
		d, _ := catalog.ParseDigest(query.Get("digest")) // empty for the current version
		answer = object{"text": fmt.Sprintf("# Guide\nversion %d\n%s\n", d[0], hostile)}
	case "calls":
		list := []calls.Call{{ID: time.Now().UnixMicro(), Client: hostile, Session: "5e55", ServerID: "docs", Tool: "search", Outcome: calls.OK, Duration: 12 * time.Millisecond},
			{ID: time.Now().UnixMicro() + 1, Client: "editor", ServerID: "docs", Tool: "search", Outcome: calls.Error, Code: -32602, Duration: 40 * time.Millisecond}}
		answer = object{"calls": list, "tools": calls.ByTool(list)}
	case "log":
		answer = object{"lines": []object{{"timestamp": now, "level": serverlog.Stderr, "text": hostile}}}
	default:
		answer = object{
			"toolList":  []object{{"name": "search", "description": hostile, "inputSchema": object{"type": "object", "properties": object{"q\u202e": object{"type": "string"}}}}},
			"skillList": []object{{"uri": "skill://pdf/SKILL.md", "frontmatter": object{"name": "pdf", "description": "Reads PDFs"}}},
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// terminal drives a model as the library does, without one.
type terminal struct {
	*testing.T
	m *model
	f *fixed
	n int // events that were put
}

func newTerminal(t *testing.T, width, height int) *terminal {
	f := &fixed{}
	source := &Source{Client: remote.Local(journal.NewMemory(journal.MemoryOptions{}), f)}
	if err := source.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := newModel(t.Context(), Options{Source: source, Title: "test", Reconnect: func(server string) { f.reconnected = server }})
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return &terminal{T: t, m: m, f: f}
}

// press sends keys and runs the requests that they lead to.
func (x *terminal) press(keys ...string) *terminal {
	x.Helper()
	for _, k := range keys {
		text := ""
		if len(k) == 1 {
			text = k
		}
		x.run(x.m.key(k, text))
	}
	return x
}

func (x *terminal) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			x.run(c)
		}
	case answer:
		_, next := x.m.Update(msg)
		x.run(next)
	}
}

// screen returns what is shown; each line fits, and no byte of a server controls the
// terminal.
func (x *terminal) screen() string {
	x.Helper()
	text := x.m.View().Content
	lines := strings.Split(text, "\n")
	if len(lines) != x.m.height {
		x.Errorf("%d lines on a screen of %d", len(lines), x.m.height)
	}
	for _, l := range lines {
		if ansi.StringWidth(l) > x.m.width {
			x.Errorf("%d columns: %q", ansi.StringWidth(l), l)
		}
	}
	if strings.ContainsAny(text, "\x1b\x07\r\u202e") {
		x.Errorf("a server controls the terminal: %q", text)
	}
	return text
}

func (x *terminal) wants(parts ...string) {
	x.Helper()
	text := x.screen()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			x.Errorf("no %q in\n%s", part, text)
		}
	}
}

// TestPages: every page shows what it should at every size, whatever servers send.
func TestPages(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 50}, {20, 6}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			x := newTerminal(t, size[0], size[1])
			pages := []struct {
				keys  []string
				wants []string
			}{
				{nil, []string{"1 failing", "▸retrying", "broken", "connection refused", "docs"}},
				{[]string{"j", "enter"}, []string{"ready", "[1 Resources 2]", "file:///guide.md", "2.0 KiB"}},
				{[]string{"2"}, []string{"[2 Tools 1]", "search"}},
				{[]string{"3"}, []string{"There is no prompt here"}},
				{[]string{"4"}, []string{"[4 Skills 1]", "skill://pdf", "Reads PDFs"}},
				{[]string{"5"}, []string{"[5 Timeline]", "gone away", "gone away"}},
				{[]string{"L"}, []string{"stderr evil"}},
				{[]string{"c"}, []string{"[7 Calls]", "RESULT", "editor", "40 ms", "1/2"}},
				{[]string{"enter"}, []string{"error with the code -32602", "p50 12 ms", "p95 40 ms", "not recorded"}},
				{[]string{"q", "j", "enter"}, []string{"5e55", "evil"}},
				{[]string{"q"}, []string{"2/2"}},
				{[]string{"1", "enter"}, []string{"[1 Content]", "# Guide"}},
				{[]string{"d"}, []string{"[2 Differences]", "-version 2", "+version 3"}},
				{[]string{"<"}, []string{"-version 1", "+version 2", "before the first change"}},
				{[]string{"3"}, []string{"[3 History]"}},
				{[]string{"g", "m", "G", "enter"}, []string{"[2 Differences]", "-version 1", "+version 3"}}, // any two
				{[]string{"3"}, []string{"● "}},
				{[]string{"q", "q", "?"}, []string{"reconnect the server"}},
				{[]string{"q", "/", "s", "e", "r", "v", "enter"}, []string{"server-00"}},
				{[]string{"G"}, []string{"server-97"}},
				{[]string{"esc", "g", "/", "n", "o", "p", "e", "enter"}, []string{"No server matches"}},
			}
			for _, p := range pages {
				x.press(p.keys...)
				if size[0] == 20 {
					x.screen() // too small to show everything
					continue
				}
				x.wants(p.wants...)
			}
		})
	}
}

// TestKeys: what keys do besides showing pages.
func TestKeys(t *testing.T) {
	x := newTerminal(t, 80, 24)
	if x.press("j", "r"); x.f.reconnected != "docs" {
		t.Errorf("reconnected %q", x.f.reconnected)
	}
	x.wants("reconnecting docs…", "reconnecting ")
	x.press("enter", "y")
	x.wants("copied file:///guide.md")
	x.press("j", "h", "q")
	if cmd := x.m.key("q", "q"); cmd == nil {
		t.Error("q on the first page does not quit")
	}
	if cmd := x.m.key("ctrl+c", ""); cmd == nil {
		t.Error("ctrl+c does not quit")
	}
}

// TestLogStaysAtItsEnd: new lines of the log come into view, until the user moves up.
func TestLogStaysAtItsEnd(t *testing.T) {
	v := textView{list: list{tail: true}}
	want := func(n int, first, last string) {
		t.Helper()
		var lines []textLine
		for i := range n {
			lines = append(lines, textLine{text: fmt.Sprint(i)})
		}
		v.set(lines)
		if got := v.view(80, 10, ""); got[0] != first || got[len(got)-1] != last {
			t.Errorf("%d lines: %s to %s, want %s to %s", n, got[0], got[len(got)-1], first, last)
		}
	}
	want(5, "0", "4")
	want(100, "90", "99")
	v.move("up")
	want(200, "89", "98")
	v.move("G")
	want(300, "290", "299")
}

// put delivers events about resources of docs.
func (x *terminal) put(uris ...string) {
	for _, uri := range uris {
		x.n++
		x.m.opts.Source.Add(&event.Event{ID: fmt.Sprintf("00000000000000ab-%d", x.n), ServerID: "docs", ResourceURI: uri, Timestamp: time.Now(), Payload: event.ResourceUpdated{}})
	}
	x.m.Update(tick(time.Now()))
}

// TestFeedHasNoEmptyLines: events that have no line leave no gap; the timeline has all states.
func TestFeedHasNoEmptyLines(t *testing.T) {
	x := newTerminal(t, 80, 24)
	var l, all eventList
	all.verbose = true
	var events []*event.Event
	for i := range 50 {
		events = append(events, &event.Event{ServerID: "docs", Timestamp: time.Now(), ResourceURI: fmt.Sprint("file:///", i), Payload: event.ResourceUpdated{}},
			&event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ServerState{State: event.Connecting}})
	}
	l.update(x.m, events, 0)
	all.update(x.m, events, 0)
	if got := l.view(x.m, 10, false, ""); len(got) != 10 || !strings.Contains(got[0], "file:///40") || !strings.Contains(got[9], "file:///49") {
		t.Errorf("%d lines: %q", len(got), got)
	}
	if len(all.rows) != 100 {
		t.Errorf("%d of 100 events in the timeline", len(all.rows))
	}
}

// TestFeedFocus: Tab moves to the feed, which scrolls, stays on its row when events come, and opens
// the difference of an event; e shows it alone.
func TestFeedFocus(t *testing.T) {
	x := newTerminal(t, 80, 24)
	for i := range 40 {
		x.put(fmt.Sprintf("file:///%02d", i))
	}
	x.wants("40/40", "file:///39", "q quit", "tab feed")
	x.press("tab", "k", "k")
	x.wants("38/40", "tab servers", "enter diff")
	x.put("file:///new")
	x.wants("38/41")
	x.press("enter")
	x.wants("[2 Differences]", "› file:///37", "q back")
	x.press("q", "G")
	x.put("file:///last")
	x.wants("42/42", "file:///last")
	x.press("esc", "e", "g")
	x.wants("EVENTS", "1/42", "file:///00")
	if strings.Contains(x.screen(), "SERVER") {
		t.Error("e shows more than the feed")
	}
	x.press("e")
	x.wants("STATE")
}

// TestOpenEvent: an event that changed no text opens with all its details.
func TestOpenEvent(t *testing.T) {
	x := newTerminal(t, 80, 24)
	x.m.opts.Source.Add(&event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ListChanged{List: catalog.Tools, Added: []string{"a1", "a2", "a3", "a4", "a5", "a6", "a7"}}})
	x.m.Update(tick(time.Now()))
	x.press("tab", "enter")
	x.wants(" tools.list_changed", "+a7", `"type": "tools.list_changed"`)
}

// TestEventOfItsOwnDigests: the difference of an event that no version has is made from its digests.
func TestEventOfItsOwnDigests(t *testing.T) {
	x := newTerminal(t, 80, 24)
	x.m.opts.Source.Add(&event.Event{ID: "00000000000000ab-77", ServerID: "docs", ResourceURI: "file:///x", Timestamp: time.Now(),
		Payload: event.ResourceUpdated{Digest: catalog.Digest{9}, PreviousDigest: catalog.Digest{8}}})
	x.m.Update(tick(time.Now()))
	x.press("tab", "enter")
	x.wants("-version 8", "+version 9")
}

// TestToolSchema: Enter on a tool shows its description and schema.
func TestToolSchema(t *testing.T) {
	x := newTerminal(t, 80, 24)
	x.press("j", "enter", "2")
	x.wants("TOOL", "DESCRIPTION", "1/1")
	x.press("enter")
	x.wants("evil", "INPUT SCHEMA", `q\u202e`, "string", "2 calls, p50 12 ms")
}

// TestSchema: a schema is described with all its keywords, one property a line.
func TestSchema(t *testing.T) {
	var got []string
	for _, l := range schemaLines(newTerminal(t, 80, 24).m, "", []byte(`{"type": "object", "$schema": "x", "required": ["to"], "additionalProperties": false, "properties": {
		"to": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": ["string", "null"], "description": "who"}}}}, "limit": {"type": "integer", "minimum": 1}}}`), false, 0) {
		got = append(got, strings.Join(strings.Fields(l.text), " "))
	}
	if want := []string{"object additionalProperties false", "limit integer minimum 1", "to array, required", "each item object", `name who · type ["string","null"]`}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOpensAtWhatItHas: a server's page opens at the first list that has something, and tab leaves out the
// lists that are empty.
func TestOpensAtWhatItHas(t *testing.T) {
	x := newTerminal(t, 80, 24)
	for id, want := range map[string]string{"docs": "[1 Resources 2]", "tools": "[2 Tools 3]", "skills": "[4 Skills 1]", "broken": "[5 Timeline]"} {
		x.m.servers = []ServerRow{{Summary: status.Summary{ID: id, State: event.Ready, Lists: map[string]status.Lists{"docs": {Resources: 2, Tools: 1}, "tools": {Tools: 3}, "skills": {Skills: 1}}[id]}}}
		x.m.pages = append(x.m.pages[:1], newServerPage(x.m, id))
		x.wants(want)
	}
	for key, want := range map[string]string{"tab": "[4 Skills 1]", "shift+tab": "[2 Tools 1]"} {
		x.m.pages = x.m.pages[:1]
		x.press("enter", map[string]string{"tab": "2", "shift+tab": "4"}[key], key)
		x.wants(want, "3 Prompts 0")
	}
}

// TestLastSession: the page of a server that is not connected says that its lists are of the last session, and
// the page of a failing one shows the whole error, since when it fails, and when it is tried again.
func TestLastSession(t *testing.T) {
	x := newTerminal(t, 80, 24)
	x.m.servers = []ServerRow{{Summary: status.Summary{ID: "docs", State: event.Pending, Reason: event.Asleep, Lists: status.Lists{Tools: 1}}}}
	x.press("enter")
	x.wants("asleep", "[2 Tools 1]", "of the last session", "search")
	x.m.servers[0] = ServerRow{Summary: status.Summary{ID: "docs", State: event.Backoff, Error: strings.Repeat("words of an error ", 20) + "end of it", NextRetry: x.m.now.Add(90 * time.Second).UTC().Format(event.TimeFormat)}}
	x.press("5")
	x.wants("retrying", "failing for 0s", "next attempt in 1m", "end of it")
}

// TestWholeWords: the header and the headings of columns have whole words at every width, and nothing is cut
// that fits.
func TestWholeWords(t *testing.T) {
	x := newTerminal(t, 200, 60)
	x.m.opts.Title = "/home/somebody/projects/example/mcp-servers.json"
	x.m.servers = []ServerRow{{Summary: status.Summary{ID: "a-server-with-a-very-long-name-in-the-cluster-eu-west", State: event.Unconfigured}}, {Summary: status.Summary{ID: "docs", State: event.Ready, Lists: status.Lists{Tools: 1}}}}
	for _, keys := range [][]string{nil, {"j", "enter"}, {"1"}, {"c"}, {"1", "enter", "3"}} {
		x.press(keys...)
		for width := 200; width >= 60; width-- {
			x.m.Update(tea.WindowSizeMsg{Width: width, Height: 24})
			for i, l := range strings.Split(x.screen(), "\n") {
				if heading := i == 0 || strings.Contains(l, "SERVER ") || strings.Contains(l, "CHANGED ") || strings.Contains(l, "AGE "); heading && strings.Contains(l, "…") {
					t.Errorf("%d columns: %s", width, l)
				}
			}
		}
		if x.m.Update(tea.WindowSizeMsg{Width: 200, Height: 60}); len(keys) == 0 {
			x.wants("a-server-with-a-very-long-name-in-the-cluster-eu-west", x.m.opts.Title)
		}
	}
}

// TestSort: s sorts by last change, and the lists have headings and positions.
func TestSort(t *testing.T) {
	x := newTerminal(t, 80, 24)
	x.wants("STATE", "SERVER", "CHANGED ", "1/100")
	x.put("file:///x")
	x.press("s")
	x.wants("CHANGED↓", "▸ready    docs", "sorted by last change")
	x.press("s", "j", "j")
	x.wants("3/100")
	x.press("g", "j", "enter", "s")
	x.wants("CHANGED↓", "▸0s", "1/2")
}

// TestWrap: a long line is wrapped, not cut, and scrolls.
func TestWrap(t *testing.T) {
	v := textView{lines: []textLine{{text: strings.Repeat("word ", 100) + "end"}}}
	rows := v.view(40, 5, "")
	if len(rows) != 5 || v.position() != "5/13" {
		t.Errorf("%d rows, %s", len(rows), v.position())
	}
	v.move("G")
	if rows = v.view(40, 5, ""); !strings.HasSuffix(rows[4], "end") {
		t.Errorf("%q", rows)
	}
}

// TestMouseWheel: the wheel moves in the list under the mouse.
func TestMouseWheel(t *testing.T) {
	x := newTerminal(t, 80, 24)
	x.put("file:///0", "file:///1", "file:///2", "file:///3", "file:///4")
	x.m.Update(tea.MouseWheelMsg{Button: tea.MouseWheelDown, Y: 3})
	x.wants("4/100", "5/5")
	x.m.Update(tea.MouseWheelMsg{Button: tea.MouseWheelUp, Y: 20})
	x.wants("2/5", "tab servers")
	if x.m.View().MouseMode == tea.MouseModeNone {
		t.Error("the mouse is off")
	}
}

// TestSuspend: Ctrl-Z suspends the program.
func TestSuspend(t *testing.T) {
	cmd := newTerminal(t, 80, 24).m.key("ctrl+z", "")
	if cmd == nil {
		t.Fatal("ctrl+z does nothing")
	}
	if _, ok := cmd().(tea.SuspendMsg); !ok {
		t.Errorf("%T", cmd())
	}
}

// TestHeader: the header counts servers and events and has the local time, and fits.
func TestHeader(t *testing.T) {
	x := newTerminal(t, 100, 24)
	x.put("file:///1", "file:///2")
	x.wants("events/s", "99 of 100 ready", "1 failing", x.m.now.Local().Format("15:04:05"))
	x.m.Update(tea.WindowSizeMsg{Width: 40, Height: 10})
	x.wants("1 failing")
	x.press("enter", "5", "q", "j", "enter", "2", "enter")
	x.screen()
}

// TestReconnect: r says that it reconnects until the server is ready again; without the ability it says why.
func TestReconnect(t *testing.T) {
	x := newTerminal(t, 80, 24)
	x.press("j", "r")
	x.m.reconnecting["docs"] = ServerRow{Summary: status.Summary{ID: "docs", State: event.Ready}} // its Since has changed
	x.m.Update(tick(time.Now()))
	x.wants("docs is ready again")
	if len(x.m.reconnecting) != 0 {
		t.Error("it reconnects for ever")
	}
	x.m.opts.Reconnect = nil
	x.press("r")
	x.wants("only the process that is connected")
	x.press("k")
	if strings.Contains(x.screen(), "r reconnect") {
		t.Error("the footer names a key that does nothing")
	}
}

// TestFeedPauses: events that come during a pause are shown after it.
func TestFeedPauses(t *testing.T) {
	x := newTerminal(t, 80, 24)
	put := func(uri string) {
		x.m.opts.Source.Add(&event.Event{ServerID: "docs", ResourceURI: uri, Timestamp: time.Now(), Payload: event.ResourceUpdated{}})
		x.m.Update(tick(time.Now()))
	}
	put("file:///first")
	x.wants("file:///first")
	x.press("p")
	put("file:///second")
	if strings.Contains(x.screen(), "second") {
		t.Error("the feed goes on during a pause")
	}
	x.wants("PAUSED")
	x.press("p")
	put("file:///third")
	x.wants("second", "third")
	for range 3 * maxFeed {
		x.m.opts.Source.Add(&event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ResourceUpdated{}})
	}
	x.m.Update(tick(time.Now()))
	if len(x.m.feed.events) != maxFeed {
		t.Errorf("%d events are held", len(x.m.feed.events))
	}
}

// TestSelectionFollows: the cursor stays on its server when rows move.
func TestSelectionFollows(t *testing.T) {
	x := newTerminal(t, 80, 24)
	x.press("j", "j")
	x.wants("▸ready    server-00")
	p := x.m.top().(*serversPage)
	p.list.key = "server-05" // as if three servers above it had appeared
	x.wants("▸ready    server-05")
}

func TestRate(t *testing.T) {
	f := newFeed(nil)
	update := func(at, now time.Time) {
		f.count(&event.Event{ServerID: "docs", Timestamp: at, Payload: event.ResourceUpdated{}}, now)
	}
	now := time.Now()
	for range 3 {
		update(now, now)
	}
	if n := sum(f.rates["docs"].counts(now)); n != 3 {
		t.Errorf("%d updates", n)
	}
	f.age(now.Add(90 * time.Second))
	if counts := f.rates["docs"].counts(now.Add(90 * time.Second)); sum(counts) != 3 || counts[sparks-1] != 0 {
		t.Errorf("after 90 s: %v", counts)
	}
	f.age(now.Add(3 * time.Minute))
	if len(f.rates)+len(f.all) != 0 {
		t.Error("rates are kept for ever")
	}
	if got := sparkline([]int{0, 1, 8}, 8); got != "·▁█" {
		t.Errorf("sparkline %q", got)
	}
}

// TestRatesOfEarlierEvents: an update counts in the interval in which it happened, not in that
// in which it was shown; one before all intervals does not count.
func TestRatesOfEarlierEvents(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f := newFeed(nil)
	for _, at := range []time.Time{{}, now.Add(-10 * time.Minute), now.Add(-90 * time.Second), now.Add(-7 * time.Second), now.Add(-5 * time.Second), now, now.Add(time.Minute)} {
		f.count(&event.Event{ServerID: "docs", Timestamp: at, Payload: event.ResourceUpdated{}}, now)
	}
	want := make([]int, sparks)
	want[sparks-1-18], want[sparks-1-2], want[sparks-1-1], want[sparks-1] = 1, 1, 1, 2
	if counts := f.rates["docs"].counts(now); !slices.Equal(counts, want) {
		t.Errorf("%v, want %v", counts, want)
	}
}
