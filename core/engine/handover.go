package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
)

// handOverWait bounds how long a server is kept to publish and store outstanding events.
const handOverWait = 5 * time.Second

// takeOver makes sure that no events in the queues of earlier holders will be stored, and reads
// what they did store.
func (s *sharing) takeOver(ctx context.Context, id string, lease *natslog.Lease) error {
	err := lease.Fence(ctx, &event.Event{ServerID: id, Timestamp: time.Now(), Payload: event.ServerState{
		State: event.Pending, Reason: "followed by " + s.log.Process()}})
	if err != nil {
		return err
	}
	return s.memory.loadServer(ctx, id)
}

// handOver stops following a server, and waits until its outstanding events are stored.
func (s *sharing) handOver(id string, sh *share, lease *natslog.Lease) {
	s.mu.Lock()
	ending := s.ctx == nil || s.ctx.Err() != nil // then Run has stored it
	s.mu.Unlock()
	if ending {
		s.set(id, sh, nil, nil)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverWait)
	defer cancel()
	s.set(id, sh, nil, nil)
	if s.all || s.tracker.Gone(ctx, id) == nil {
		if !s.wants(id) {
			_ = lease.Announce(natslog.Announcement{ServerID: id, Status: json.RawMessage(removed)}) // else it expires
		}
		_ = s.log.Flush(ctx) // else the next holder finds it by reading the server
	}
}
