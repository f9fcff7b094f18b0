package serve

import (
	"bytes"
	"testing"
)

func TestCallStreamBounds(t *testing.T) {
	t.Parallel()
	var s callStreams
	c := s.begin(nil)
	for range 3 * maxStreamEvents {
		c.add([]byte("{}"), false)
	}
	if n := len(c.events); n != maxStreamEvents {
		t.Errorf("%d events are held", n)
	}
	if _, next, _, _ := c.after(0); next != 2*maxStreamEvents+1 {
		t.Errorf("the oldest event has number %d", next)
	}
	for range 10 {
		c.add(bytes.Repeat([]byte("x"), maxStreamBytes/2), false)
	}
	c.add(bytes.Repeat([]byte("x"), 3*maxStreamBytes), true)
	if n := len(c.events); n < 2 || n > 3 {
		t.Errorf("%d large events are held", n)
	}
	event, next, done, _ := c.after(3*maxStreamEvents + 10)
	if len(event) != 3*maxStreamBytes || done {
		t.Errorf("the answer has %d bytes", len(event))
	}
	if event, _, done, _ := c.after(next); event != nil || !done {
		t.Error("there is something after the answer")
	}
	for _, id := range []string{"", "7", "call-1", "call-1-x", "call-1--1", "call-2-0", "-"} {
		if _, _, ok := s.find(id); ok {
			t.Errorf("%q is found", id)
		}
	}
}
