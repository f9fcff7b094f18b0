package mcpserver_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// A client whose stream breaks during a call resumes it by the id of its last event, even before
// the first message, and gets the rest and the response; nothing runs twice.
func TestResumeCall(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{})
	h := s.initialize()
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d,"total":3}}`
	resume := func(id string) *events {
		with := header{"Last-Event-ID": id}
		maps.Copy(with, h)
		return s.stream(http.MethodGet, with, "")
	}
	ids := []string{}
	e := s.stream(http.MethodPost, h, call("progress", `,"arguments":{"hold":true},"_meta":{"progressToken":"p"}`))
	e.ids = func(id string) { ids = append(ids, id) }
	e.expect(progress, 1)
	if len(ids) != 2 || !strings.HasSuffix(ids[0], "-0") {
		t.Fatalf("ids %q", ids)
	}
	e.leave()
	first, second := resume(ids[0]), resume(ids[1])
	first.expect(progress, 1)
	first.expect(progress, 2)
	second.expect(progress, 2)
	second.expect(progress, 3)
	second.leave() // breaks again, before the response
	if _, body := s.post(h, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"proceed"}}`); code(body) != 0 {
		t.Fatal(body)
	}
	first.expect(progress, 3)
	if got := first.next(); !strings.Contains(got, "done") || first.next() != "" {
		t.Errorf("%s", got)
	}
	// The response stays available, and nothing follows it.
	if third := resume(second.id); !strings.Contains(third.next(), "done") || third.next() != "" {
		t.Error("the answer is gone")
	}
	s.over(h, first.id)
	// Other sessions have no such stream: ids belong to a session.
	other := s.initialize()
	other["Last-Event-ID"] = ids[0]
	stream := s.stream(http.MethodGet, other, "")
	if got := stream.next(); !strings.Contains(got, `"id":1,"error"`) || stream.next() != "" {
		t.Errorf("another session: %s", got)
	}
}

// over checks that there is nothing to resume after an event.
func (s *endpoint) over(h header, last string) {
	s.t.Helper()
	with := header{"Last-Event-ID": last}
	maps.Copy(with, h)
	resp := s.ask(s.t.Context(), http.MethodGet, with, "")
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed {
		s.t.Errorf("after %q: %s", last, resp.Status)
	}
}

// The id for resuming is sent once a call takes time, not with its first message.
func TestResumeCallWithoutMessages(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{})
	h := s.initialize()
	e := s.stream(http.MethodPost, h, call("wait", "")) // it sends nothing until it is cancelled
	for e.id == "" && e.lines.Scan() {
		if id, ok := strings.CutPrefix(e.lines.Text(), "id: "); ok {
			e.id = id
		}
	}
	if !strings.HasSuffix(e.id, "-0") {
		t.Errorf("the stream begins with id %q", e.id)
	}
	<-s.began
	e.leave()
	h["Last-Event-ID"] = e.id
	resumed := s.stream(http.MethodGet, h, "")
	delete(h, "Last-Event-ID")
	s.post(h, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	<-s.ended
	if got := resumed.next(); got != "" {
		t.Errorf("the cancelled call was answered: %s", got)
	}
}

// Held events are bounded: a client that resumes after the response was dropped gets an error,
// rather than the GET stream of the session, on which it would wait forever.
func TestResumeIsBounded(t *testing.T) {
	t.Parallel()
	s := newEndpoint(t, mcpserver.Options{})
	h := s.initialize()
	get := s.stream(http.MethodGet, h, "")
	var first, last string
	for i := range 40 {
		e := s.stream(http.MethodPost, h, fmt.Sprintf(`{"jsonrpc":"2.0","id":"c%d","method":"tools/call","params":{"name":"progress","_meta":{"progressToken":1}}}`, i))
		for range 3 {
			e.next()
		}
		if i == 0 {
			first = e.id
		}
		if got := e.next(); !strings.Contains(got, "result") {
			t.Fatal(got)
		}
		if i == 0 {
			last = e.id
		}
	}
	with := header{"Last-Event-ID": first}
	maps.Copy(with, h)
	e := s.stream(http.MethodGet, with, "")
	if got := e.next(); !strings.Contains(got, `"id":"c0","error"`) || !strings.Contains(got, "no longer available") || e.next() != "" {
		t.Errorf("a call of long ago: %s", got)
	}
	s.over(h, e.id)
	s.over(h, last) // it has the response
	s.SetCatalog(mcpserver.Catalog{})
	if got := get.next(); !strings.Contains(got, "list_changed") {
		t.Errorf("the stream of the session: %q", got)
	}
}
