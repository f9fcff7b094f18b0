package feed

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// entryOf returns the entry of the log for an event.
func entryOf(t testing.TB, e event.Event) journal.Entry {
	t.Helper()
	data, err := e.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return journal.NewEntry(testEpoch, 7, e.Timestamp, data)
}

// Whatever a server names its resources, a client receives one event with these names.
func FuzzOneEvent(f *testing.F) {
	for _, s := range []string{"plain", "a\nid: 1\n\ndata: x", "a\r\rb", "\x00", "\u2028\u2029\u202e", `"},{"a":"`, "\U0001f600", "\xff\xfe", `\`, `\"`, "</script>"} {
		f.Add(s, "file:///"+s, "n"+s)
	}
	f.Fuzz(func(t *testing.T, server, uri, name string) {
		e := updated(server, uri)
		e.Payload = event.ResourceUpdated{Name: name}
		e.Timestamp = time.UnixMilli(1763665801005)
		en := entryOf(t, e)
		fr, ok := encode(&en)
		if !ok {
			t.Fatalf("%s is not encoded", en.Data())
		}
		valid := func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
		if utf8.ValidString(server) && fr.server != server || utf8.ValidString(uri) && fr.uri != uri {
			t.Errorf("filters see %q, %q of %q, %q", fr.server, fr.uri, server, uri)
		}
		var p parser
		_, _ = p.Write(fr.event)
		_, _ = p.Write(fr.feed)
		want := 2
		if server == "" || uri == "" {
			want = 1 // the feed has no such update
		}
		if len(p.messages) != want || len(p.data) != 0 || p.comments != 0 || p.retries != 0 {
			t.Fatalf("%q is %d messages", fr.event, len(p.messages))
		}
		for i, m := range p.messages {
			var doc struct{ ServerID, ResourceURI, Name string }
			if err := json.Unmarshal([]byte(m.data), &doc); err != nil {
				t.Fatalf("%q: %v", m.data, err)
			}
			if m.id != en.ID || m.event != []string{"resource.updated", ""}[i] {
				t.Errorf("message %d is %+v", i, m)
			}
			if utf8.ValidString(server+uri) && (doc.ServerID != valid(server) || doc.ResourceURI != valid(uri)) {
				t.Errorf("message %d has %q for %q, %q", i, doc, server, uri)
			}
		}
	})
}

// Whatever the log contains, a client receives one event with the ID of the entry.
func FuzzAnyEntry(f *testing.F) {
	f.Add([]byte(`{"id":"x","type":"resource.updated","timestamp":"2026-01-01T00:00:00.000Z"}`))
	f.Add([]byte("{\"id\":\"x\",\"type\":\"a\\nb\",\"timestamp\":\"2026-01-01T00:00:00.000Z\"\n\ndata: x}"))
	f.Add([]byte(`{"type":"gap","timestamp":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"type":"server.state","serverId":"\"`))
	f.Add([]byte(`{"`))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if !journal.Keepable(data) {
			t.Skip("no log returns it")
		}
		entry := journal.NewEntry(testEpoch, 7, time.Now(), data)
		fr := newFrame(&entry, testEpoch)
		var p parser
		_, _ = p.Write(fr.event)
		if len(p.messages) != 1 || p.messages[0].id != testEpoch+"-7" || p.messages[0].event == "" || len(p.data) != 0 || fr.seq != 7 {
			t.Fatalf("%q is %+v", data, p.messages)
		}
		before := len(p.messages)
		_, _ = p.Write(fr.feed)
		if n := len(p.messages) - before; n > 1 || n == 0 && fr.feed != nil || len(p.data) != 0 {
			t.Fatalf("in the feed %q is %q", data, fr.feed)
		}
	})
}

func TestDamagedEntriesAreGaps(t *testing.T) {
	for _, data := range []string{`{"type":"x\ny","timestamp":"2026-01-01T00:00:00Z"}`, `{"type":"a b","timestamp":"2026-01-01T00:00:00Z"}`,
		"{\"type\":\"gap\",\n\"timestamp\":\"2026-01-01T00:00:00Z\"}", `{"type":"gap","timestamp":"now"}`, `{"type":"gap"`} {
		entry := journal.NewEntry(testEpoch, 7, time.Now(), []byte(data))
		fr := newFrame(&entry, testEpoch)
		if fr.kind != event.TypeGap || !strings.Contains(string(fr.event), `"from":"`+testEpoch+`-6","to":"`+testEpoch+`-7","reason":"damaged"`) {
			t.Errorf("%s: %s", data, fr.event)
		}
	}
}

func TestRingPositions(t *testing.T) {
	r := newRing(testEpoch, 1, 8, 1<<20)
	var buf [8]*frame
	take := func(next uint64) (seqs []uint64, v view) {
		v = r.take(next, buf[:])
		for _, f := range buf[:v.n] {
			seqs = append(seqs, f.seq)
		}
		return seqs, v
	}
	r.push(&frame{seq: 1})
	if seqs, _ := take(1); len(seqs) != 0 {
		t.Error("a frame is seen before it is shown")
	}
	for _, seq := range []uint64{2, 3, 9, 10, 11, 20} { // 9 and 20 end gaps
		r.push(&frame{seq: seq})
	}
	r.show()
	for next, want := range map[uint64]int{1: 7, 2: 6, 4: 4, 8: 4, 9: 4, 10: 3, 12: 1, 20: 1, 21: 0, 500: 0} {
		if seqs, v := take(next); len(seqs) != want || v.behind {
			t.Errorf("from %d: %v, %+v", next, seqs, v)
		}
	}
	for seq := uint64(21); seq < 26; seq++ {
		r.push(&frame{seq: seq, event: make([]byte, 10)})
	}
	r.show()
	if seqs, v := take(9); !v.behind {
		t.Errorf("an overrun client finds %v", seqs)
	}
	if seqs, v := take(10); v.behind || len(seqs) != 8 {
		t.Errorf("from 10: %v, %+v", seqs, v)
	}
	r.push(&frame{seq: 26, event: make([]byte, 2<<20)}) // more than the ring may hold
	r.show()
	if seqs, v := take(26); len(seqs) != 1 || v.behind {
		t.Errorf("a huge frame: %v, %+v", seqs, v)
	}
	r.push(&frame{seq: 27})
	if r.bytes != 0 || r.first != 27 {
		t.Errorf("after a huge frame %d bytes, first %d", r.bytes, r.first)
	}
}
