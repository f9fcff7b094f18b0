package mcpevents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
)

// A stream sends active, then the events after its cursor, then new ones, and ends with a result.
func TestStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{})
		start := w.now()
		first := w.store(updated("docs", "file:///a", nil))
		st := w.stream(`{"name":"resource.updated","cursor":%q}`, start)
		if method, p := st.next(t); method != "active" || p["truncated"] != false || p["cursor"] != start {
			t.Fatalf("%s %v", method, p)
		}
		expect := func(id string) {
			t.Helper()
			method, p := st.next(t)
			if method != "event" || p["eventId"] != id || p["cursor"] != id || p["name"] != "resource.updated" || p["type"] != nil {
				t.Fatalf("%s %v instead of %s", method, p, id)
			}
		}
		expect(first)
		for range 50 {
			w.store(updated("other", "file:///b", new(bool))) // same content: not wanted
			expect(w.store(updated("docs", "file:///a", nil)))
		}
		st.cancel()
		for range st.messages {
		}
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.err != nil || string(st.result) != `{"_meta":{"io.modelcontextprotocol/subscriptionId":"s1"}}` {
			t.Errorf("%s, %v", st.result, st.err)
		}
	})
}

// Heartbeats say how far the log was read.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{Heartbeat: 20 * time.Millisecond})
		st := w.stream(`{"name":"server.state","cursor":null}`)
		st.next(t)
		id := w.store(updated("docs", "file:///a", nil))
		for {
			method, p := st.next(t)
			if method != "heartbeat" {
				t.Fatalf("%s %v", method, p)
			}
			if p["cursor"] == id {
				return
			}
		}
	})
}

// A stream with an expired cursor reports it and continues.
func TestStreamTruncated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOn(t, journal.MemoryOptions{Keep: 40}, mcpevents.Options{}, mcpevents.Scope{})
		start := w.now()
		for i := range 200 {
			w.store(updated("docs", fmt.Sprintf("file:///%d", i), nil))
		}
		st := w.stream(`{"name":"resource.updated","cursor":%q}`, start)
		if method, p := st.next(t); method != "active" || p["truncated"] != true || p["cursor"] == start {
			t.Fatalf("%s %v", method, p)
		}
	})
}

// The streams of a client, and of all clients, are bounded; a stream that ended makes room.
func TestStreamLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{MaxStreams: 2, MaxTotal: 3})
		open := func(client string) (func(), error) {
			ctx, cancel := context.WithCancel(context.Background())
			r := request(mcp.MethodStreamEvents, `{"name":"resource.updated"}`)
			r.Principal = client
			began, ended := make(chan struct{}), make(chan error, 1)
			once := sync.OnceFunc(func() { close(began) })
			go func() {
				_, err := w.Stream(ctx, r, json.RawMessage("1"), func(...[]byte) error { once(); return nil })
				ended <- err
			}()
			select {
			case <-began:
				return func() { cancel(); <-ended }, nil
			case err := <-ended:
				cancel()
				return nil, err
			}
		}
		var leave []func()
		for _, client := range []string{"a", "a", "b"} {
			end, err := open(client)
			if err != nil {
				t.Fatal(err)
			}
			leave = append(leave, end)
		}
		for _, client := range []string{"a", "b"} {
			if _, err := open(client); err == nil {
				t.Error("there is room for another stream")
			} else if number, message, data := code(err); number != -32013 || message != "ResourceExhausted" || data["max"] == nil {
				t.Error(err)
			}
		}
		if end, err := open("c"); err != nil { // a new client always gets its share
			t.Error(err)
		} else {
			end()
		}
		leave[0]()
		end, err := open("a")
		if err != nil {
			t.Fatal(err)
		}
		end()
		leave[1]()
		leave[2]()
		if n := w.Streams(); n != 0 {
			t.Errorf("%d streams are left", n)
		}
	})
}

// A client that is gone ends its stream.
func TestStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpevents.Options{})
		gone := errors.New("gone")
		_, err := w.Stream(t.Context(), request(mcp.MethodStreamEvents, `{"name":"resource.updated"}`), json.RawMessage("1"), func(...[]byte) error { return gone })
		if !errors.Is(err, gone) {
			t.Error(err)
		}
	})
}
