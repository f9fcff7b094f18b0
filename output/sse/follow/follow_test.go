package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(r io.Reader, last string) (events []Event, p *parser, err error) {
	p = newParser(r, last)
	for {
		e, err := p.next()
		if err != nil {
			return events, p, err
		}
		events = append(events, e)
	}
}

func TestParser(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []Event
	}{
		{"plain", "id: 1\nevent: a\ndata: x\n\n", []Event{{"1", "a", "x"}}},
		{"CRLF", "id: 1\r\nevent: a\r\ndata: x\r\n\r\n", []Event{{"1", "a", "x"}}},
		{"CR", "id: 1\revent: a\rdata: x\r\r", []Event{{"1", "a", "x"}}},
		{"no space", "id:1\nevent:a\ndata:x\n\n", []Event{{"1", "a", "x"}}},
		{"one space goes", "data:  x\n\n", []Event{{"", "message", " x"}}},
		{"many lines", "data: a\ndata\ndata:\ndata: b\n\n", []Event{{"", "message", "a\n\n\nb"}}},
		{"byte order mark", "\xef\xbb\xbfdata: x\n\n", []Event{{"", "message", "x"}}},
		{"comments, unknown fields", ": hi\nfoo: bar\n:\ndata: x\n\n", []Event{{"", "message", "x"}}},
		{"id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []Event{{"1", "message", "a"}, {"1", "message", "b"}, {"", "message", "c"}}},
		{"id alone", "id: 1\n\ndata: b\n\n", []Event{{"1", "message", "b"}}},
		{"id with NUL", "id: 1\ndata: a\n\nid: 2\x00\ndata: b\n\n", []Event{{"1", "message", "a"}, {"1", "message", "b"}}},
		{"id that no header carries", "id: 1\ndata: a\n\nid: 2\x01\ndata: b\n\nid: 3\x7f\ndata: c\n\n", []Event{{"1", "message", "a"}, {"1", "message", "b"}, {"1", "message", "c"}}},
		{"type is of one event", "event: a\n\ndata: b\n\n", []Event{{"", "message", "b"}}},
		{"unfinished", "data: a\n\nid: 2\ndata: b\n", []Event{{"", "message", "a"}}},
		{"empty data", "data\n\n", []Event{{"", "message", ""}}},
		{"colon in value", "data: a: b\n\n", []Event{{"", "message", "a: b"}}},
		{"long", "data: " + strings.Repeat("x", 100_000) + "\n\n", []Event{{"", "message", strings.Repeat("x", 100_000)}}},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in)), "in halves": iotest.HalfReader(strings.NewReader(c.in))} {
			got, _, err := parse(r, "")
			if !slices.Equal(got, c.want) || !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: %.200q, %v", c.name, name, got, err)
			}
		}
	}
	if _, p, _ := parse(strings.NewReader("retry: 1x\nretry: -1\nretry: +5\nretry: 2500\n"), ""); p.retry != 2500*time.Millisecond {
		t.Errorf("retry %v", p.retry)
	}
	if _, _, err := parse(io.MultiReader(strings.NewReader("data: "), endless{}), ""); !errors.Is(err, errTooLarge) {
		t.Errorf("an endless line: %v", err)
	}
	if _, _, err := parse(&repeat{text: "data: x\n"}, ""); !errors.Is(err, errTooLarge) {
		t.Errorf("endless lines: %v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

type repeat struct{ text string }

func (r *repeat) Read(b []byte) (int, error) {
	n := 0
	for len(b)-n >= len(r.text) {
		n += copy(b[n:], r.text)
	}
	return n, nil
}

// However the stream is cut into reads, the events are the same, every id can be sent
// back, and no type has a line end.
func FuzzParser(f *testing.F) {
	f.Add("id: 1\r\ndata: a\rdata: b\n\n: c\n\nevent: x\ndata\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		whole, _, _ := parse(strings.NewReader(in), "")
		bytes, _, _ := parse(iotest.OneByteReader(strings.NewReader(in)), "")
		if !slices.Equal(whole, bytes) {
			t.Errorf("%q and %q", whole, bytes)
		}
		for _, e := range whole {
			if !sendable(e.ID) || strings.ContainsAny(e.Type, "\r\n") {
				t.Errorf("%q", e)
			}
		}
	})
}

// script is a feed without a network: each attempt gets the next answer, the last
// one again and again.
type script struct {
	mu      sync.Mutex
	answers []func(*http.Request) *http.Response
	at      []time.Time
	last    []string // Last-Event-ID
}

func (s *script) RoundTrip(q *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.at), len(s.answers)-1)
	s.at = append(s.at, time.Now())
	s.last = append(s.last, q.Header.Get("Last-Event-ID"))
	res := s.answers[n](q)
	if res == nil {
		return nil, errors.New("refused")
	}
	return res, nil
}

func (s *script) attempts() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at)
}

func stream(text string) func(*http.Request) *http.Response {
	return answer(200, "text/event-stream; charset=utf-8", text)
}

func answer(status int, kind, text string) func(*http.Request) *http.Response {
	return func(*http.Request) *http.Response {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(text))}
	}
}

// hanging is a stream that says something and then nothing, until it is given up.
func hanging(text string) func(*http.Request) *http.Response {
	return func(q *http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(io.MultiReader(strings.NewReader(text), silent{q.Context()}))}
	}
}

type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }

// An end, clean or not, is followed by another attempt with the last id: not more
// than one a second, later and later while nothing is heard, within 30 s.
func TestRunPaces(t *testing.T) {
	for name, c := range map[string]struct {
		answer    func(*http.Request) *http.Response
		low, high time.Duration // of the pauses in the end
	}{
		"clean end, nothing said":   {stream(""), 30 * time.Second, 30 * time.Second},
		"broken off, nothing said":  {stream("data: x"), 30 * time.Second, 30 * time.Second},
		"no connection":             {func(*http.Request) *http.Response { return nil }, 30 * time.Second, 30 * time.Second},
		"503":                       {answer(503, "text/plain", ""), 30 * time.Second, 30 * time.Second},
		"clean end after an event":  {stream("data: x\n\n"), time.Second, 1250 * time.Millisecond},
		"hot retry":                 {stream("retry: 1\ndata: x\n\n"), time.Second, 1250 * time.Millisecond},
		"retry of 5 s":              {stream("retry: 5000\ndata: x\n\n"), 5 * time.Second, 6250 * time.Millisecond},
		"retry of 5 s, and no more": {stream("retry: 5000\n\n"), 30 * time.Second, 30 * time.Second},
		"retry of an hour":          {stream("retry: 3600000\ndata: x\n\n"), 30 * time.Second, 30 * time.Second},
		"falls silent":              {hanging("data: x\n\n: hi\n\n"), 91 * time.Second, 92 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []func(*http.Request) *http.Response{c.answer}}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
				defer cancel()
				if err := Run(ctx, Options{URL: "http://feed.example/events", Client: &http.Client{Transport: s}}, func(Event) error { return nil }); err != nil {
					t.Fatal(err)
				}
				at := s.attempts()
				for i := 1; i < len(at); i++ {
					pause := at[i].Sub(at[i-1])
					if pause < time.Second || strings.HasPrefix(name, "retry of 5 s") && pause < 5*time.Second || i > 8 && (pause < c.low || pause > c.high) {
						t.Errorf("attempt %d after %v", i, pause)
					}
				}
				if len(at) < 10 {
					t.Errorf("%d attempts", len(at))
				}
			})
		})
	}
}

func TestRunResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func(*http.Request) *http.Response{
			stream("id: a-1\ndata: 1\n\nid: a-2\r\ndata:2\r\n\r\nid: a-3\ndata: unfinished\n"),
			stream("id: a-3\ndata: 3\n\n"),
			answer(204, "", ""),
		}}
		var got []string
		err := Run(t.Context(), Options{URL: "http://feed.example/events", LastID: "a-0", Client: &http.Client{Transport: s}},
			func(e Event) error { got = append(got, e.ID+" "+e.Data); return nil })
		if !errors.Is(err, ErrStopped) || !slices.Equal(got, []string{"a-1 1", "a-2 2", "a-3 3"}) || !slices.Equal(s.last, []string{"a-0", "a-2", "a-3"}) {
			t.Errorf("%v, %q, asked for %q", err, got, s.last)
		}
	})
}

// An id that no header can carry would end all requests for good.
func TestRunSendsNoIDThatNoHeaderCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func(*http.Request) *http.Response{
			stream("id: a\x01b\ndata: 1\n\n"), stream("id: a-2\ndata: 2\n\nid: a\x7f3\ndata: 3\n\n"), answer(204, "", ""),
		}}
		var got []string
		err := Run(t.Context(), Options{URL: "http://feed.example/events", LastID: "a\n0", Client: &http.Client{Transport: s}},
			func(e Event) error { got = append(got, e.ID+" "+e.Data); return nil })
		if !errors.Is(err, ErrStopped) || !slices.Equal(got, []string{" 1", "a-2 2", "a-2 3"}) || !slices.Equal(s.last, []string{"", "", "a-2"}) {
			t.Errorf("%v, %q, asked for %q", err, got, s.last)
		}
	})
}

// A slow taker is no silence of the feed.
func TestRunSlowTaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func(*http.Request) *http.Response{stream("data: 1\n\ndata: 2\n\n"), answer(204, "", "")}}
		n := 0
		err := Run(t.Context(), Options{URL: "http://feed.example/", Client: &http.Client{Transport: s}}, func(Event) error { n++; time.Sleep(time.Hour); return nil })
		if !errors.Is(err, ErrStopped) || n != 2 || len(s.at) != 2 {
			t.Errorf("%v, %d events over %d connections", err, n, len(s.at))
		}
	})
}

func TestRunEnds(t *testing.T) {
	for status, kind := range map[int]string{401: "", 403: "", 404: "", 302: "", 200: "text/html"} {
		s := &script{answers: []func(*http.Request) *http.Response{answer(status, kind, "")}}
		err := Run(t.Context(), Options{URL: "http://feed.example/", Client: &http.Client{Transport: s}}, nil)
		if _, ok := errors.AsType[*RefusedError](err); !ok || len(s.at) != 1 {
			t.Errorf("%d: %v after %d attempts", status, err, len(s.at))
		}
	}
	wrong := errors.New("no room")
	s := &script{answers: []func(*http.Request) *http.Response{stream("data: x\n\n")}}
	if err := Run(t.Context(), Options{URL: "http://feed.example/", Client: &http.Client{Transport: s}}, func(Event) error { return wrong }); err != wrong { //nolint:errorlint // it is that one
		t.Errorf("%v", err)
	}
}

// Over a real socket: headers go out, redirects are not followed, and the end of
// the context ends it at once.
func TestRunRealSocket(t *testing.T) {
	var seen http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/events", http.StatusFound)
			return
		}
		seen = r.Header.Clone()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, "id: 7\ndata: x\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err := Run(ctx, Options{URL: srv.URL + "/events", Header: http.Header{"Authorization": {"Bearer t"}}}, func(e Event) error {
		if e != (Event{"7", "message", "x"}) {
			t.Errorf("%+v", e)
		}
		cancel()
		return nil
	})
	if err != nil || seen.Get("Authorization") != "Bearer t" || seen.Get("Accept") != "text/event-stream" {
		t.Errorf("%v, %v", err, seen)
	}
	if refused, ok := errors.AsType[*RefusedError](Run(t.Context(), Options{URL: srv.URL + "/moved"}, nil)); !ok || refused.Status != 302 {
		t.Errorf("a redirect: %v", refused)
	}
}
