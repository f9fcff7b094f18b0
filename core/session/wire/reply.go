package wire

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
)

const (
	// maxReplies bounds the replies to requests of the server that are being sent. The server
	// may send any number of requests, and read the replies slowly.
	maxReplies = 16
	// replyTimeout is how long sending one of these replies may take.
	replyTimeout = 5 * time.Second
)

// postReply posts a reply to a request of the server in the background, so that its caller
// can read the next message. A reply beyond maxReplies is dropped.
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
		ctx, cancel := context.WithTimeout(c.ctx, replyTimeout)
		defer cancel()
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(answer))
		if err != nil {
			return
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		c.http.identify(q.Header)
		if p, err := c.http.client.Do(q); err == nil {
			_, _ = io.CopyN(io.Discard, p.Body, maxPeek) // so that the connection can be used again
			_ = p.Body.Close()
		}
	}) {
		<-c.http.replies
	}
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
