package mcpserver

import (
	"bytes"
	"encoding/base64"
	"strings"
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
	if e, _, _, _ := c.after(0); e.number != 2*maxStreamEvents+1 {
		t.Errorf("the oldest event has number %d", e.number)
	}
	for range 10 {
		c.add(bytes.Repeat([]byte("x"), maxStreamBytes/2), false)
	}
	c.add(bytes.Repeat([]byte("x"), 3*maxStreamBytes), true)
	if n := len(c.events); n < 2 || n > 3 {
		t.Errorf("%d large events are held", n)
	}
	e, ok, done, _ := c.after(3*maxStreamEvents + 10)
	if len(e.message) != 3*maxStreamBytes || !ok || !e.last || done {
		t.Errorf("the answer has %d bytes", len(e.message))
	}
	if _, ok, done, _ := c.after(e.number); ok || !done {
		t.Error("there is something after the answer")
	}
}

// Ids that clients make up lead to nothing but an error for the request that they name.
func TestCallEventIDs(t *testing.T) {
	t.Parallel()
	s := callStreams{epoch: "now"}
	named := func(id string) string { return base64.RawStdEncoding.EncodeToString([]byte(id)) }
	for _, id := range []string{"", "7", "now-get-1-2", "-", "-call", "call-1-1"} {
		if _, _, isCall := s.find(id); isCall {
			t.Errorf("%q is taken for a call", id)
		}
	}
	for _, id := range []string{
		"now-call-1", "now-call-1-x", "now-call-1--1", "now-call-2-0", "now-call-1-" + named("7") + "-end", "now-call-1-" + named("7"),
		"now-call-1-" + named("7") + "-0-0", "now-call-1-" + named("{}") + "-0", "now-call-1-" + named("7,8") + "-0", "now-call-1-" + named("7\n") + "-0",
		"now-call-1-" + named(`"`+strings.Repeat("x", maxNamedID)+`"`) + "-0", "now-call-1-" + named("null") + "-0", "now-call-1-" + named(`"\n`) + "-0",
	} {
		if c, _, isCall := s.find(id); c != nil || !isCall {
			t.Errorf("%q: %v, %t", id, c, isCall)
		}
	}
	for _, request := range []string{"7", `"x-y"`} {
		c, number, _ := s.find("then-call-1-" + named(request) + "-5")
		if c == nil {
			t.Fatalf("%s: nothing", request)
		}
		e, ok, _, _ := c.after(number)
		if !ok || !e.last || !strings.Contains(string(e.message), `"id":`+request+`,"error"`) {
			t.Errorf("%s: %s", request, e.message)
		}
		if _, ok, done, _ := c.after(e.number); ok || !done {
			t.Error("there is something after the error")
		}
	}
}
