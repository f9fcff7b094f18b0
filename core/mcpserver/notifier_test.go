package mcpserver

import (
	"context"
	"testing"
)

// A question goes on the stream of a request. If the request ends before the question is written,
// it goes on the client's own stream.
func TestAskWhileItsRequestEnds(t *testing.T) {
	t.Parallel()
	sent := make(chan []byte, 1)
	c := newClient(t.Context(), t.Context(), "", "", nil, func(message []byte) bool { sent <- message; return true })
	writing := make(chan struct{})
	via := &Request{notes: newNotifier(t.Context(), func(ctx context.Context, _ []byte) bool {
		close(writing)
		<-ctx.Done()
		return false
	})}
	answered := make(chan error, 1)
	go func() {
		_, err := c.Ask(t.Context(), via, "roots/list", nil)
		answered <- err
	}()
	<-writing
	via.notes.close()
	question, err := parse(<-sent)
	if err != nil || question.method != "roots/list" {
		t.Fatalf("%v, %v", question, err)
	}
	c.receive(&message{id: question.id, result: []byte("{}")})
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
