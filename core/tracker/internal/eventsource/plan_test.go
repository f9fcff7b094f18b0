package eventsource

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
)

func typeOf(name string, required string, modes ...mcp.DeliveryMode) mcp.EventType {
	return mcp.EventType{Name: name, Delivery: modes, PayloadSchema: json.RawMessage(`{"required":[` + required + `]}`)}
}

// mcptrack's own types are recognised by their schema, other types are followed if they are wanted,
// and each is followed once.
func TestPlans(t *testing.T) {
	types := []mcp.EventType{typeOf("resource.updated", `"server","uri","cause"`, "push"), typeOf("list.changed", `"server","list"`, "poll"),
		typeOf("server.state", `"server","state"`, "poll"), typeOf("build.done", ``, "webhook"), typeOf("page.changed", ``, "push")}
	foreign := []mcp.EventType{typeOf("resource.updated", `"id"`, "push"), {Name: "list.changed", Delivery: []mcp.DeliveryMode{"push"}}}
	for name, c := range map[string]struct {
		types []mcp.EventType
		want  config.Events
		plans string
	}{
		"auto":          {types, config.Events{}, "resource.updated:0 list.changed:1"},
		"off":           {types, config.Events{Off: true, All: true}, ""},
		"all":           {types, config.Events{All: true}, "resource.updated:0 list.changed:1 server.state:3 build.done:3 page.changed:3"},
		"named":         {types, config.Events{Types: []config.EventType{{Name: "page.changed", URI: "/u"}, {Name: "build.done"}, {Name: "nothing"}}}, "page.changed:2 build.done:3 resource.updated:0 list.changed:1 -nothing"},
		"named twice":   {types, config.Events{Types: []config.EventType{{Name: "page.changed"}, {Name: "page.changed", Arguments: json.RawMessage(`{}`)}}}, "page.changed:3 resource.updated:0 list.changed:1"},
		"with and out":  {types[:1], config.Events{Types: []config.EventType{{Name: "resource.updated", Arguments: json.RawMessage(`{"server":"a"}`)}}}, "resource.updated:0"},
		"of others":     {foreign, config.Events{}, ""},
		"all of others": {foreign, config.Events{All: true}, "resource.updated:3 list.changed:3"},
	} {
		var got []string
		out, unknown := plans(c.types, c.want)
		for _, p := range out {
			got = append(got, fmt.Sprintf("%s:%d", p.name, p.about))
		}
		for _, u := range unknown {
			got = append(got, "-"+u)
		}
		if s := strings.Join(got, " "); s != c.plans {
			t.Errorf("%s: %q, want %q", name, s, c.plans)
		}
	}
}

func TestPlansAreBounded(t *testing.T) {
	var types []mcp.EventType
	for i := range 1000 {
		types = append(types, typeOf(fmt.Sprint(i), ``, "poll"))
	}
	if out, _ := plans(types, config.Events{All: true}); len(out) != maxSubscriptions {
		t.Errorf("%d subscriptions", len(out))
	}
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		offered string
		wanted  config.EventDelivery
		streams int
		want    mcp.DeliveryMode
	}{
		{"poll push", "", 1, "push"}, {"poll push", "", 0, "poll"}, {"poll push", "poll", 1, "poll"}, {"push", "poll", 1, "push"},
		{"poll", "push", 1, "poll"}, {"push", "", 0, ""}, {"webhook", "", 1, ""}, {"webhook poll", "", 1, "poll"},
	} {
		p := plan{}
		for m := range strings.SplitSeq(c.offered, " ") {
			p.modes = append(p.modes, mcp.DeliveryMode(m))
		}
		if got := p.mode(c.wanted, c.streams, false); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestKeysNameSubscriptions(t *testing.T) {
	key := func(args string) string { return plan{name: "a", arguments: json.RawMessage(args)}.key() }
	if key("") != "a" || key("{}") != "a" || key(" {} ") != "a" {
		t.Errorf("without arguments: %q %q", key(""), key("{}"))
	}
	if one := key(`{"x":1}`); one == key(`{"x":2}`) || one != key(` {"x":1}`) {
		t.Errorf("with arguments: %q", one)
	}
}

func TestLocate(t *testing.T) {
	const data = `{"url":"a://1","id":7,"n":{"a/b":{"~":["x://1",2,"x://2"]}},"list":[{"u":"l://0"}],"on":true,"big":12345678901234567890,"s":"ä b/c"}`
	for where, want := range map[string][]string{
		"/url": {"a://1"}, "/n/a~1b/~0": {"x://1", "x://2"}, "/list/0/u": {"l://0"}, "/list/1/u": nil, "/list/-1": nil, "/list/x": nil, "/id": nil, "/gone/x": nil, "/url/x": nil, "/": nil,
		"wiki://{id}": {"wiki://7"}, "w://{s}": {"w://%C3%A4%20b%2Fc"}, "w://{+url}": {"w://a://1"}, "w://{gone}": nil, "w://{n}": nil, "w://{": nil,
	} {
		if got := locate(json.RawMessage(data), where); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", where, got, want)
		}
	}
}

func FuzzLocate(f *testing.F) {
	f.Add(`{"a":[{"b":"c"}]}`, "/a/0/b")
	f.Add(`{"a":1}`, "x://{a}")
	f.Add(`[`, "/~2")
	f.Fuzz(func(t *testing.T, data, where string) {
		if locate(json.RawMessage(data), where) != nil && !json.Valid([]byte(data)) {
			// A decoder stops after the first value; nothing else counts.
			var v any
			if json.NewDecoder(strings.NewReader(data)).Decode(&v) != nil {
				t.Errorf("found something in %q", data)
			}
		}
	})
}

// The last 10,000 ids are recognised, in bounded memory.
func TestSeen(t *testing.T) {
	var s seen
	for i := range 3 * maxSeen {
		if s.add(fmt.Sprint(i)) {
			t.Fatalf("%d came before", i)
		}
		if !s.add(fmt.Sprint(i)) {
			t.Fatalf("%d is not known", i)
		}
	}
	if len(s.set) != maxSeen || len(s.ring) != maxSeen {
		t.Errorf("%d and %d are kept", len(s.set), len(s.ring))
	}
	if !s.add(fmt.Sprint(2*maxSeen)) || s.add("0") {
		t.Error("others than the last are kept")
	}
}

// The inbox is bounded by number and by bytes, and reports that it dropped messages.
func TestInboxIsBounded(t *testing.T) {
	for name, params := range map[string]string{"small": `{}`, "large": `{"x":"` + strings.Repeat("x", 1<<20) + `"}`} {
		in := newInbox()
		most, most64 := 0, 0
		message := session.EventMessage{Params: json.RawMessage(params)}
		for range 5000 {
			in.put(message)
			most, most64 = max(most, len(in.messages)), max(most64, in.bytes)
		}
		if most > maxWaiting || most64 > maxWaitingBytes {
			t.Errorf("%s: %d messages, %d bytes", name, most, most64)
		}
		if messages, lost := in.take(); !lost || len(messages) == 0 {
			t.Errorf("%s: %d messages, lost %t", name, len(messages), lost)
		}
		if messages, lost := in.take(); lost || len(messages) != 0 {
			t.Errorf("%s: taken twice", name)
		}
	}
}

// What exceeds the bounds of a report becomes a gap.
func TestReportIsBounded(t *testing.T) {
	now := time.Now()
	var b Report
	for i := range maxURIs {
		b.mark(fmt.Sprint(i), now)
	}
	b.mark("0", now)
	b.mark("", now)
	b.mark(strings.Repeat("x", maxURI+1), now)
	if b.Gap != "" || len(b.URIs) != maxURIs {
		t.Fatalf("gap %q, %d resources", b.Gap, len(b.URIs))
	}
	b.mark("one more", now)
	if b.Gap == "" || len(b.URIs) != maxURIs {
		t.Errorf("gap %q, %d resources", b.Gap, len(b.URIs))
	}
	b = Report{}
	for range maxEvents + 1 {
		b.keep(Occurrence{})
	}
	if b.Gap == "" || len(b.Events) != maxEvents {
		t.Errorf("gap %q, %d events", b.Gap, len(b.Events))
	}
}

func TestMergeDropsForgottenCursors(t *testing.T) {
	known := map[string]string{"a": "1", "b": "1"}
	got := (&Report{Cursors: map[string]string{"a": "", "c": "2"}}).Merge(known)
	if len(got) != 2 || got["b"] != "1" || got["c"] != "2" || known["a"] != "1" {
		t.Errorf("%v of %v", got, known)
	}
}
