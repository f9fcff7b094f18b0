package journaltest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// model performs random calls and compares the log with a simple model after them. All checks share
// one log; each uses its own servers.
func model(t *testing.T, o *Opened) {
	budget := 10 * time.Second // total time limit, because a store that syncs every event is slow
	if testing.Short() {
		budget = time.Second
	}
	began, checks, failed := time.Now(), 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if !failed && time.Since(began) > budget {
			return
		}
		passed := false
		defer func() { failed = failed || !passed }() // after a failure, rapid repeats the check with fewer calls
		checks++
		m := &modelLog{o: o, name: fmt.Sprint("check", checks), resources: map[string]catalog.Digest{}, lists: map[journal.ListName]catalog.List{}}
		flush(rt, o.Log)
		m.base = bounds(rt, o.Log).Last
		m.run(rt)
		passed = true
	})
	t.Logf("%d checks", checks)
}

// modelLog models the content that the log should have.
type modelLog struct {
	o         *Opened
	name      string // unique name of this check
	base      uint64 // number of the last entry before this check
	events    []*event.Event
	resources map[string]catalog.Digest
	lists     map[journal.ListName]catalog.List
	texts     []string
	calls     int // makes every digest and text unique
}

// server draws one of the servers that belong to this check.
func (m *modelLog) server(rt *rapid.T) string {
	return m.name + rapid.SampledFrom([]string{"-a", "-b", "-\"c\n"}).Draw(rt, "server")
}

func (m *modelLog) run(rt *rapid.T) {
	uris := rapid.SampledFrom([]string{"file:///1", "file:///2", "file:///\x00"})
	kinds := rapid.SampledFrom(catalog.Kinds())
	add := func(rt *rapid.T, e *event.Event) {
		m.events = append(m.events, e)
		if rapid.Bool().Draw(rt, "wait") {
			if got, want := Append(rt, m.o.Log, e).Seq, m.base+uint64(len(m.events)); got != want {
				rt.Fatalf("stored as %d, want %d", got, want)
			}
		} else {
			add(rt, m.o.Log, e)
		}
	}
	actions := map[string]func(*rapid.T){
		"update": func(rt *rapid.T) {
			server, u := m.server(rt), uris.Draw(rt, "uri")
			m.calls++
			m.resources[server+" "+u] = Digest(m.calls)
			add(rt, update(server, u, m.calls))
		},
		"remove": func(rt *rapid.T) {
			server, u := m.server(rt), uris.Draw(rt, "uri")
			delete(m.resources, server+" "+u)
			add(rt, about(server, u, event.ResourceRemoved{}))
		},
		"announce": func(rt *rapid.T) {
			add(rt, about(m.server(rt), uris.Draw(rt, "uri"), event.ResourceUpdated{Name: "not read"}))
		},
		"state": func(rt *rapid.T) { add(rt, about(m.server(rt), "", event.ServerState{State: event.Ready})) },
		"list": func(rt *rapid.T) {
			name := journal.ListName{ServerID: m.server(rt), Kind: kinds.Draw(rt, "kind")}
			m.calls++
			l := list(rapid.IntRange(0, 3).Draw(rt, "items"), m.calls)
			m.lists[name] = journal.StoredList(l)
			if rapid.Bool().Draw(rt, "event") {
				add(rt, about(name.ServerID, "", event.ListChanged{List: name.Kind, Added: l.Keys(), Items: &l}))
			} else if err := m.o.Log.RememberList(name, l); err != nil {
				rt.Fatalf("RememberList: %v", err)
			}
		},
		"remember": func(rt *rapid.T) {
			r := journal.ResourceID{ServerID: m.server(rt), URI: uris.Draw(rt, "uri")}
			m.calls++
			st := journal.State{Digest: Digest(m.calls), When: time.Now()}
			m.resources[r.ServerID+" "+r.URI] = st.Digest
			if rapid.Bool().Draw(rt, "forget") {
				delete(m.resources, r.ServerID+" "+r.URI)
				st = journal.State{}
			}
			if err := m.o.Log.Remember(r, st); err != nil {
				rt.Fatalf("Remember: %v", err)
			}
		},
		"text": func(*rapid.T) {
			m.calls++
			text := fmt.Sprint(m.name, " text ", m.calls)
			m.texts = append(m.texts, text)
			m.o.Log.Contents().Put(textDigest(text), text)
		},
		"flush":     func(rt *rapid.T) { flush(rt, m.o.Log) },
		"check":     m.check,
		"reopen":    func(rt *rapid.T) { m.o.reopen(rt) },
		"follow":    m.follow,
		"look back": m.history,
	}
	rt.Repeat(actions)
	m.check(rt)
	m.follow(rt)
	m.history(rt)
}

// check compares all content of the log with the model.
func (m *modelLog) check(rt *rapid.T) {
	ctx, log := within(rt), m.o.Log
	m.states(rt)
	flush(rt, log)
	m.states(rt)
	b := bounds(rt, log)
	if b.Last != m.base+uint64(len(m.events)) {
		rt.Fatalf("the last is %d, want %d", b.Last, m.base+uint64(len(m.events)))
	}
	from := m.base + 1 + uint64(rapid.IntRange(0, len(m.events)).Draw(rt, "from"))
	same(rt, "read", ReadAll(rt, log, from), b.Epoch, from, m.events[from-m.base-1:])
	if r, err := log.Resume(ctx, event.FormatID(b.Epoch, from-1)); err != nil || r.Gap != nil || r.From != from || r.Next != b.Last+1 {
		rt.Fatalf("Resume after %d: %+v, %v", from-1, r, err)
	}
	for _, text := range m.texts {
		if !has(rt, log, text) {
			rt.Fatalf("%q is not stored", text)
		}
	}
}

func (m *modelLog) states(rt *rapid.T) {
	all := digests(rt, m.o.Log, "")
	maps.DeleteFunc(all, func(r string, _ catalog.Digest) bool { return !strings.HasPrefix(r, m.name+"-") })
	equal(rt, "states", m.resources, all)
	server := m.server(rt)
	of, got := map[journal.ListName]catalog.List{}, map[journal.ListName]catalog.List{}
	for name, l := range m.lists {
		if name.ServerID == server {
			of[name] = l
		}
	}
	for name, l := range states(rt, m.o.Log, server).Lists {
		got[name] = append(catalog.List{}, l...)
	}
	equal(rt, fmt.Sprintf("lists of %q", server), of, got)
}

func (m *modelLog) follow(rt *rapid.T) {
	if len(m.events) == 0 {
		return
	}
	last := m.base + uint64(len(m.events))
	from := m.base + 1 + uint64(rapid.IntRange(0, len(m.events)-1).Draw(rt, "from"))
	entries, err := followTo(within(rt), m.o.Log, from, last) // waits for entries that are not stored yet
	if err != nil {
		rt.Fatalf("Follow(%d): %v", from, err)
	}
	same(rt, "followed", entries, m.o.Log.Epoch(), from, m.events[from-m.base-1:])
}

// history compares the entries that Select yields with the model.
func (m *modelLog) history(rt *rapid.T) {
	flush(rt, m.o.Log)
	sel := journal.Selection{ServerID: m.server(rt), URI: rapid.SampledFrom([]string{"", "file:///1"}).Draw(rt, "uri")}
	var want []uint64
	for i, e := range m.events {
		_, _, content := journal.Known(e)
		if e.ServerID == sel.ServerID && (sel.URI == "" || sel.URI == e.ResourceURI && content) {
			want = append(want, m.base+1+uint64(i))
		}
	}
	var got []uint64
	for _, e := range selected(rt, m.o.Log, sel) {
		got = append(got, e.Seq)
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("Select(%+v) yields %v, want %v", sel, got, want)
	}
}
