package session

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// Whatever the transport asks for, credentials go to one origin.
func TestGuardKeepsToItsOrigin(t *testing.T) {
	var hits int
	ts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer ts.Close()
	origin, _ := url.Parse("http://origin.test/mcp")
	base := newBase()
	defer base.CloseIdleConnections()
	g := &guard{base: base, origin: origin, headers: http.Header{"Authorization": {"Bearer x"}}, redact: newRedactor(nil)}
	for _, target := range []string{ts.URL, "https://origin.test/mcp", "http://origin.test:81/mcp"} {
		q, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, target+"?q=secret", strings.NewReader("x"))
		p, err := g.RoundTrip(q)
		if err == nil {
			p.Body.Close()
			t.Errorf("%s was asked", target)
		} else if strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "another origin") {
			t.Errorf("%v", err)
		}
	}
	if hits != 0 {
		t.Errorf("%d requests left", hits)
	}
}

// network is one that the test plays itself.
type network func(*http.Request) (*http.Response, error)

func (f network) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// However often a server asks, only so many answers wait for it to take them; and no
// request of ours waits for a slot.
func TestGuardBoundsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin, _ := url.Parse("http://origin.test/mcp")
		release := make(chan struct{})
		out := 0 // of requests; guarded by mu
		var mu sync.Mutex
		g := &guard{origin: origin, redact: newRedactor(nil), maxBody: 1 << 20, answers: make(chan struct{}, maxAnswers),
			base: network(func(q *http.Request) (*http.Response, error) {
				mu.Lock()
				out++
				mu.Unlock()
				<-release
				return &http.Response{StatusCode: http.StatusAccepted, Body: io.NopCloser(strings.NewReader("x")), Request: q}, nil
			})}
		var refused int // guarded by mu
		var bodies []io.Closer
		var wg sync.WaitGroup
		defer wg.Wait()
		post := func(ctx context.Context) {
			wg.Go(func() {
				q, _ := http.NewRequestWithContext(ctx, http.MethodPost, origin.String(), strings.NewReader("x"))
				p, err := g.RoundTrip(q)
				mu.Lock()
				defer mu.Unlock()
				if errors.Is(err, errAnswers) {
					refused++
				} else {
					bodies = append(bodies, p.Body)
				}
			})
		}
		x := new(exchange)
		post(withExchange(t.Context(), x))
		synctest.Wait()
		for range 50 {
			post(t.Context())                  // asked on the notification stream
			post(withExchange(t.Context(), x)) // asked on that of a request
		}
		post(withExchange(t.Context(), new(exchange)))
		synctest.Wait()
		if out != 2+maxAnswers || refused != 100-maxAnswers {
			t.Errorf("%d are out, %d were refused", out, refused)
		}
		if x.error() != nil {
			t.Errorf("the request fails of an answer: %v", x.error())
		}
		close(release)
		synctest.Wait()
		post(t.Context())
		synctest.Wait()
		if refused != 100-maxAnswers+1 {
			t.Error("an answer whose body is not closed has no slot")
		}
		for _, b := range bodies {
			_ = b.Close()
		}
		post(t.Context())
		synctest.Wait()
		if refused != 100-maxAnswers+1 {
			t.Error("the slots are not given back")
		}
	})
}
