package wire

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcp"
)

const (
	// maxReplies bounds the replies to requests of the server that are being sent. The server
	// may send any number of requests, and read the replies slowly.
	maxReplies = 16
	// replyTimeout is how long sending one of these replies may take.
	replyTimeout = 5 * time.Second
	// answerPatience is how long the answer of a client is posted again and again. It may be
	// large, or that of a person, who cannot be asked again.
	answerPatience = 30 * time.Second
)

// postReply posts a reply that no client gave to a request of the server, in the background, so
// that its caller can read the next message. A reply beyond maxReplies is dropped.
func postReply(c *Conn, answer []byte) {
	address := c.http.address()
	if address == "" {
		return
	}
	select {
	case c.http.replies <- struct{}{}:
	default:
		c.cfg.Logger.Debug("the server sends requests faster than it accepts the replies")
		return
	}
	if !c.group.Go(func() {
		defer func() { <-c.http.replies }()
		_, _ = post(c.ctx, c, address, answer) // the server may ask again
	}) {
		<-c.http.replies
	}
}

// postAnswer posts the answer of the client to a request of the server, and returns when the
// server has it. The server waits for that, maybe while a request of ours waits for the server:
// an answer that could not be delivered for the moment is posted again, for at most
// answerPatience. The goroutine of the request calls it, of which there are at most maxInbound.
func postAnswer(c *Conn, answer []byte) {
	address := c.http.address()
	if address == "" {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, answerPatience)
	defer cancel()
	waits := backoff.New(reopenDelay/4, answerPatience/4)
	for {
		again, err := post(ctx, c, address, answer)
		if err != nil {
			c.cfg.Logger.Debug("an answer to the server was not delivered", "err", cleanError(c.cfg.Redact, err))
		}
		if !again || !backoff.Sleep(ctx, waits.Next()) {
			return
		}
	}
}

// post posts a reply. If it fails, again reports whether the server may take it later.
func post(ctx context.Context, c *Conn, address string, reply []byte) (again bool, err error) {
	x := new(exchange)
	ctx, cancel := context.WithTimeout(withExchange(ctx, x), replyTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(reply))
	if err != nil {
		return false, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	c.http.identify(q.Header)
	p, err := c.http.client.Do(q)
	if err != nil {
		return x.error() == nil, err // what the exchange knows is a refusal of ours, or a redirect
	}
	_, _ = io.CopyN(io.Discard, p.Body, maxPeek) // so that the connection can be used again
	_ = p.Body.Close()
	return transient(p.StatusCode), x.error()
}

// identify adds the headers that say which session a request belongs to.
func (h *httpConn) identify(header http.Header) {
	if id := h.session(); id != "" {
		header.Set(mcp.HeaderSession, id)
	}
	if v, _ := h.version.Load().(string); v != "" {
		header.Set(mcp.HeaderProtocolVersion, v)
	}
}

// address returns where messages are posted to, or "".
func (h *httpConn) address() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.url == nil {
		return ""
	}
	return h.url.String()
}
