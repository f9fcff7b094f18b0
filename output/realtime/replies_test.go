package realtime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// While a response is active, messages are delivered, and one response.create for all of them waits
// for its end.
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
			t.Fatalf("%d messages, %d responses requested during a response", n, far.Replies())
		}
		c.EndResponse()
		synctest.Wait()
		if far.Replies() != 1 {
			t.Errorf("%d responses requested after it", far.Replies())
		}
		time.Sleep(time.Minute)
		c.EndResponse()
		time.Sleep(time.Minute)
		if far.Replies() != 1 {
			t.Errorf("%d responses requested without a message", far.Replies())
		}
	})
}

// If ours is refused because of a response whose start was not seen, ours is requested again when
// that response ends, or after a while.
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
				r.conv.mu.Lock()
				r.conv.replies.reset() // as if it had started before the connection
				r.conv.mu.Unlock()
				r.Offer(update(1, "a:b", time.Now()))
				synctest.Wait()
				if refused = far.Replies(); refused != 1 {
					t.Fatalf("%d responses requested", refused)
				}
				time.Sleep(10 * time.Second)
				if far.Replies() != 1 {
					t.Errorf("requested again after 10 s")
				}
				if ends {
					c.EndResponse()
				} else {
					time.Sleep(holdOff)
				}
				synctest.Wait()
				if far.Replies() != 2 || len(r.failed()) != 0 {
					t.Errorf("%d responses requested, failures %+v", far.Replies(), r.failed())
				}
			})
		})
	}
}

// Without --respond no response is requested.
func TestNoResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &realtimetest.Endpoint{}
		r := begin(t, far, nil)
		r.Offer(update(1, "a:b", time.Now()))
		time.Sleep(time.Minute)
		if far.Replies() != 0 || len(r.injected()) != 1 {
			t.Errorf("%d responses requested", far.Replies())
		}
	})
}

// Finish waits until the requested response starts.
func TestRespondBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &realtimetest.Endpoint{}
		r := begin(t, far, func(o *SessionOptions) { o.Delivery.Respond = true })
		r.Offer(update(1, "a:b", time.Now()))
		r.Finish()
		if err := <-r.done; err != nil || far.Replies() != 1 {
			t.Errorf("%v, %d responses requested", err, far.Replies())
		}
		r.done <- nil
	})
}

// No response is requested while the user speaks, or between a function call and its output; then
// one is requested for all messages.
func TestRespondWaitsForTheRightMoment(t *testing.T) {
	type say = map[string]any
	call := say{"id": "item_call", "type": "function_call", "call_id": "call_1", "name": "f"}
	output := say{"id": "item_out", "type": "function_call_output", "call_id": "call_1"}
	for name, c := range map[string]struct {
		before, after []say
		grace         time.Duration
	}{
		"speech": {
			[]say{{"type": "input_audio_buffer.speech_started"}},
			[]say{{"type": "input_audio_buffer.speech_stopped"}, {"type": "input_audio_buffer.committed"}}, turnGrace,
		},
		"speech and a response": {
			[]say{{"type": "input_audio_buffer.speech_started"}},
			[]say{{"type": "input_audio_buffer.speech_stopped"}, {"type": "response.created", "response": say{"id": "r"}}, {"type": "response.done", "response": say{"id": "r"}}}, 0,
		},
		"function call": {
			[]say{{"type": "response.created", "response": say{"id": "r"}}, {"type": "response.output_item.done", "item": call}, {"type": "conversation.item.done", "item": call}, {"type": "response.done", "response": say{"id": "r"}}},
			[]say{{"type": "conversation.item.added", "item": output}, {"type": "conversation.item.done", "item": call}}, turnGrace,
		},
		"function call that the application answers": {
			[]say{{"type": "conversation.item.added", "item": call}},
			[]say{{"type": "conversation.item.created", "item": output}, {"type": "response.created", "response": say{"id": "s"}}, {"type": "response.done", "response": say{"id": "s"}}}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conns := make(chan *realtimetest.Conn, 1)
				far := &realtimetest.Endpoint{Greet: func(c *realtimetest.Conn) { conns <- c }}
				r := begin(t, far, func(o *SessionOptions) { o.Delivery.Respond = true })
				conn := <-conns
				for _, e := range c.before {
					conn.Say(e)
				}
				synctest.Wait()
				for i, uri := range []string{"a:1", "a:2"} {
					r.Offer(update(uint64(i+1), uri, time.Now()))
					time.Sleep(time.Minute)
				}
				if len(r.injected()) != 2 || far.Replies() != 0 {
					t.Fatalf("%d messages, %d responses requested", len(r.injected()), far.Replies())
				}
				for _, e := range c.after {
					conn.Say(e)
				}
				synctest.Wait()
				if want := map[bool]int{true: 0, false: 1}[c.grace > 0]; far.Replies() != want {
					t.Errorf("%d responses requested immediately, want %d", far.Replies(), want)
				}
				time.Sleep(c.grace)
				synctest.Wait()
				time.Sleep(10 * time.Minute)
				if far.Replies() != 1 {
					t.Errorf("%d responses requested", far.Replies())
				}
			})
		})
	}
}

// Speech whose end is never reported, and a function without output, do not block responses forever.
func TestRespondAfterEventsThatNeverCome(t *testing.T) {
	for _, e := range []map[string]any{
		{"type": "input_audio_buffer.speech_started"},
		{"type": "conversation.item.added", "item": map[string]any{"type": "function_call", "call_id": "call_1"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			far := &realtimetest.Endpoint{Greet: func(c *realtimetest.Conn) { c.Say(e) }}
			r := begin(t, far, func(o *SessionOptions) { o.Delivery.Respond = true })
			synctest.Wait()
			r.Offer(update(1, "a:b", time.Now()))
			time.Sleep(maxBlocked - time.Second)
			if far.Replies() != 0 {
				t.Errorf("%v: %d responses requested", e, far.Replies())
			}
			time.Sleep(2 * time.Second)
			if far.Replies() != 1 {
				t.Errorf("%v: %d responses requested after maxBlocked", e, far.Replies())
			}
		})
	}
}
