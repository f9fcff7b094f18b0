package feed

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

// wantSeqs fails unless the messages are the events first..last of the test epoch.
func wantSeqs(t *testing.T, got []message, first, last uint64) {
	t.Helper()
	if uint64(len(got)) != last-first+1 {
		t.Fatalf("%d events, want %d..%d", len(got), first, last)
	}
	for i, m := range got {
		if want := event.FormatID(testEpoch, first+uint64(i)); m.id != want || member(t, m, "id") != want {
			t.Fatalf("event %d has ID %s, want %s", i, m.id, want)
		}
	}
}

func TestWhereAClientBegins(t *testing.T) {
	l := newMemLog()
	old := updates(500)
	for i := range old {
		old[i].Timestamp = time.Now().Add(-time.Hour)
	}
	l.append(old...)
	h, base := serve(t, Options{Log: l, Ring: 64})
	l.append(updates(500)...)
	eventually(t, "all are visible", func() bool { _, last := h.Last(); return last == 1000 })
	id := func(n int) string { return fmt.Sprintf("%s-%d", testEpoch, n) }
	for _, tt := range []struct {
		name, query, header string
		first               uint64
	}{
		{"header, in the ring", "", id(990), 991},
		{"header, in history", "", id(3), 4},
		{"header, the last", "", id(1000), 1001},
		{"header wins", "?lastEventId=" + id(3) + "&since=earliest", id(7), 8},
		{"lastEventId", "?lastEventId=" + id(3) + "&since=earliest", "", 4},
		{"since id", "?since=" + id(17), "", 18},
		{"since number", "?since=17", "", 18},
		{"since 0", "?since=0", "", 1},
		{"since earliest", "?since=earliest", "", 1},
		{"since time", "?since=" + url.QueryEscape(time.Now().Add(-time.Minute).Format(time.RFC3339)), "", 501},
		{"since duration", "?since=2h", "", 1},
		{"since latest", "?since=latest", "", 1001},
		{"nothing", "", "", 1001},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := connect(t, base, "/events"+tt.query, tt.header)
			if m := s.next(); m.event != "checkpoint" || m.id != id(int(tt.first)-1) {
				t.Errorf("at first: %+v", m)
			}
			if tt.first <= 1000 {
				wantSeqs(t, s.events(int(1000-tt.first)+1), tt.first, 1000)
			}
		})
	}
}

// An error after the last update has no ID in the feed, so it is repeated; the update is not.
func TestResumedFeedRepeatsOnlyErrors(t *testing.T) {
	l := newMemLog()
	_, base := serve(t, Options{Log: l})
	l.append(updates(1)...)
	l.append(event.Event{ServerID: "docs", Payload: event.ServerState{State: event.Backoff, Error: "boom"}})
	s := connect(t, base, "/api/mcp/resource-events", testEpoch+"-0")
	s.next() // the handshake
	update, failure := s.next(), s.next()
	if update.id != testEpoch+"-1" || failure.id != update.id || member(t, failure, "type") != "resource_error" {
		t.Fatalf("%+v and %+v", update, failure)
	}
	s = connect(t, base, "/api/mcp/resource-events", failure.id)
	s.next()
	if again := s.next(); again.data != failure.data {
		t.Errorf("%+v after %+v", again, failure)
	}
}

func TestGaps(t *testing.T) {
	l := newMemLog()
	l.append(updates(1000)...)
	l.forget(400)
	h, base := serve(t, Options{Log: l, Ring: 64})
	oldest := testEpoch + "-400"
	huge := strings.Repeat("9", 4000)
	for _, tt := range []struct{ name, id, reason string }{
		{"garbage", "garbage", "invalid"}, {"huge", huge, "invalid"}, {"hostile", `"}: \u2028 <b>`, "invalid"},
		{"foreign", "00000000000000aa-5", "epoch"}, {"future", testEpoch + "-99999999", "ahead"},
		{"past", testEpoch + "-17", "retention"}, {"too large a number", testEpoch + "-99999999999999999999", "invalid"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := connect(t, base, "/events", tt.id)
			m := s.next()
			if m.event != "gap" || m.id != oldest || member(t, m, "reason") != tt.reason || member(t, m, "to") != oldest {
				t.Errorf("the first message is %+v", m)
			}
			wantSeqs(t, s.events(600), 401, 1000)
			s = connect(t, base, "/api/mcp/resource-events", tt.id)
			s.next()
			if m := s.next(); member(t, m, "type") != "gap" || m.id != oldest {
				t.Errorf("in the feed: %+v", m)
			}
			if m := s.next(); m.id != testEpoch+"-401" || member(t, m, "type") != "resource_update" {
				t.Errorf("in the feed: %+v", m)
			}
		})
	}
	if n := h.Stats().Gaps; n != 14 {
		t.Errorf("%d gaps are counted", n)
	}
}

func TestFilters(t *testing.T) {
	l := newMemLog()
	l.append(
		updated("docs", "file:///docs/a.md"), updated("docs-2", "file:///docs/b,c.md"), updated("wiki", "wiki://a/b"),
		event.Event{ServerID: "docs", Payload: event.ServerState{State: event.Ready}},
		event.Event{Payload: event.ConfigReloaded{}},
		event.Event{ServerID: "docs", Payload: event.ListChanged{List: "tools", Added: []string{"t"}}},
		updated("end", "end://end"),
	)
	_, base := serve(t, Options{Log: l, Ring: 2})
	for query, want := range map[string]string{
		"":                                   "1 2 3 4 5 6 7",
		"server=docs":                        "1 4 6",
		"server=docs*,wiki":                  "1 2 3 4 6",
		"server=docs&server=wiki":            "1 3 4 6",
		"type=resource.updated":              "1 2 3 7",
		"type=*.list_changed,server.state":   "4 6",
		"type=resource.updated&server=docs":  "1",
		"uri=file:///docs/*":                 "1 2",
		"uri=file:///**":                     "1 2",
		"uri=file:///docs/b,c.md":            "2",
		"uri=wiki://**&uri=file:///docs/a.*": "1 3",
		"type=config.*":                      "5",
	} {
		s := connect(t, base, "/events?since=earliest&"+query, "")
		var got []string
		for _, m := range s.events(len(strings.Fields(want))) {
			_, seq, _ := event.ParseID(m.id)
			got = append(got, fmt.Sprint(seq))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", query, text, want)
		}
	}
}

// Clients disconnect and resume at random while events are published. The ring is so small that they
// read from history, from the ring, and across the boundary.
func TestResumedEventsAreNeitherLostNorRepeated(t *testing.T) {
	const total, clients = 4000, 9
	l := newMemLog()
	h, base := serve(t, Options{Log: l, Ring: 256, Tick: time.Millisecond})
	var wg sync.WaitGroup
	wg.Go(func() {
		all := updates(total)
		for len(all) > 0 {
			n := min(1+rand.IntN(100), len(all))
			l.append(all[:n]...)
			all = all[n:]
			if rand.IntN(3) == 0 {
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) // real sockets: lets clients catch up sometimes
			}
		}
	})
	var resumes sync.Map
	for c := range clients {
		wg.Go(func() {
			path, last, seen, again := "/events?since=0", "", uint64(0), 0
			if c%3 == 0 {
				path = "/api/mcp/resource-events?since=0"
			}
			for seen < total {
				s, err := dial(base, path, last)
				if err != nil {
					t.Error(err)
					return
				}
				again++
				until := rand.IntN(200 << 10)
				for read := 0; read < until && seen < total; {
					buf := make([]byte, 1+rand.IntN(8<<10))
					n, err := s.res.Body.Read(buf)
					_, _ = s.p.Write(buf[:n])
					read += n
					for _, m := range s.p.messages {
						if m.event == "checkpoint" || strings.Contains(m.data, "handshake") {
							continue
						}
						_, seq, err := event.ParseID(m.id)
						if err != nil || seq != seen+1 {
							t.Errorf("client %d: after %d follows %q", c, seen, m.id)
							s.close()
							return
						}
						seen, last = seq, m.id
					}
					s.p.messages = s.p.messages[:0]
					if err != nil && err != io.EOF && !strings.Contains(err.Error(), "EOF") {
						t.Errorf("client %d: %v", c, err)
					}
					if err != nil {
						break // overrun
					}
				}
				s.close()
			}
			resumes.Store(c, again)
		})
	}
	wg.Wait()
	sum := 0
	resumes.Range(func(_, n any) bool { sum += n.(int); return true })
	st := h.Stats()
	t.Logf("%d connections; %+v", sum, st)
	if sum < 5*clients || st.Replayed == 0 || st.Sent == 0 {
		t.Errorf("only %d connections, %d from history, %d live", sum, st.Replayed, st.Sent)
	}
}

func TestReplacedLogEndsStreamsAndLeavesAGap(t *testing.T) {
	l := newMemLog()
	l.append(updates(10)...)
	h, base := serve(t, Options{Log: l})
	s := connect(t, base, "/events?since=8", "")
	wantSeqs(t, s.events(2), 9, 10)
	l.replace("00000000000000bb")
	s.rest()
	l.append(updates(3)...)
	eventually(t, "the new log is followed", func() bool { return h.current() != nil && h.current().epoch == l.epoch })
	s = connect(t, base, "/events", s.p.lastID)
	if m := s.next(); m.event != "gap" || member(t, m, "reason") != "epoch" {
		t.Errorf("the first message is %+v", m)
	}
	if m := s.events(3); m[2].id != "00000000000000bb-3" {
		t.Errorf("the next messages are %+v", m)
	}
	if h.Stats().Closed["replaced"] != 1 {
		t.Errorf("%+v", h.Stats())
	}
}
