package dashboard

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/output/internal/browsertest"
)

// stream is an event stream controlled by a test.
type stream struct {
	mu     sync.Mutex
	refuse bool
	end    chan struct{} // closed, and replaced, to end all streams
	opened chan string   // receives the id after which each stream resumes
	say    chan string   // text for a stream to send
}

func newStream() *stream {
	return &stream{end: make(chan struct{}), opened: make(chan string, 100), say: make(chan string)}
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	refuse, end := s.refuse, s.end
	s.mu.Unlock()
	if refuse {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	s.opened <- r.URL.Query().Get("lastEventId")
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprint(w, "retry: 10\n\n")
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case text := <-s.say:
			_, _ = fmt.Fprint(w, text)
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// restart ends all streams, and refuses or accepts new ones.
func (s *stream) restart(refuse bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = refuse
	close(s.end)
	s.end = make(chan struct{})
}

// next waits for a stream and returns the id after which it resumes.
func (s *stream) next(t *testing.T) string {
	t.Helper()
	select {
	case id := <-s.opened:
		return id
	case <-time.After(2 * time.Minute):
		t.Fatal("no stream was requested")
		return ""
	}
}

// site serves a page with a stream that the test controls, and opens a tab.
func site(t *testing.T) (p browsertest.Tab, address string, s *stream) {
	t.Helper()
	s = newStream()
	address = serve(t, New(Options{Snapshot: fixed(world(12, 60))}), map[string]http.Handler{"GET /events": s}).URL
	p = chromium.Open(t, 1280, 800)
	p.Hurry()
	p.Go(address)
	p.Until(live)
	return p, address, s
}

// another opens another tab of the page.
func another(p browsertest.Tab, address string) browsertest.Tab {
	p.T.Helper()
	next := p.Another()
	next.Hurry()
	next.Go(address)
	next.Until(live)
	return next
}

const live, offline = `document.querySelector('#link').textContent === 'live'`, `document.querySelector('#link').textContent === 'offline'`

// A stream that is refused for good, after a restart that ended the login or by a
// proxy, is asked for again, and still by one tab for all.
func TestRealRefusedStreamIsRetried(t *testing.T) {
	first, address, s := site(t)
	second := another(first, address)
	s.restart(true)
	first.Until(offline)
	second.Until(offline)
	s.restart(false) // somebody logged in
	first.Until(live)
	second.Until(live)
	if n := len(s.opened); n != 2 {
		t.Errorf("%d streams, want one before and one after", n)
	}
}

// A tab that takes over resumes after the last id that any tab received, also if that
// was a checkpoint.
func TestRealNextTabResumes(t *testing.T) {
	first, address, s := site(t)
	second := another(first, address)
	s.say <- "id: ab-41\nevent: checkpoint\ndata: {}\n\ndata: {\"id\":\"ab-41\",\"type\":\"resource.updated\",\"timestamp\":\"2026-11-20T19:37:25.000Z\"}\n\n"
	second.Until(`document.querySelector('#feed-list').textContent.includes('updated')`)
	another(first, address) // opened after the events
	s.next(t)               // that of the first tab
	for _, leave := range []func(){first.Close, second.Close} {
		leave()
		if id := s.next(t); id != "ab-41" {
			t.Errorf("the next stream resumes after %q", id)
		}
	}
}
