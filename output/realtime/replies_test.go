package realtime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// While a response is active, one response.create waits for its end, however many
// messages were delivered meanwhile.
func TestRespondIsDeferredAndMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conns := make(chan *realtimetest.Conn, 1)
		far := &realtimetest.Endpoint{Manual: true, Greet: func(c *realtimetest.Conn) { conns <- c }}
		r := begin(t, far, func(o *SessionOptions) { o.Delivery.Respond = true })
		c := <-conns
		c.BeginResponse() // the user spoke
		synctest.Wait()
		for i, uri := range []string{"a:1", "a:2", "a:3"} {
			r.Offer(update(uint64(i+1), uri, time.Now()))
		}
		time.Sleep(time.Minute)
		if n := len(r.injected()); n != 3 || far.Replies() != 0 {
			t.Fatalf("%d messages, %d responses asked for during a response", n, far.Replies())
		}
		c.EndResponse()
		synctest.Wait()
		if far.Replies() != 1 {
			t.Errorf("%d responses asked for after it", far.Replies())
		}
		time.Sleep(time.Minute)
		c.EndResponse()
		time.Sleep(time.Minute)
		if far.Replies() != 1 {
			t.Errorf("%d responses asked for without a message", far.Replies())
		}
	})
}

// A response that we did not see begin refuses ours: it is asked for again when
// that one ends, or after a while.
func TestRespondRefused(t *testing.T) {
	for name, ends := range map[string]bool{"it ends": true, "its end is not seen": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conns := make(chan *realtimetest.Conn, 1)
				far := &realtimetest.Endpoint{Manual: true}
				far.Greet = func(c *realtimetest.Conn) { conns <- c }
				refused := 0
				r := begin(t, far, func(o *SessionOptions) { o.Delivery.Respond = true })
				c := <-conns
				c.BeginResponse()
				synctest.Wait()
				r.talk.mu.Lock()
				r.talk.replies.reset() // as if it had begun before we came
				r.talk.mu.Unlock()
				r.Offer(update(1, "a:b", time.Now()))
				synctest.Wait()
				if refused = far.Replies(); refused != 1 {
					t.Fatalf("%d responses asked for", refused)
				}
				time.Sleep(10 * time.Second)
				if far.Replies() != 1 {
					t.Errorf("asked again after 10 s")
				}
				if ends {
					c.EndResponse()
				} else {
					time.Sleep(holdOff)
				}
				synctest.Wait()
				if far.Replies() != 2 || len(r.failed()) != 0 {
					t.Errorf("%d responses asked for, failures %+v", far.Replies(), r.failed())
				}
			})
		})
	}
}

// Without --respond nothing is asked for.
func TestNoResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &realtimetest.Endpoint{}
		r := begin(t, far, nil)
		r.Offer(update(1, "a:b", time.Now()))
		time.Sleep(time.Minute)
		if far.Replies() != 0 || len(r.injected()) != 1 {
			t.Errorf("%d responses asked for", far.Replies())
		}
	})
}

// Finish waits for the answer that was asked for to begin.
func TestRespondBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &realtimetest.Endpoint{}
		r := begin(t, far, func(o *SessionOptions) { o.Delivery.Respond = true })
		r.Offer(update(1, "a:b", time.Now()))
		r.Finish()
		if err := <-r.done; err != nil || far.Replies() != 1 {
			t.Errorf("%v, %d responses asked for", err, far.Replies())
		}
		r.done <- nil
	})
}
