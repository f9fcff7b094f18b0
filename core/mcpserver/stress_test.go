package mcpserver_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// A client whose connection breaks again and again, and which resumes with the id of the last
// event, always learns of the last change.
func TestLastChangeArrives(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{}, "a", "b")
	h := s.initialize()
	for _, n := range []string{"a", "b"} {
		s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":%q}}`, note(n))
	}
	const last = 200
	opened := make(chan struct{}, 1) // sent to for each stream, received from now and then, so that there are several
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; i <= last; i++ {
			for _, n := range []string{"a", "b"} {
				s.write(n, strconv.Itoa(i))
			}
			if i%20 == 0 && i < last {
				<-opened
			}
		}
	})
	value := func(n string) string {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.notes[note(n)]
	}
	seen := map[string]string{}
	lastID, streams := "", 0
	dice := rand.New(rand.NewPCG(1, 2))
	deadline := time.Now().Add(5 * time.Minute)
	for seen["a"] != strconv.Itoa(last) || seen["b"] != strconv.Itoa(last) {
		if time.Now().After(deadline) {
			t.Fatalf("after %d streams it knows %v", streams, seen)
		}
		streams++
		more := header{"Last-Event-ID": lastID}
		maps.Copy(more, h)
		e := s.stream(http.MethodGet, more, "")
		select {
		case opened <- struct{}{}:
		default:
		}
		stop := time.AfterFunc(200*time.Millisecond, e.leave) // in case nothing more comes
		for range 1 + dice.IntN(4) {
			got := e.next()
			if got == "" {
				break
			}
			for _, n := range []string{"a", "b"} {
				if strings.Contains(got, note(n)) {
					seen[n] = value(n)
				}
			}
			lastID = e.id
		}
		stop.Stop()
		e.leave()
	}
	writer.Wait()
}

// Clients of both eras and transports connect, subscribe, call and disconnect abruptly while
// everything changes. They leave nothing behind.
func TestManyClients(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{}, "a", "b", "c")
	stop := make(chan struct{})
	var world, clients sync.WaitGroup
	world.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			s.write(string("abc"[i%3]), strconv.Itoa(i))
			c := s.catalog("a", "b", "c")
			c.Tools = c.Tools[:1+i%len(c.Tools)]
			s.SetCatalog(c)
		}
	})
	for n := range 4 {
		clients.Go(func() {
			for i := range 8 {
				switch (n + i) % 4 {
				case 0:
					h := s.initialize()
					s.post(h, `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///a"}}`)
					e := s.stream(http.MethodGet, h, "")
					e.next()
					s.post(h, "%s", call("progress", ""))
					resp := s.ask(t.Context(), http.MethodDelete, h, "")
					resp.Body.Close()
					for e.next() != "" {
					}
				case 1:
					e := s.stream(http.MethodPost, modern("subscriptions/listen"),
						`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{`+metaModern+`,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["note:///b"]}}}`)
					for range 3 {
						e.next()
					}
					e.leave()
				case 2:
					w := s.pipe(t)
					w.initialize()
					w.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///c"}}`)
					for range 4 {
						w.next()
					}
					_ = w.outR.Close()
				case 3:
					w := s.pipe(t)
					w.send(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{%s,"notifications":{"resourceSubscriptions":["note:///c"]}}}`, metaModern)
					w.next()
					ctx, cancel := context.WithCancel(t.Context())
					context.AfterFunc(ctx, func() { w.cancel(fmt.Errorf("test")) })
					w.next()
					cancel()
					for w.next() != "" {
					}
				}
			}
		})
	}
	clients.Wait()
	eventually(t, "all are gone", func() bool {
		got := s.Subscriptions().Stats()
		return got.Subscribers == 0 && got.Subscriptions == 0 && got.URIs == 0
	})
	close(stop)
	world.Wait()
}
