package remote

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
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/eventstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a feed without a network: each attempt gets the next response. The last one
// repeats.
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

// hanging is a stream that sends text and then nothing until it is closed.
func hanging(text string) func(*http.Request) *http.Response {
	return func(q *http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(io.MultiReader(strings.NewReader(text), silent{q.Context()}))}
	}
}

// dripping is a stream that sends text and then a byte a second, none of which ends a line.
func dripping(text string) func(*http.Request) *http.Response {
	return func(q *http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(io.MultiReader(strings.NewReader(text), drip{q.Context()}))}
	}
}

type drip struct{ ctx context.Context }

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(time.Second):
		return copy(p, "x"), nil
	}
}

// waiting is a feed whose response does not begin.
func waiting(q *http.Request) *http.Response {
	<-q.Context().Done()
	return nil
}

type silent struct{ ctx context.Context }

func (s silent) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }

// Follow always retries, at most once a second. The wait grows up to 30 s as long as no event is
// received.
func TestFollowBacksOff(t *testing.T) {
	for name, c := range map[string]struct {
		answer    func(*http.Request) *http.Response
		low, high time.Duration // of the later pauses
	}{
		"clean end, no event":      {stream(""), 20 * time.Second, 30 * time.Second},
		"truncated, no event":      {stream("data: x"), 20 * time.Second, 30 * time.Second},
		"no connection":            {func(*http.Request) *http.Response { return nil }, 20 * time.Second, 30 * time.Second},
		"503":                      {answer(503, "text/plain", ""), 20 * time.Second, 30 * time.Second},
		"clean end after an event": {stream("data: x\n\n"), time.Second, 1250 * time.Millisecond},
		"hot retry":                {stream("retry: 1\ndata: x\n\n"), time.Second, 1250 * time.Millisecond},
		"retry of 5 s":             {stream("retry: 5000\ndata: x\n\n"), 5 * time.Second, 6250 * time.Millisecond},
		"retry of 5 s, no event":   {stream("retry: 5000\n\n"), 20 * time.Second, 30 * time.Second},
		"retry of an hour":         {stream("retry: 3600000\ndata: x\n\n"), 20 * time.Second, 30 * time.Second},
		"falls silent":             {hanging("data: x\n\n: hi\n\n"), 45 * time.Second, 47 * time.Second},
		"drips a line forever":     {dripping("data: x\n\n: hi\n\ndata:"), 45 * time.Second, 47 * time.Second},
		"no response":              {waiting, 65 * time.Second, 75 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: []func(*http.Request) *http.Response{c.answer}}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
				defer cancel()
				if err := Follow(ctx, FeedOptions{URL: "http://feed.example/events", Client: &http.Client{Transport: s}}, func(eventstream.Event) error { return nil }); err != nil {
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

func TestFollowResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func(*http.Request) *http.Response{
			stream("id: a-1\ndata: 1\n\nid: a-2\r\ndata:2\r\n\r\nid: a-3\ndata: unfinished\n"),
			stream("id: a-3\ndata: 3\n\n"),
			answer(204, "", ""),
		}}
		var got []string
		err := Follow(t.Context(), FeedOptions{URL: "http://feed.example/events", LastID: "a-0", Client: &http.Client{Transport: s}},
			func(e eventstream.Event) error { got = append(got, e.ID+" "+e.Data); return nil })
		if !errors.Is(err, ErrFeedEnded) || !slices.Equal(got, []string{"a-1 1", "a-2 2", "a-3 3"}) || !slices.Equal(s.last, []string{"a-0", "a-2", "a-3"}) {
			t.Errorf("%v, %q, asked for %q", err, got, s.last)
		}
	})
}

// With an ID that is invalid in a header, no further request would succeed.
func TestFollowIgnoresIDsInvalidInHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func(*http.Request) *http.Response{
			stream("id: a\x01b\ndata: 1\n\n"), stream("id: a-2\ndata: 2\n\nid: a\x7f3\ndata: 3\n\n"), answer(204, "", ""),
		}}
		var got []string
		err := Follow(t.Context(), FeedOptions{URL: "http://feed.example/events", LastID: "a\n0", Client: &http.Client{Transport: s}},
			func(e eventstream.Event) error { got = append(got, e.ID+" "+e.Data); return nil })
		if !errors.Is(err, ErrFeedEnded) || !slices.Equal(got, []string{" 1", "a-2 2", "a-2 3"}) || !slices.Equal(s.last, []string{"", "", "a-2"}) {
			t.Errorf("%v, %q, asked for %q", err, got, s.last)
		}
	})
}

// A slow consumer does not make the feed appear idle.
func TestFollowWithASlowConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []func(*http.Request) *http.Response{stream("data: 1\n\ndata: 2\n\n"), answer(204, "", "")}}
		n := 0
		err := Follow(t.Context(), FeedOptions{URL: "http://feed.example/", Client: &http.Client{Transport: s}}, func(eventstream.Event) error { n++; time.Sleep(time.Hour); return nil })
		if !errors.Is(err, ErrFeedEnded) || n != 2 || len(s.at) != 2 {
			t.Errorf("%v, %d events over %d connections", err, n, len(s.at))
		}
	})
}

func TestFollowEnds(t *testing.T) {
	for status, kind := range map[int]string{401: "", 403: "", 404: "", 302: "", 200: "text/html"} {
		s := &script{answers: []func(*http.Request) *http.Response{answer(status, kind, "")}}
		err := Follow(t.Context(), FeedOptions{URL: "http://feed.example/", Client: &http.Client{Transport: s}}, nil)
		if _, ok := errors.AsType[*RefusedError](err); !ok || len(s.at) != 1 {
			t.Errorf("%d: %v after %d attempts", status, err, len(s.at))
		}
	}
	wrong := errors.New("no room")
	s := &script{answers: []func(*http.Request) *http.Response{stream("data: x\n\n")}}
	if err := Follow(t.Context(), FeedOptions{URL: "http://feed.example/", Client: &http.Client{Transport: s}}, func(eventstream.Event) error { return wrong }); err != wrong { //nolint:errorlint // it is that one
		t.Errorf("%v", err)
	}
}

// Over a real socket, headers are sent, redirects are not followed, and canceling the context
// ends Follow immediately.
func TestFollowOverARealSocket(t *testing.T) {
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
	err := Follow(ctx, FeedOptions{URL: srv.URL + "/events", Header: http.Header{"Authorization": {"Bearer t"}}}, func(e eventstream.Event) error {
		if e != (eventstream.Event{ID: "7", Type: "message", Data: "x"}) {
			t.Errorf("%+v", e)
		}
		cancel()
		return nil
	})
	if err != nil || seen.Get("Authorization") != "Bearer t" || seen.Get("Accept") != "text/event-stream" {
		t.Errorf("%v, %v", err, seen)
	}
	if refused, ok := errors.AsType[*RefusedError](Follow(t.Context(), FeedOptions{URL: srv.URL + "/moved"}, nil)); !ok || refused.Status != 302 {
		t.Errorf("a redirect: %v", refused)
	}
}
