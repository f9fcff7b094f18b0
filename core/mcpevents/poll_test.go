package mcpevents_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// The exact bytes of a poll.
func TestPollOnTheWire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{})
		start := w.now()
		epoch, _, _ := strings.Cut(start, "-")
		if start != epoch+"-0" {
			t.Errorf("an empty log ends at %s", start)
		}
		d, err := catalog.ParseDigest("sha256:" + strings.Repeat("ab", 32))
		if err != nil {
			t.Fatal(err)
		}
		size, yes := int64(7), true
		at := time.Date(2026, 11, 22, 10, 0, 0, 123e6, time.UTC)
		w.store(event.Event{ServerID: "docs", ResourceURI: "file:///guide.md", Timestamp: at, Cause: event.CauseNotify,
			Payload: event.ResourceUpdated{Changed: &yes, Name: "gu\x1bide", MimeType: "text/markdown", Size: &size, Digest: d}})
		w.pollFor(epoch+"-1", start, "resource.updated", "{}")
		raw, err := w.Handlers().Handle(t.Context(), request(mcp.MethodPollEvents, `{"name":"resource.updated","arguments":{},"cursor":%q}`, start))
		if err != nil {
			t.Fatal(err)
		}
		want := `{"events":[{"eventId":"` + epoch + `-1","name":"resource.updated","timestamp":"2026-11-22T10:00:00.123Z","data":{"server":"docs","uri":"file:///guide.md","changed":true,"cause":"notify","name":"gu\\x1bide","mimeType":"text/markdown","size":7,"digest":"sha256:` +
			strings.Repeat("ab", 32) + `"}}],"cursor":"` + epoch + `-1","truncated":false,"hasMore":false,"nextPollMs":5000}`
		if string(raw) != want {
			t.Errorf("got  %s\nwant %s", raw, want)
		}
	})
}

// Each type has the events that its arguments select.
func TestFilters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{})
		start := w.now()
		yes, no := true, false
		same := w.store(updated("docs", "file:///a/b.md", &no))
		unknown := w.store(updated("docs", "file:///a/b.md", nil))
		changed := w.store(updated("team-1", "file:///c.md", &yes))
		tools := w.store(event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Tools, Added: []string{"t"}}})
		prompts := w.store(event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Prompts, Changed: []string{"p"}}})
		w.store(event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Tools, Error: "it failed"}})
		ready := w.store(event.Event{ServerID: "docs", Payload: event.ServerState{State: event.Ready, Previous: event.Connecting, Error: "secret"}})
		w.store(event.Event{ServerID: "docs", Payload: event.SubscriptionActive{}})
		w.store(event.Event{Payload: event.ConfigReloaded{}})
		last := w.store(event.Event{ServerID: "last", Payload: event.ServerState{State: event.Disabled}})
		w.pollFor(last, start, mcpevents.ServerState, "{}")
		for _, c := range []struct {
			name, arguments string
			want            []string
		}{
			{mcpevents.ResourceUpdated, `{}`, []string{unknown, changed}},
			{mcpevents.ResourceUpdated, `null`, []string{unknown, changed}},
			{mcpevents.ResourceUpdated, `{"changedOnly":false}`, []string{same, unknown, changed}},
			{mcpevents.ResourceUpdated, `{"server":"team-*"}`, []string{changed}},
			{mcpevents.ResourceUpdated, `{"uri":"file:///*.md"}`, []string{changed}},
			{mcpevents.ResourceUpdated, `{"uri":"file:///**"}`, []string{unknown, changed}},
			{mcpevents.ResourceUpdated, `{"uri":"file:///{a,x}/*"}`, []string{unknown}},
			{mcpevents.ListChanged, `{}`, []string{tools, prompts}},
			{mcpevents.ListChanged, `{"lists":["prompts"]}`, []string{prompts}},
			{mcpevents.ListChanged, `{"lists":[]}`, nil},
			{mcpevents.ServerState, `{"states":["Ready"]}`, []string{ready}},
			{mcpevents.ServerState, `{"server":"l*"}`, []string{last}},
		} {
			if got := w.poll(`{"name":%q,"arguments":%s,"cursor":%q}`, c.name, c.arguments, start); !slices.Equal(got.ids(), c.want) || got.Cursor != last {
				t.Errorf("%s %s: %v up to %s, want %v up to %s", c.name, c.arguments, got.ids(), got.Cursor, c.want, last)
			}
		}
		state := w.poll(`{"name":"server.state","cursor":%q}`, start).Events[0]
		if diff := cmp.Diff(map[string]any{"server": "docs", "state": "Ready", "previous": "Connecting"}, state.Data); diff != "" {
			t.Error(diff)
		}
	})
}

// Errors have the numbers that their client knows.
func TestErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{Modes: []mcpevents.Mode{mcpevents.Poll}})
		sep := json.RawMessage(`{"extensions":{"io.modelcontextprotocol/events":{}}}`)
		for _, c := range []struct {
			method, params string
			sketch, sep    int
			data           map[string]any
		}{
			{mcp.MethodPollEvents, `{}`, -32602, -32602, nil},
			{mcp.MethodPollEvents, `{"name":"no.such"}`, -32011, -32023, map[string]any{"kind": "event"}},
			{mcp.MethodPollEvents, `{"name":"resource.updated","arguments":7}`, -32602, -32602, nil},
			{mcp.MethodPollEvents, `{"name":"resource.updated","arguments":{"uri":"[a"}}`, -32602, -32602, nil},
			{mcp.MethodPollEvents, `{"name":"resource.updated","arguments":{"uri":null}}`, -32602, -32602, nil},
			{mcp.MethodPollEvents, `{"name":"resource.updated","arguments":{"url":"x"}}`, -32602, -32602, nil},
			{mcp.MethodPollEvents, `{"name":"list.changed","arguments":{"lists":["colours"]}}`, -32602, -32602, nil},
			{mcp.MethodPollEvents, `{"name":"resource.updated","arguments":{"uri":"` + strings.Repeat("x", 5000) + `"}}`, -32013, -32025, map[string]any{"limit": "bytes of arguments", "max": 4096}},
			{mcp.MethodPollEvents, `{"name":"resource.updated","cursor":7}`, -32602, -32602, nil},
			{mcp.MethodPollEvents, `{"name":"resource.updated","maxAgeMs":-1}`, -32602, -32602, nil},
			{mcp.MethodPollEvents, `{"name":"resource.updated","maxEvents":"all"}`, -32602, -32602, nil},
			{mcp.MethodListEvents, `{"cursor":"x"}`, -32602, -32602, nil},
			{mcp.MethodStreamEvents, `{"name":"resource.updated"}`, -32014, -32026, map[string]any{"feature": "deliveryMode", "value": mcpevents.Push}},
			{mcp.MethodSubscribeEvents, `{"name":"resource.updated"}`, -32014, -32026, map[string]any{"feature": "deliveryMode", "value": mcpevents.Webhook}},
		} {
			for declared, want := range map[string]int{"": c.sketch, string(sep): c.sep} {
				r := request(c.method, "%s", c.params)
				r.Capabilities = json.RawMessage(declared)
				var err error
				if c.method == mcp.MethodStreamEvents {
					_, err = w.Stream(t.Context(), r, json.RawMessage("1"), func(...[]byte) error { t.Error("a message was sent"); return nil })
				} else {
					_, err = w.Handlers().Handle(t.Context(), r)
				}
				got, _, data := code(err)
				if got != want || c.data != nil && !cmp.Equal(data, c.data) {
					t.Errorf("%s %s: %v %v, want %d %v", c.method, c.params[:min(80, len(c.params))], err, data, want, c.data)
				}
			}
		}
	})
}

// A list is complete for strict validators, and offers webhooks only to clients that can have
// them.
func TestList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{Webhooks: func() mcpserver.Func { return nil }()})
		named := request(mcp.MethodListEvents, `{}`)
		named.Identity = "chat"
		raw, err := w.Handlers().Handle(t.Context(), named)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Events []struct {
				Name, Description          string
				Delivery                   []string
				InputSchema, PayloadSchema map[string]any
			}
			NextCursor *string
		}
		if err := json.Unmarshal(raw, &got); err != nil || len(got.Events) != 4 || got.NextCursor != nil {
			t.Fatalf("%v: %s", err, raw)
		}
		for i, e := range got.Events {
			if e.InputSchema["type"] != "object" || e.PayloadSchema["type"] != "object" || !slices.Equal(e.Delivery, []string{"poll", "push"}) ||
				e.Description == "" || i > 0 && e.Name <= got.Events[i-1].Name {
				t.Errorf("%+v", e)
			}
			if e.InputSchema["additionalProperties"] != false || e.PayloadSchema["additionalProperties"] != nil {
				t.Errorf("%s: the schemas cannot grow as promised", e.Name)
			}
		}
	})
}

// If webhooks are not available, a client that asks for one gets the reason.
func TestNoWebhooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{NoWebhooks: "they need a key"})
		ask := request(mcp.MethodSubscribeEvents, `{}`)
		ask.Identity = "chat"
		_, err := w.Handlers().Handle(t.Context(), ask)
		e, ok := errors.AsType[*mcpserver.Error](err)
		if data, _ := json.Marshal(e); !ok || !strings.Contains(string(data), "they need a key") || !strings.Contains(string(data), "webhook") {
			t.Errorf("%v: %s", err, data)
		}
	})
}

// During a busy minute, clients are asked to poll sooner.
func TestBusyMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{})
		synctest.Wait()
		for range 12 {
			w.store(updated("docs", "file:///a", nil))
			synctest.Wait()
			if p := w.poll(`{"name":"resource.updated"}`); p.NextPollMs == 1000 {
				return
			}
		}
		t.Error("after 12 events the next poll is not sooner")
	})
}

// A poll is bounded, and the next one continues where it ended.
func TestPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{})
		start := w.now()
		var want []string
		for i := range 25 {
			want = append(want, w.store(updated("docs", fmt.Sprintf("file:///%d", i), nil)))
		}
		w.pollFor(want[24], start, mcpevents.ResourceUpdated, "{}")
		var got []string
		for cursor, more := start, true; more; {
			p := w.poll(`{"name":"resource.updated","cursor":%q,"maxEvents":10}`, cursor)
			if len(p.Events) > 10 || p.HasMore != (len(got)+len(p.Events) < 25) || p.Cursor != p.ids()[len(p.Events)-1] {
				t.Fatalf("%d events, more %t, %s", len(p.Events), p.HasMore, p.Cursor)
			}
			got, cursor, more = append(got, p.ids()...), p.Cursor, p.HasMore
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if p := w.poll(`{"name":"resource.updated","cursor":%q,"maxAgeMs":3600000}`, start); p.Truncated || len(p.Events) != 25 {
			t.Errorf("%d events, truncated %t", len(p.Events), p.Truncated)
		}
		time.Sleep(2 * time.Millisecond) // the events become too old
		if p := w.poll(`{"name":"resource.updated","cursor":%q,"maxAgeMs":1}`, start); !p.Truncated || len(p.Events) != 0 || p.Cursor != want[24] {
			t.Errorf("%d events, truncated %t, %s", len(p.Events), p.Truncated, p.Cursor)
		}
	})
}

// A cursor that the log cannot serve is no error: the client learns that something is missing, and
// continues with what there is.
func TestUnknownCursors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, journal.MemoryOptions{Keep: 40}, mcpevents.Options{}, mcpevents.Scope{})
		start := w.now()
		epoch, _, _ := strings.Cut(start, "-")
		var last string
		for i := range 200 {
			last = w.store(updated("docs", fmt.Sprintf("file:///%d", i), nil))
		}
		w.pollFor(last, start, mcpevents.ResourceUpdated, "{}")
		for _, cursor := range []string{"", "x", "ffffffffffffffff-3", epoch + "-99999"} {
			if p := w.poll(`{"name":"resource.updated","cursor":%q}`, cursor); !p.Truncated || len(p.Events) != 0 || p.Cursor != last {
				t.Errorf("%q: %+v", cursor, p)
			}
		}
		if p := w.poll(`{"name":"resource.updated","cursor":%q,"maxEvents":500}`, start); !p.Truncated || len(p.Events) == 0 || len(p.Events) == 200 || p.Cursor != last {
			t.Errorf("after retention: %d events, truncated %t, %s", len(p.Events), p.Truncated, p.Cursor)
		}
	})
}

// Clients get only what the endpoint shows, under its names, with long lists truncated and without
// hidden characters.
func TestScope(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, journal.MemoryOptions{}, mcpevents.Options{}, mcpevents.Scope{
			Server: func(id string) bool { return id != "hidden" },
			Item: func(server string, _ catalog.Kind, key, _ string) (string, bool) {
				return "mcptrack://server/" + server + "/" + key, !strings.Contains(key, "denied")
			},
		})
		start := w.now()
		w.store(updated("hidden", "file:///a", nil))
		w.store(updated("docs", "file:///denied", nil))
		w.store(updated("docs", "file:///a\u202eb", nil))
		w.store(updated("docs", "file:///"+strings.Repeat("x", 3000), nil))
		shown := w.store(updated("docs", "file:///a", nil))
		w.store(event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Tools, Added: []string{"denied"}}})
		var many []string
		for i := range 60 {
			many = append(many, fmt.Sprintf("tool%02d", i))
		}
		list := w.store(event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Tools, Added: append(many, "denied", "a\x00"), Removed: []string{"r"}}})
		w.pollFor(list, start, mcpevents.ListChanged, "{}")
		p := w.poll(`{"name":"resource.updated","cursor":%q}`, start)
		if !slices.Equal(p.ids(), []string{shown}) || p.Events[0].Data["uri"] != "mcptrack://server/docs/file:///a" {
			t.Errorf("%+v", p.Events)
		}
		for _, uri := range []string{"file:///a", "mcptrack://server/docs/**"} {
			if p := w.poll(`{"name":"resource.updated","arguments":{"uri":%q},"cursor":%q}`, uri, start); len(p.Events) != 1 {
				t.Errorf("%s: %+v", uri, p.Events)
			}
		}
		p = w.poll(`{"name":"list.changed","cursor":%q}`, start)
		if !slices.Equal(p.ids(), []string{list}) {
			t.Fatalf("%+v", p.Events)
		}
		data := p.Events[0].Data
		if added, _ := data["added"].([]any); len(added) != 50 || added[0] != "mcptrack://server/docs/tool00" || !cmp.Equal(data["more"], map[string]any{"added": 10.0}) {
			t.Errorf("%+v", data)
		}
	})
}

// What differs from the lock is told under the names of the endpoint, and not of hidden items. Without
// names of its own the endpoint shows every item, escaped.
func TestLockDrift(t *testing.T) {
	t.Parallel()
	drifts := []event.LockDrift{
		{Change: event.DriftChanged, Section: "tools", Item: "tool/dig", Classes: []event.DriftClass{{ID: "L002", Name: "wording"}}, Severity: "warning", Action: "hold", OldHash: "a", NewHash: "b"},
		{Change: event.DriftChanged, Section: "tools", Item: "tool/denied"},
		{Change: event.DriftChanged, Section: "tools", Item: "tool/added"}, {Change: event.DriftChanged, Section: "tools", Item: "tool/held", OldHash: "a"},
		{Change: event.DriftResolved, Section: "tools", Item: "tool/added"},
		{Change: event.DriftChanged, Section: "contents", Item: "content/denied"},
		{Change: event.DriftChanged, Section: "prompts", Item: "prompt/a\u202eb"},
		{Change: event.DriftApproved, Section: "instructions", Item: "instructions"},
		{Change: event.DriftResolved},
	}
	named := mcpevents.Scope{Item: func(server string, k catalog.Kind, key, _ string) (string, bool) {
		return server + "_" + key, key == "dig"
	}}
	unapproved := named
	unapproved.Unapproved = func(server string, k catalog.Kind, key, _ string) (string, bool) {
		return server + "_" + key, key != "denied"
	}
	for name, test := range map[string]struct {
		scope mcpevents.Scope
		want  string
	}{
		"own names":  {named, "changed tools docs_dig; approved instructions ; resolved  ; "},
		"unapproved": {unapproved, "changed tools docs_dig; changed tools ; changed tools docs_held; resolved tools ; approved instructions ; resolved  ; "},
		"no names":   {mcpevents.Scope{}, `changed tools dig; changed tools denied; changed tools added; changed tools held; resolved tools added; changed contents denied; changed prompts a\u202eb; approved instructions ; resolved  ; `},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOn(t, journal.MemoryOptions{}, mcpevents.Options{}, test.scope)
			start := w.now()
			last := ""
			for _, d := range drifts {
				last = w.store(event.Event{ServerID: "docs", Payload: d})
			}
			w.pollFor(last, start, mcpevents.LockDrift, "{}")
			var got strings.Builder
			events := w.poll(`{"name":"lock.drift","cursor":%q}`, start).Events
			for _, e := range events {
				text := func(member string) string { s, _ := e.Data[member].(string); return s }
				got.WriteString(text("state") + " " + text("section") + " " + text("name") + "; ")
			}
			if got.String() != test.want {
				t.Errorf("%s: %q, want %q", name, got.String(), test.want)
			}
			if d := events[0].Data; !cmp.Equal(d["classes"], []any{"wording"}) || d["severity"] != "warning" || d["action"] != "hold" || d["oldHash"] != "a" || d["newHash"] != "b" {
				t.Errorf("%s: %v", name, d)
			}
			if p := w.poll(`{"name":"lock.drift","arguments":{"states":["approved"]},"cursor":%q}`, start); len(p.Events) != 1 {
				t.Errorf("%s: approved: %+v", name, p.Events)
			}
		})
	}
}

// An item that was hidden after its list changed is no longer named; the others are.
func TestHiddenItemsOfAList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hidden atomic.Value // items with this key and greater ones are hidden
		hidden.Store("z")
		w := newWorldOn(t, journal.MemoryOptions{}, mcpevents.Options{},
			mcpevents.Scope{Item: func(_ string, _ catalog.Kind, key, _ string) (string, bool) { return key, key < hidden.Load().(string) }})
		w.store(event.Event{ServerID: "docs", Payload: event.ServerState{State: event.Ready}})
		first := w.poll(`{"name":"list.changed"}`)
		id := w.store(event.Event{ServerID: "docs", Payload: event.ListChanged{List: catalog.Tools, Added: []string{"a", "b"}}})
		w.pollFor(id, first.Cursor, "list.changed", `{}`)
		for from, want := range map[string]string{"z": "[a b]", "b": "[a]", "a": ""} {
			hidden.Store(from)
			var got strings.Builder
			for _, e := range w.poll(`{"name":"list.changed","cursor":%q}`, first.Cursor).Events {
				got.WriteString(fmt.Sprint(e.Data["added"]))
			}
			if got.String() != want {
				t.Errorf("hidden from %s: %q, want %q", from, got.String(), want)
			}
		}
	})
}

// An event has the names that were stored with it, whatever the scope would call the items now;
// without stored names it has the scope's.
func TestNamesAreStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now atomic.Value // the scope calls items this and their key
		now.Store("one/")
		w := newWorldOn(t, journal.MemoryOptions{}, mcpevents.Options{}, mcpevents.Scope{Item: func(_ string, _ catalog.Kind, key, stored string) (string, bool) {
			if stored != "" {
				return stored, true
			}
			return now.Load().(string) + key, true
		}})
		w.store(event.Event{ServerID: "docs", Payload: event.ServerState{State: event.Ready}})
		from := map[string]string{"list.changed": w.poll(`{"name":"list.changed"}`).Cursor, "resource.updated": w.poll(`{"name":"resource.updated"}`).Cursor}
		last := ""
		for i, names := range []map[string]string{{}, {"a": "theirs/a"}, {"a": "two\nlines"}, nil} {
			w.store(event.Event{ServerID: "docs", ResourceURI: "a", Exported: names, Payload: event.ResourceUpdated{}})
			last = w.store(event.Event{ServerID: "docs", Exported: names, Payload: event.ListChanged{List: catalog.Resources, Added: []string{"a", fmt.Sprint(i)}, Removed: []string{"b"}}})
		}
		w.pollFor(last, from["list.changed"], "list.changed", `{}`)
		for name, want := range map[string]string{
			"list.changed":     "[0 a] [b] [1 theirs/a] [b] [2 one/a] [b] [one/3 one/a] [one/b] ",
			"resource.updated": "a theirs/a one/a one/a ",
		} {
			var got strings.Builder
			for _, e := range w.poll(`{"name":%q,"cursor":%q}`, name, from[name]).Events {
				if name == "list.changed" {
					fmt.Fprint(&got, e.Data["added"], e.Data["removed"], " ")
				} else {
					fmt.Fprint(&got, e.Data["uri"], " ")
				}
			}
			if got.String() != want {
				t.Errorf("%s: %q, want %q", name, got.String(), want)
			}
		}
	})
}
