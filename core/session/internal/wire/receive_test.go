package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// asked is a connection over HTTP whose server sends requests to the client, and what the server
// got.
type asked struct {
	c      *Conn
	answer chan struct{} // closed by the test: the client answers
	take   func(post int) (status int, err error)

	mu    sync.Mutex
	posts int
	got   map[string]int // answers that the server took, by id
}

func newAsked(take func(post int) (int, error)) *asked {
	a := &asked{answer: make(chan struct{}), take: take, got: map[string]int{}}
	cfg := testConfig()
	cfg.Handler.Request = func(ctx context.Context, _ string, _ json.RawMessage) (json.RawMessage, error) {
		select {
		case <-a.answer:
			return json.RawMessage(`{"ok":true}`), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	e := &HTTPDialer{cfg: cfg, url: &url.URL{Scheme: "http", Host: "origin.test"}, base: newBase(nil)}
	a.c = e.Streamable()
	a.c.http.base = network(a.post)
	return a
}

func (a *asked) post(q *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(q.Body)
	var m struct {
		ID    json.RawMessage
		Error json.RawMessage
	}
	_ = json.Unmarshal(body, &m)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.posts++
	status, err := a.take(a.posts)
	if err != nil {
		return nil, err
	}
	if status < 300 && len(m.Error) == 0 {
		a.got[string(m.ID)]++
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("x")), Request: q}, nil
}

func (a *asked) ask(ids ...int) {
	for _, id := range ids {
		a.c.handle(new(scratch), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"elicitation/create"}`, id))
	}
}

// close ends the connection once every answer was posted or given up.
func (a *asked) close() {
	time.Sleep(answerPatience)
	a.c.group.Wait()
	a.c.cancel()
}

// A client whose answers come simultaneously loses none of them.
func TestNoAnswerOfAClientIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := make(chan struct{})
		a := newAsked(func(int) (int, error) { return http.StatusAccepted, nil })
		next := a.c.http.base
		a.c.http.base = network(func(q *http.Request) (*http.Response, error) { <-slow; return next.RoundTrip(q) })
		for id := range maxInbound {
			a.ask(id)
		}
		close(a.answer)
		synctest.Wait()
		close(slow)
		a.close()
		if len(a.got) != maxInbound {
			t.Errorf("the server got %d of %d answers", len(a.got), maxInbound)
		}
	})
}

// An answer that the server temporarily could not accept is posted again.
func TestAnswerIsPostedAgain(t *testing.T) {
	for name, take := range map[string]func(int) (int, error){
		"unavailable": func(int) (int, error) { return http.StatusServiceUnavailable, nil },
		"broken off":  func(int) (int, error) { return 0, errors.New("connection reset by peer") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsked(func(post int) (int, error) {
					if post <= 3 {
						return take(post)
					}
					return http.StatusAccepted, nil
				})
				a.ask(1)
				close(a.answer)
				a.close()
				if a.got["1"] != 1 || a.posts != 4 {
					t.Errorf("the server got %v with %d requests", a.got, a.posts)
				}
			})
		})
	}
	t.Run("refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a := newAsked(func(int) (int, error) { return http.StatusBadRequest, nil })
			a.ask(1)
			close(a.answer)
			a.close()
			if a.posts != 1 {
				t.Errorf("a refused answer was posted %d times", a.posts)
			}
		})
	})
}

// A repeated request, as after a stream was resumed, is answered once, by the client.
func TestRepeatedRequestIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsked(func(int) (int, error) { return http.StatusAccepted, nil })
		a.ask(1, 1)
		synctest.Wait()
		close(a.answer)
		a.close()
		if a.got["1"] != 1 || a.posts != 1 {
			t.Errorf("the server got %v with %d requests", a.got, a.posts)
		}
	})
}

// The same text gives the same notification without being decoded again. The cache is bounded and
// never confuses similar texts.
func TestSeenNotifications(t *testing.T) { // not parallel: allocations are counted
	var got []Notification
	c := &Conn{cfg: Config{Handler: Handler{Notification: func(n *Notification) { got = append(got, *n); n.URI = "spoilt" }}}}
	var m scratch
	updated := func(uri, more string) []byte {
		return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q%s}}`, uri, more)
	}
	for range 3 {
		for _, data := range [][]byte{
			updated("a", ""), updated("b", ""), updated("a", `,"_meta":{"io.modelcontextprotocol/subscriptionId":1}`),
			[]byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`),
		} {
			c.handle(&m, data)
		}
		if len(got) != 4 || got[0].URI != "a" || got[1].URI != "b" || got[2].URI != "a" || got[0].Meta.Subscription.Present ||
			got[2].Meta.Subscription.ID != 1 || got[3].Method != "notifications/tools/list_changed" || got[0].Method != "notifications/resources/updated" {
			t.Fatalf("%+v", got)
		}
		got = nil
	}
	again := updated("a", "")
	if n := testing.AllocsPerRun(100, func() { c.handle(&m, again); got = got[:0] }); n > 0 {
		t.Errorf("%v allocations for what was decoded before", n)
	}
	for i := range 10 * maxSeen {
		c.handle(&m, updated(fmt.Sprint(i), ""))
	}
	for _, data := range [][]byte{
		updated(fmt.Sprintf("%0*d", maxSeenSize, 1), ""),
		[]byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":1}}`),
		[]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`),
	} {
		c.handle(&m, data)
		if _, ok := m.seen[string(data)]; ok {
			t.Errorf("%.100s is remembered", data)
		}
	}
	if len(m.seen) != maxSeen {
		t.Errorf("%d are remembered", len(m.seen))
	}
}

// A server may keep ids as texts.
func TestIDInAText(t *testing.T) {
	t.Parallel()
	var n Notification
	if err := json.Unmarshal([]byte(`{"progressToken":"5","_meta":{"io.modelcontextprotocol/subscriptionId":"6"}}`), &n); err != nil || n.ProgressToken != 5 || n.Meta.Subscription.ID != 6 {
		t.Errorf("%+v, %v", n, err)
	}
}
