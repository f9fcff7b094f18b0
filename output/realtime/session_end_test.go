package realtime

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

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

// Without anything to deliver it does not wait for an endpoint that cannot be reached.
func TestSessionFinishesWithoutEndpoint(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, &realtimetest.Endpoint{Refuse: func(int, *http.Request) int { return 503 }}, nil)
			if late {
				time.Sleep(10 * time.Minute) // it is between two connections
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
		r.Finish() // something waits: it goes on trying
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

// A new call may be unknown for a while; one that stays unknown does not exist; one that
// was known has ended.
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

// Attempts come after 0.5 s, 1 s, … 30 s, spread by 20 %, however long it takes.
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

// An endpoint that rejects the session itself ends the run, whichever way it says so;
// one that has a problem is tried again.
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
		"close without":         {func(c *realtimetest.Conn) { _ = c.Close(4001, "") }, true},
		"policy, with a reason": {func(c *realtimetest.Conn) { _ = c.Close(1008, "invalid_request_error.invalid_model") }, true},
		"rate limit": {func(c *realtimetest.Conn) {
			sessionError(c, "tokens", "rate_limit_exceeded")
			_ = c.Close(4029, "rate_limit_exceeded")
		}, false},
		"server error":       {func(c *realtimetest.Conn) { sessionError(c, "server_error", ""); _ = c.Close(1011, "server_error") }, false},
		"server error, 4000": {func(c *realtimetest.Conn) { _ = c.Close(4500, "server_error") }, false},
		"cut off":            {func(c *realtimetest.Conn) { _ = c.CloseNow() }, false},
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

// An error about an event of the application on the same call is not about the session.
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
