package realtime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

func TestSessionInjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, &realtimetest.Endpoint{}, nil)
		synctest.Wait()
		at := time.Now()
		r.Offer(update(7, "file:///guide.md", at))
		synctest.Wait()
		items := r.far.Items()
		want := "Resource file:///guide.md updated for MCP server docs at " + at.UTC().Format("2006-01-02T15:04:05.000Z")
		if len(items) != 1 || len(items[0].Texts) != 1 || items[0].Texts[0] != want || items[0].Role != "user" {
			t.Fatalf("items %+v, want the text %q", items, want)
		}
		got := r.injected()
		if len(got) != 1 || got[0].EventID != "00000000000000aa-7" || got[0].ItemID != items[0].ID || got[0].Latency != 0 || !got[0].At.Equal(at) {
			t.Errorf("receipts %+v", got)
		}
		if s := r.Stats(); s.Injected != 1 || s.Connections != 1 || s.Waiting != 0 {
			t.Errorf("stats %+v", s)
		}
		for _, q := range r.far.Requests() {
			if q.Header.Get("OpenAI-Beta") != "" || q.URL.RawQuery != "model=test" {
				t.Errorf("handshake %v %v", q.URL, q.Header)
			}
		}
	})
}

// Each of the three acknowledgements counts, also of an endpoint that gives items its own IDs: then the ID
// of our event identifies it.
func TestSessionAcknowledgements(t *testing.T) {
	for _, typ := range []string{"conversation.item.added", "conversation.item.done", "conversation.item.created", "own ID"} {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
				if typ == "own ID" {
					c.Say(map[string]any{"type": "conversation.item.added", "event_id": it.EventID, "item": map[string]any{"id": "item_1"}})
					return
				}
				c.Acknowledge(typ, "item_of_another")
				c.Acknowledge(typ, it.ID)
			}}, nil)
			r.Offer(update(1, "a:b", time.Now()))
			synctest.Wait()
			if n := len(r.injected()); n != 1 {
				t.Errorf("%s: %d receipts", typ, n)
			}
		})
	}
}

// An item that is not acknowledged within 5 s is sent again under the same ID. The rejection of the
// repetition shows that the first one had arrived.
func TestSessionSendsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		r := begin(t, &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
			if lost++; lost == 1 {
				return
			}
			c.Fail(it.EventID, "item_already_exists", "")
		}}, nil)
		start := time.Now()
		r.Offer(update(1, "a:b", start))
		time.Sleep(time.Minute)
		items, got := r.far.Items(), r.injected()
		if len(items) != 2 || items[0].ID != items[1].ID || items[1].At.Sub(start) != 5*time.Second {
			t.Errorf("items %+v", items)
		}
		if len(got) != 1 || got[0].Latency != 5*time.Second || len(r.failed()) != 0 {
			t.Errorf("receipts %+v, failures %+v", got, r.failed())
		}
	})
}

// An acknowledgement that arrives after the repetition counts once.
func TestSessionLateAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
			go func() {
				time.Sleep(7 * time.Second)
				c.Acknowledge("conversation.item.added", it.ID)
			}()
		}}, nil)
		r.Offer(update(1, "a:b", time.Now()))
		time.Sleep(time.Minute)
		if got := r.injected(); len(got) != 1 || got[0].Latency != 7*time.Second || len(r.far.Items()) != 2 {
			t.Errorf("receipts %+v, %d items", got, len(r.far.Items()))
		}
	})
}

// A message that is never acknowledged, and a rejected one, are abandoned. Messages that shared an
// item with them are delivered over the same connection. The next run repeats none of them.
func TestSessionGivesUpOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
			texts := strings.Join(it.Texts, "\n")
			switch {
			case strings.Contains(texts, "silent:"):
			case strings.Contains(texts, "bad:"):
				c.Fail("evt_of_another", "other", "not about us")
				c.Fail(it.EventID, "invalid_value", "Invalid\nvalue")
			default:
				c.Add(it)
			}
		}}, nil)
		r.Pass("00000000000000aa-0")
		for i, uri := range []string{"silent:1", "bad:1", "good:1"} {
			r.Offer(update(uint64(i+1), uri, time.Now()))
		}
		time.Sleep(2 * time.Minute)
		failed, got := r.failed(), r.injected()
		if len(failed) != 2 || failed[0].ResourceURI != "silent:1" || failed[1].Reason != `invalid_request_error: invalid_value: Invalid\nvalue` {
			t.Errorf("failures %+v", failed)
		}
		if len(got) != 1 || got[0].ResourceURI != "good:1" || len(r.far.Items()) != 8 || len(r.far.Requests()) != 1 {
			t.Errorf("receipts %+v, %d items, %d connections", got, len(r.far.Items()), len(r.far.Requests()))
		}
		if p := r.Progress(); p.Cursor != "00000000000000aa-3" || len(p.Newest) != 0 {
			t.Errorf("progress %+v", p)
		}
	})
}

// Lost connections do not count as attempts: a working connection still gets all attempts.
func TestSessionAttemptsAfterLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := 0
		r := begin(t, &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
			if c.N <= 3 {
				_ = c.CloseNow()
			} else if seen++; seen == 2 {
				c.Add(it)
			}
		}}, nil)
		synctest.Wait()
		r.Offer(update(1, "a:b", time.Now()))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(r.injected()) != 1 || seen != 2 {
			t.Errorf("received %d times, failed %+v", seen, r.failed())
		}
	})
}

// After an outage each resource gets one message, about its newest update.
func TestSessionOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var first *realtimetest.Conn
		r := begin(t, &realtimetest.Endpoint{
			Refuse: func(int, *http.Request) int { return map[bool]int{true: 503}[down.Load()] },
			Greet: func(c *realtimetest.Conn) {
				if first == nil {
					first = c
				}
			},
			Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
				if c.N > 1 { // the first connection acknowledges nothing
					c.Add(it)
				}
			},
		}, nil)
		synctest.Wait()
		r.Offer(update(1, "a:0", time.Now()))
		synctest.Wait()
		down.Store(true)
		_ = first.CloseNow()
		for i := range uint64(3000) {
			time.Sleep(100 * time.Millisecond)
			r.Offer(update(i+2, fmt.Sprintf("a:%d", i%3), time.Now()))
		}
		last := time.Now()
		down.Store(false)
		time.Sleep(time.Minute)
		got := r.injected()
		if len(got) != 3 {
			t.Fatalf("%d messages: %+v", len(got), got)
		}
		for _, x := range got {
			if last.Sub(x.Timestamp) > 300*time.Millisecond {
				t.Errorf("%s at %v, which is not the newest", x.ResourceURI, x.Timestamp)
			}
		}
		if p := r.Progress(); p.Cursor != "00000000000000aa-3001" || len(p.Newest) != 0 {
			t.Errorf("progress %+v", p)
		}
	})
}

// A connection that drops within a frame, that becomes silent, or that sends too much is replaced,
// and the message in flight is delivered.
func TestSessionReplacesConnections(t *testing.T) {
	faults := map[string]func(*realtimetest.Endpoint){
		"drop in mid-frame": func(e *realtimetest.Endpoint) {
			e.Create = func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
				if c.N > 1 {
					c.Add(it)
					return
				}
				w, _ := c.Writer(c.Context(), websocket.MessageText)
				_, _ = w.Write([]byte(`{"type":"conversation.item.added","item":{"id":"` + it.ID + `","x":"` + strings.Repeat("x", 5000)))
				_ = c.CloseNow()
			}
		},
		"silence": func(e *realtimetest.Endpoint) {
			e.Accept.OnPingReceived = func(ctx context.Context, _ []byte) bool { return len(e.Requests()) > 1 }
			e.Create = func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
				if c.N > 1 {
					c.Add(it)
				}
			}
		},
		"too much": func(e *realtimetest.Endpoint) {
			e.Create = func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
				if c.N == 1 {
					_ = c.Write(c.Context(), websocket.MessageText, make([]byte, 17<<20))
					return
				}
				// A large message within the limit changes nothing.
				_ = c.Write(c.Context(), websocket.MessageText, []byte(`{"type":"response.output_audio.delta","delta":"`+strings.Repeat("A", 1<<20)+`"}`))
				c.Add(it)
			}
		},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				far := &realtimetest.Endpoint{}
				fault(far)
				r := begin(t, far, nil)
				r.Offer(update(1, "a:b", time.Now()))
				time.Sleep(2 * time.Minute)
				items := far.Items()
				if len(r.injected()) != 1 || len(items) < 2 || items[0].ID != items[len(items)-1].ID || len(far.Requests()) != 2 {
					t.Errorf("%d receipts, items %+v, %d connections", len(r.injected()), items, len(far.Requests()))
				}
			})
		})
	}
}

// An endpoint that does not read for 10 s does not delay Offer. Updates that are superseded meanwhile
// are not sent.
func TestSessionBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, &realtimetest.Endpoint{Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
			if strings.Contains(it.Texts[0], "first:") {
				time.Sleep(10 * time.Second) // does not read meanwhile
			}
			c.Add(it)
		}}, func(o *SessionOptions) { o.Delivery.AckTimeout = time.Minute; o.Delivery.Queue.MaxPending = 16 })
		r.Offer(update(1, "first:", time.Now()))
		synctest.Wait()
		start := time.Now()
		for i := range uint64(10_000) {
			r.Offer(update(i+2, fmt.Sprintf("a:%d", i%20), start.Add(time.Duration(i)*time.Millisecond)))
		}
		if time.Since(start) != 0 {
			t.Errorf("offering took %v", time.Since(start))
		}
		time.Sleep(time.Minute)
		got := r.injected()
		if s := r.Stats(); len(got) != 17 || s.Dropped == 0 || s.Merged+s.Dropped+s.Injected != 10_001 {
			t.Errorf("%d receipts, %+v", len(got), s)
		}
		for _, x := range got[1:] {
			if x.Timestamp.Sub(start) < 9980*time.Millisecond {
				t.Errorf("%s of %v is not the newest", x.ResourceURI, x.Timestamp.Sub(start))
			}
		}
	})
}

// Finish delivers the waiting messages regardless of windows.
func TestSessionFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, &realtimetest.Endpoint{}, func(o *SessionOptions) { o.Delivery.Queue.Window = time.Hour })
		for i := range uint64(3) {
			r.Offer(update(i+1, "a:b", time.Now()))
			time.Sleep(time.Second)
		}
		r.Finish()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		if n := len(r.injected()); n != 2 { // the first one immediately, and the last one
			t.Errorf("%d messages", n)
		}
		r.done <- nil
	})
}

func TestSessionEnds(t *testing.T) {
	longest := func(c *realtimetest.Conn) {
		if c.N == 1 {
			go func() {
				time.Sleep(time.Hour)
				_ = c.Close(websocket.StatusGoingAway, "Your session hit the maximum duration of 60 minutes.")
			}()
		}
	}
	t.Run("call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, &realtimetest.Endpoint{Greet: longest}, func(o *SessionOptions) { o.Call = true })
			if err := <-r.done; !errors.Is(err, ErrEnded) {
				t.Errorf("error %v", err)
			}
			if len(r.far.Requests()) != 1 {
				t.Errorf("%d connections", len(r.far.Requests()))
			}
			r.done <- nil
		})
	})
	t.Run("own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, &realtimetest.Endpoint{Greet: longest}, nil)
			time.Sleep(time.Hour + 2*time.Second)
			r.Offer(update(1, "a:b", time.Now()))
			synctest.Wait()
			if items := r.far.Items(); len(items) != 1 || items[0].Conn != 2 {
				t.Errorf("items %+v", items)
			}
		})
	})
}

// With nothing to deliver, Run does not wait for an unreachable endpoint.
func TestSessionFinishesWithoutEndpoint(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, &realtimetest.Endpoint{Refuse: func(int, *http.Request) int { return 503 }}, nil)
			if late {
				time.Sleep(10 * time.Minute) // it waits between two connections
			}
			began := time.Now()
			r.Finish()
			if err := <-r.done; err != nil || time.Since(began) > time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
			r.done <- nil
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, &realtimetest.Endpoint{Refuse: func(n int, _ *http.Request) int {
			if n < 4 {
				return 503
			}
			return 0
		}}, nil)
		r.Offer(update(1, "a:b", time.Now()))
		r.Finish() // a message is waiting: it continues to retry
		if err := <-r.done; err != nil || len(r.injected()) != 1 {
			t.Errorf("%v, injected %v", err, r.injected())
		}
		r.done <- nil
	})
}

func TestSessionRefused(t *testing.T) {
	for _, status := range []int{401, 403, 400, 302} {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, &realtimetest.Endpoint{Refuse: func(int, *http.Request) int { return status }}, nil)
			err := <-r.done
			refused, ok := errors.AsType[*RefusedError](err)
			if !ok || refused.Status != status || !strings.Contains(err.Error(), "refused by the test") {
				t.Errorf("%d: %v", status, err)
			}
			if n := len(r.far.Requests()); n != 1 {
				t.Errorf("%d: %d handshakes", status, n)
			}
			r.done <- nil
		})
	}
}

// A new call may be unknown for a while. A call that stays unknown does not exist; one that was known
// has ended.
func TestSessionNotFound(t *testing.T) {
	call := func(o *SessionOptions) { o.Call = true }
	t.Run("later found", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, &realtimetest.Endpoint{Refuse: func(n int, _ *http.Request) int {
				if n < 6 {
					return 404
				}
				return 0
			}}, call)
			r.Offer(update(1, "a:b", time.Now()))
			time.Sleep(6 * time.Second)
			if len(r.injected()) != 1 {
				t.Errorf("not injected after %d handshakes", len(r.far.Requests()))
			}
		})
	})
	t.Run("never found", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			r := begin(t, &realtimetest.Endpoint{Refuse: func(int, *http.Request) int { return 404 }}, call)
			err := <-r.done
			if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Status != 404 || time.Since(start) != 10*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			r.done <- nil
		})
	})
	t.Run("no call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, &realtimetest.Endpoint{Refuse: func(int, *http.Request) int { return 404 }}, nil)
			if _, ok := errors.AsType[*RefusedError](<-r.done); !ok || len(r.far.Requests()) != 1 {
				t.Errorf("%d handshakes", len(r.far.Requests()))
			}
			r.done <- nil
		})
	})
	t.Run("over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, &realtimetest.Endpoint{
				Refuse: func(n int, _ *http.Request) int { return map[bool]int{true: 404}[n > 1] },
				Greet:  func(c *realtimetest.Conn) { _ = c.CloseNow() },
			}, call)
			if err := <-r.done; !errors.Is(err, ErrEnded) {
				t.Error(err)
			}
			r.done <- nil
		})
	})
}

// The waits are 0.5 s, 1 s, … 30 s, spread by 20 %, and never end.
func TestSessionBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		r := begin(t, &realtimetest.Endpoint{Refuse: func(int, *http.Request) int { at = append(at, time.Now()); return 503 }}, nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := 500 * time.Millisecond
		for i := 1; i < len(at); i++ {
			if pause := at[i].Sub(at[i-1]); pause > min(want*121/100, 30*time.Second) || pause < min(want*79/100, 20*time.Second) {
				t.Errorf("attempt %d after %v, want about %v", i, pause, want)
			}
			want = min(2*want, 30*time.Second)
		}
		if n := len(at); n < 24 || n > 40 || len(r.done) != 0 {
			t.Errorf("%d attempts", n)
		}
	})
}

// An endpoint that rejects the session, in whatever way, ends the run. An endpoint with a temporary
// problem is retried.
func TestSessionRejectedAfterTheHandshake(t *testing.T) {
	sessionError := func(c *realtimetest.Conn, typ, code string) {
		c.Say(map[string]any{"type": "error", "error": map[string]any{"type": typ, "code": code, "message": "m", "event_id": nil}})
	}
	for name, c := range map[string]struct {
		greet   func(*realtimetest.Conn)
		refused bool
	}{
		"error and close": {func(c *realtimetest.Conn) {
			sessionError(c, "invalid_request_error", "beta_api_shape_disabled")
			_ = c.Close(4000, "")
		}, true},
		"error and no close": {func(c *realtimetest.Conn) {
			sessionError(c, "invalid_request_error", "model_not_found")
			_ = c.CloseNow()
		}, true},
		"close with a reason":   {func(c *realtimetest.Conn) { _ = c.Close(4004, "invalid_request_error.model_not_found") }, true},
		"close without reason":  {func(c *realtimetest.Conn) { _ = c.Close(4001, "") }, true},
		"policy, with a reason": {func(c *realtimetest.Conn) { _ = c.Close(1008, "invalid_request_error.invalid_model") }, true},
		"rate limit": {func(c *realtimetest.Conn) {
			sessionError(c, "tokens", "rate_limit_exceeded")
			_ = c.Close(4029, "rate_limit_exceeded")
		}, false},
		"server error":       {func(c *realtimetest.Conn) { sessionError(c, "server_error", ""); _ = c.Close(1011, "server_error") }, false},
		"server error, 4000": {func(c *realtimetest.Conn) { _ = c.Close(4500, "server_error") }, false},
		"connection lost":    {func(c *realtimetest.Conn) { _ = c.CloseNow() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := begin(t, &realtimetest.Endpoint{Greet: c.greet}, nil)
				time.Sleep(time.Minute)
				synctest.Wait()
				select {
				case err := <-r.done:
					if _, ok := errors.AsType[*RefusedError](err); !ok || !c.refused {
						t.Errorf("%v", err)
					}
					r.done <- nil
				default:
					if c.refused || len(r.far.Requests()) < 3 {
						t.Errorf("%d connections", len(r.far.Requests()))
					}
				}
			})
		})
	}
}

// An error about an event of the application on the same call does not end the session.
func TestSessionSurvivesErrorsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, &realtimetest.Endpoint{Greet: func(c *realtimetest.Conn) {
			if c.N == 1 {
				c.Fail("evt_of_the_application", "invalid_value", "")
				_ = c.CloseNow()
			}
		}}, nil)
		r.Offer(update(1, "a:b", time.Now()))
		time.Sleep(time.Minute)
		if len(r.injected()) != 1 {
			t.Errorf("%d receipts", len(r.injected()))
		}
	})
}
