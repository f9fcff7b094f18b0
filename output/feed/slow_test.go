package feed

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// large returns n events of about 16 KiB.
func large(n int) []event.Event {
	out := updates(n)
	for i := range out {
		out[i].Payload = event.ResourceUpdated{Name: strings.Repeat("x", 16<<10)}
	}
	return out
}

// Clients that do not read are disconnected after WriteTimeout. Until then they delay no others.
func TestClientsThatNeverReadAreDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		h := New(Options{Log: l})
		inBubble(t, h, func(open func(string, int) *recorder) {
			for reads := range 5 {
				open("/events", reads)
			}
			reader := open("/events", allWrites)
			reader.take()
			for i := range 100 {
				l.append(updates(1)...)
				time.Sleep(5 * time.Millisecond)
				synctest.Wait()
				if n := strings.Count(reader.take(), "event: resource.updated\n"); n != 1 {
					t.Fatalf("%d events after 5 ms, when there were %d", n, i)
				}
			}
			if st := h.Stats(); st.Clients != 6 {
				t.Errorf("after half a second: %+v", st)
			}
			time.Sleep(5 * time.Second)
			if st := h.Stats(); st.Clients != 1 || st.Closed["slow"] != 5 {
				t.Errorf("after the timeout: %+v", st)
			}
		})
	})
}

// A real connection whose buffers are full is closed.
func TestFullConnectionIsClosed(t *testing.T) {
	l := newMemLog()
	h, base := serve(t, Options{Log: l, WriteTimeout: 50 * time.Millisecond})
	connect(t, base, "/events", "")
	eventually(t, "it is connected", func() bool { return h.Stats().Clients == 1 })
	l.append(large(800)...) // 13 MB
	eventually(t, "it is closed", func() bool { return h.Stats().Closed["slow"] == 1 && h.Stats().Clients == 0 })
	eventually(t, "the hub has read the log, so that it can stop", func() bool {
		next, _ := h.current().position()
		return next > 800
	})
}

func TestClientsBeyondTheLimit(t *testing.T) {
	const limit = 200
	l := newMemLog()
	h, base := serve(t, Options{Log: l, MaxClients: limit})
	before := memory()
	for range limit {
		s, err := dial(base, "/events", "")
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
	}
	eventually(t, "all clients are connected", func() bool { return h.Stats().Clients == limit })
	each := (int64(memory()) - int64(before)) / limit
	for _, path := range []string{"/events", "/api/mcp/resource-events"} {
		s := connect(t, base, path, "")
		if got := s.rest(); s.res.StatusCode != 200 || len(got) != 0 || len(s.p.retry) != 4 ||
			!strings.HasPrefix(s.res.Header.Get("Content-Type"), "text/event-stream") {
			t.Errorf("%s: %d %v, retry %q", path, s.res.StatusCode, got, s.p.retry)
		}
	}
	if st := h.Stats(); st.Refused != 2 || st.Clients != limit {
		t.Errorf("%+v", st)
	}
	// Both ends are in this process; the test's end is a 4 KiB reader and a response.
	if each > 48<<10 {
		t.Errorf("%d bytes for every idle client", each)
	}
}

// memory is the heap and the stacks in use.
func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

func TestShutdown(t *testing.T) {
	l := newMemLog()
	l.append(updates(3)...)
	h, base := serve(t, Options{Log: l, Ring: 64})
	feed := connect(t, base, "/api/mcp/resource-events?since=0", "") // wherever the log ends when it is placed
	events := connect(t, base, "/events?server=s1", "")
	feed.next()
	events.next()
	stuck := connect(t, base, "/events?since=0", "")
	_ = stuck
	eventually(t, "all clients are connected", func() bool { return h.Stats().Clients == 3 })
	l.append(large(20)...) // the last events are also sent
	l.append(updates(10)...)
	ended := make(chan error, 1) // sent to once
	begin := time.Now()
	go func() { ended <- h.Shutdown(t.Context()) }()
	got := feed.rest()
	if took := time.Since(begin); took > hurry {
		t.Errorf("the feed ended after %v", took)
	}
	if len(got) < 2 || !strings.HasPrefix(got[len(got)-1].data, `{"type":"tracker_stopped","timestamp":1`) ||
		got[len(got)-2].id != testEpoch+"-33" {
		t.Errorf("the feed ends with %+v", got[max(0, len(got)-2):])
	}
	got = events.rest()
	if n := len(got); n < 3 || got[n-1].event != "tracker_stopped" || got[n-2].event != "checkpoint" || got[n-2].id != testEpoch+"-33" {
		t.Errorf("events end with %+v", got[max(0, n-2):])
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > hurry {
		t.Errorf("shut down after %v", took)
	}
	late := connect(t, base, "/events", "")
	if got := late.rest(); late.res.StatusCode != 200 || len(got) != 0 || late.p.retry == "" {
		t.Errorf("a late client: %d %v", late.res.StatusCode, got)
	}
}

// hurry is much longer than a shutdown, and much shorter than the timeouts that it must not wait for.
const hurry = 30 * time.Second

// Neither a client that does not read nor a log that does not answer delays Shutdown.
func TestShutdownDoesNotWaitForSlowClientsOrStores(t *testing.T) {
	l := newMemLog()
	l.append(large(800)...)
	l.resumes = func(ctx context.Context, id string) (r journal.Resumption, err error) {
		if id != "hang" {
			b, err := l.Bounds(ctx)
			return journal.ResumeAt(b, id), err
		}
		<-ctx.Done()
		return r, context.Cause(ctx)
	}
	h, base := serve(t, Options{Log: l, WriteTimeout: time.Minute, Ring: 4})
	connect(t, base, "/events?since=0", "")
	connect(t, base, "/events", "hang")
	eventually(t, "both are connected", func() bool { return h.Stats().Clients == 2 })
	begin := time.Now()
	if err := h.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > hurry {
		t.Errorf("it took %v", took)
	}
}

func TestDisconnectedClientIsRemoved(t *testing.T) {
	l := newMemLog()
	h, base := serve(t, Options{Log: l})
	s := connect(t, base, "/events", "")
	s.next()
	s.close()
	eventually(t, "the client is removed", func() bool { return h.Stats().Clients == 0 })
}

// BenchmarkFanOut sends events to all clients as fast as they read, with at most 1,000 events in
// flight. Both ends are in this process.
func BenchmarkFanOut(b *testing.B) {
	for _, clients := range []int{100, 1000} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			l := newMemLog()
			h, base := serve(b, Options{Log: l})
			var wg sync.WaitGroup
			streams := make([]*stream, clients)
			for i := range streams {
				s, err := dial(base, "/events", "")
				if err != nil {
					b.Fatal(err)
				}
				_ = s.conn.SetDeadline(time.Time{})
				streams[i] = s
				wg.Go(func() { _, _ = io.Copy(io.Discard, s.conn) })
			}
			eventually(b, "all clients are connected", func() bool { return h.Stats().Clients == clients })
			b.ResetTimer()
			for i := range b.N {
				l.append(updated("s1", "file:///docs/a.md"))
				for uint64(i+1)*uint64(clients)-h.Stats().Sent > uint64(1000*clients) {
					runtime.Gosched()
				}
			}
			for h.Stats().Sent < uint64(b.N*clients) {
				time.Sleep(time.Millisecond) // polls a counter, in real time
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N*clients)/b.Elapsed().Seconds(), "deliveries/s")
			st := h.Stats()
			if st.Sent != uint64(b.N*clients) || st.Clients != clients {
				b.Errorf("%+v", st)
			}
			_ = h.Shutdown(context.Background())
			for _, s := range streams {
				s.close() // the connection outlives the stream
			}
			wg.Wait()
		})
	}
}

// A client that does not read its page of history does not delay others.
func TestSlowReadersOfHistoryDoNotDelayOthers(t *testing.T) {
	const total, missed = 1000, 50 // 16 MB, more than a connection buffers
	l := newMemLog()
	h, base := serve(t, Options{Log: l, Ring: 16, WriteTimeout: time.Minute})
	l.append(large(total)...)
	eventually(t, "the ring has all events", func() bool { return h.current().followed() > total })
	connect(t, base, "/events?since=earliest", "")
	sent, since := uint64(0), time.Now()
	eventually(t, "the writes block", func() bool {
		if now := h.Stats().Replayed; now != sent {
			sent, since = now, time.Now()
		}
		return sent > 0 && time.Since(since) > time.Second
	})
	if len(h.readers) != 0 {
		t.Errorf("it holds %d readers", len(h.readers))
	}
	s := connect(t, base, "/events", event.FormatID(testEpoch, total-missed))
	for i, m := range s.events(missed) {
		if want := event.FormatID(testEpoch, uint64(total-missed+1+i)); m.id != want {
			t.Fatalf("%s instead of %s", m.id, want)
		}
	}
}

// A client that waits until it may read history gets heartbeats.
func TestHeartbeatsWhileWaitingForHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMemLog()
		l.append(updates(1)...)
		h := New(Options{Log: l})
		for range maxReaders {
			h.readers <- struct{}{} // simulates other clients
		}
		inBubble(t, h, func(open func(string, int) *recorder) {
			s := open("/events?since=earliest", allWrites)
			s.take()
			time.Sleep(31 * time.Second)
			synctest.Wait()
			if got := s.take(); got != ": heartbeat\n\n: heartbeat\n\n" {
				t.Errorf("%q", got)
			}
			<-h.readers
			synctest.Wait()
			if got := s.take(); !strings.Contains(got, "event: resource.updated\n") {
				t.Errorf("then %q", got)
			}
		})
	})
}
