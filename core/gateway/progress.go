package gateway

import (
	"encoding/json"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// maxProgress is the number of progress notifications queued for a slow client. Beyond
// it the oldest are dropped.
const maxProgress = 64

// progress forwards the progress of one request. A queue decouples the server's reader,
// which must not block, from the client.
type progress struct {
	r     *mcpserver.Request
	token json.RawMessage

	// wake has capacity 1: put and end send to it, run receives; never closed.
	wake chan struct{}
	done chan struct{} // closed by run when it has ended

	mu    sync.Mutex
	queue []session.Progress
	ended bool
}

func newProgress(r *mcpserver.Request, token json.RawMessage) *progress {
	p := &progress{r: r, token: token, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go p.run() // waited for by end
	return p
}

func (p *progress) put(now session.Progress) {
	p.mu.Lock()
	if len(p.queue) == maxProgress {
		p.queue = append(p.queue[:0], p.queue[1:]...)
	}
	p.queue = append(p.queue, now)
	p.mu.Unlock()
	p.ring()
}

// end ends run, and returns when all queued notifications were sent.
func (p *progress) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.ring()
	<-p.done
}

func (p *progress) ring() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *progress) run() {
	defer close(p.done)
	for range p.wake {
		p.mu.Lock()
		queue, ended := p.queue, p.ended
		p.queue = nil
		p.mu.Unlock()
		for _, now := range queue {
			p.send(now)
		}
		if ended {
			return
		}
	}
}

func (p *progress) send(now session.Progress) {
	p.r.Notify(mcp.NotificationProgress, struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total,omitempty"`
		Message  string          `json:"message,omitempty"`
	}{p.token, now.Progress, now.Total, now.Message})
}
