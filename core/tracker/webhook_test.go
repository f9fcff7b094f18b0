package tracker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// hooking is a server that delivers events only by webhook.
type hooking struct {
	t    *testing.T
	feed *sessiontest.Feed
	r    *standardwebhooks.Receiver

	mu     sync.Mutex
	calls  []string // subscribe with its cursor, unsubscribe
	target struct {
		URL, Secret string
	}
	refuse *sessiontest.EventError
	slow   time.Duration // until the answer to a subscribe request

	waiting atomic.Bool // such a request has arrived
}

func (h *hooking) answer(c *sessiontest.EventCall) (any, *sessiontest.EventError) {
	h.mu.Lock()
	slow := h.slow
	h.mu.Unlock()
	if c.Method == "events/subscribe" && slow > 0 {
		h.waiting.Store(true)
		select {
		case <-time.After(slow):
		case <-c.Done:
			return nil, nil
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch c.Method {
	case "events/subscribe":
		cursor := "null"
		if c.Cursor != nil {
			cursor = *c.Cursor
		}
		h.calls = append(h.calls, "subscribe "+cursor)
		if h.refuse != nil {
			return nil, h.refuse
		}
		_ = json.Unmarshal(c.Delivery, &h.target)
		if code, text := h.postLocked("v", `{"type":"verification","challenge":"n"}`); code != http.StatusOK || !strings.Contains(text, `"n"`) {
			h.t.Errorf("challenge: %d %s", code, text)
		}
		return map[string]any{"resultType": "complete", "id": "sub_1", "cursor": "7", "truncated": false, "refreshBefore": time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339Nano)}, nil
	case "events/unsubscribe":
		h.calls = append(h.calls, "unsubscribe")
		return map[string]any{"resultType": "complete"}, nil
	}
	return h.feed.Answer(c)
}

func (h *hooking) postLocked(id, body string) (int, string) {
	secret, err := standardwebhooks.ParseSecret(h.target.Secret)
	if err != nil {
		h.t.Error(err)
		return 0, ""
	}
	signature, _ := standardwebhooks.Sign([]standardwebhooks.Secret{secret}, id, time.Now(), []byte(body))
	q := httptest.NewRequest(http.MethodPost, h.target.URL, bytes.NewReader([]byte(body)))
	for name, value := range map[string]string{"Content-Type": "application/json", "webhook-id": id, "webhook-timestamp": strconv.FormatInt(time.Now().Unix(), 10), "webhook-signature": signature, "X-MCP-Subscription-Id": "sub_1"} {
		q.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.r.ServeHTTP(w, q)
	return w.Code, w.Body.String()
}

func (h *hooking) post(id, body string, want int) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if code, _ := h.postLocked(id, body); code != want {
		h.t.Errorf("%s: %d, want %d", body, code, want)
	}
}

func (h *hooking) asked() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.calls
	h.calls = nil
	return out
}

func updated(id, uri, cursor string) string {
	return fmt.Sprintf(`{"eventId":%q,"name":"resource.updated","timestamp":"2026-11-22T10:00:00Z","data":{"server":"up","uri":%q,"cause":"notify"},"cursor":%q}`, id, uri, cursor)
}

// hooked runs the test with such a server.
func hooked(t *testing.T, receiver bool, test func(w *world, docs *sessiontest.Fake, h *hooking)) {
	synctest.Test(t, func(t *testing.T) {
		h := &hooking{t: t, feed: sessiontest.NewFeed(), r: standardwebhooks.NewReceiver("https://hooks.example", standardwebhooks.NewKey())}
		opts := Options{}
		if receiver {
			opts.Webhooks = h.r
		}
		w := newWorld(t, opts)
		docs := w.Serve("docs", session.EraModern)
		h.feed.SetTypes(sessiontest.EventType("resource.updated", "webhook"))
		h.feed.Override(h.answer)
		withEvents(docs, h.feed)
		docs.SetQuietly("file:///a.md", "one")
		docs.SetQuietly("file:///b.md", "one")
		entry := sessiontest.Entry("docs")
		entry.Events.Delivery = config.DeliveryWebhook
		w.start(entry)
		w.pass(5 * time.Second)
		w.wantState("docs", event.Ready)
		w.forget()
		test(w, docs, h)
	})
}

func wantCalls(t *testing.T, h *hooking, want ...string) {
	t.Helper()
	if got := h.asked(); strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("asked %v, want %v", got, want)
	}
}

// Every event leads to one read. The subscription is refreshed before it expires, and ends with the
// tracker.
func TestEventsByWebhook(t *testing.T) {
	hooked(t, true, func(w *world, docs *sessiontest.Fake, h *hooking) {
		wantCalls(t, h, "subscribe null")
		docs.SetQuietly("file:///a.md", "two")
		h.post("e1", updated("e1", "file:///a.md", "8"), http.StatusNoContent)
		h.post("e1", updated("e1", "file:///b.md", "8"), http.StatusNoContent) // a repetition: b is not read
		w.pass(4 * time.Second)
		w.wantUpdates("file:///a.md event")
		if at := w.cursor(); at != "8" {
			t.Errorf("cursors %v", at)
		}
		h.post("e2", `{"eventId":"e2","name":"resource.updated","data":[]}`, http.StatusBadRequest)
		w.pass(8 * time.Minute) // half of ten minutes, with jitter, passes once or twice
		if n := len(h.asked()); n < 1 || n > 2 {
			t.Errorf("%d refreshes", n)
		}
		if at := w.cursor(); at != "8" {
			t.Errorf("a refresh moved the cursors: %v", at)
		}
		docs.SetQuietly("file:///b.md", "two")
		w.forget()
		h.post("m1", `{"type":"gap","cursor":"20"}`, http.StatusNoContent)
		w.pass(30 * time.Second)
		w.wantUpdates("file:///b.md resync")
		if at := w.cursor(); at != "20" {
			t.Errorf("cursors %v", at)
		}
		h.asked()
		w.stop()
		wantCalls(t, h, "unsubscribe")
	})
}

// After a temporary failure, the tracker subscribes again, with its cursor.
func TestWebhookTerminated(t *testing.T) {
	hooked(t, true, func(w *world, docs *sessiontest.Fake, h *hooking) {
		h.asked()
		h.post("e1", updated("e1", "file:///a.md", "8"), http.StatusNoContent)
		h.post("m1", `{"type":"terminated","error":{"code":-32603,"message":"restart"}}`, http.StatusNoContent)
		w.pass(10 * time.Second)
		wantCalls(t, h, "subscribe 8")
		docs.Disconnect()
		w.pass(30 * time.Second)
		wantCalls(t, h, "unsubscribe", "subscribe 8") // not a refresh: events that were delivered since are delivered again
		docs.SetQuietly("file:///a.md", "three")
		w.forget()
		h.post("e3", updated("e3", "file:///a.md", "9"), http.StatusNoContent)
		w.pass(4 * time.Second)
		w.wantUpdates("file:///a.md event")
	})
}

// A subscription that the server is still making when the tracker ends is also ended, once it was
// made.
func TestWebhookEndsWhileItBegins(t *testing.T) {
	for name, slow := range map[string]time.Duration{"answered": 300 * time.Millisecond, "not answered": time.Minute} {
		t.Run(name, func(t *testing.T) {
			hooked(t, true, func(w *world, docs *sessiontest.Fake, h *hooking) {
				h.asked()
				h.mu.Lock()
				h.slow = slow
				h.mu.Unlock()
				docs.Disconnect()
				want := []string{"unsubscribe", "subscribe 7", "unsubscribe"}
				if slow == time.Minute {
					want = []string{"unsubscribe", "unsubscribe"} // the request is abandoned
				}
				for w.pass(10 * time.Millisecond); !h.waiting.Load(); w.pass(10 * time.Millisecond) {
				}
				if took := w.stopped(); took > 3*time.Second {
					t.Errorf("the end took %v", took)
				}
				wantCalls(t, h, want...)
			})
		})
	}
}

// If the server cannot reach the receiver and has no other delivery mode, the subscription is
// retried, with one warning that does not contain the secret.
func TestWebhookEndpointNotReachable(t *testing.T) {
	hooked(t, true, func(w *world, docs *sessiontest.Fake, h *hooking) {
		h.mu.Lock()
		h.refuse = &sessiontest.EventError{Code: -32015, Message: "CallbackEndpointError: " + h.target.Secret}
		h.mu.Unlock()
		h.post("m1", `{"type":"terminated","error":{"code":-32603,"message":"restart"}}`, http.StatusNoContent)
		w.pass(5 * time.Minute)
		if n := strings.Count(strings.Join(w.logs.warnings(), "\n"), "cannot deliver events by webhook to --public-url"); n != 1 {
			t.Errorf("%d warnings", n)
		}
		if strings.Contains(strings.Join(w.logs.warnings(), "\n"), h.target.Secret) {
			t.Error("the secret is logged")
		}
		h.mu.Lock()
		h.refuse = nil
		h.mu.Unlock()
		h.asked()
		w.pass(time.Minute)
		if n := len(h.asked()); n == 0 {
			t.Error("it was not retried")
		}
	})
}

// Without a receiver, a warning names what is missing.
func TestWebhookWithoutReceiver(t *testing.T) {
	hooked(t, false, func(w *world, docs *sessiontest.Fake, h *hooking) {
		wantCalls(t, h)
		if !strings.Contains(strings.Join(w.logs.warnings(), "\n"), "requires serve-sse --public-url") {
			t.Error(strings.Join(w.logs.warnings(), "\n"))
		}
	})
}
