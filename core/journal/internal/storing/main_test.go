package storing

import (
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// source makes events as a tracker does: numbered within one epoch.
type source struct {
	epoch string
	seq   uint64
}

func newSource() *source { return &source{epoch: journal.NewEpoch()} }

func (s *source) next(uri string) *event.Event {
	s.seq++
	return &event.Event{
		ID: event.FormatID(s.epoch, s.seq), Seq: s.seq, ServerID: "docs", ResourceURI: uri, Timestamp: time.Now(), Cause: event.CauseNotify,
		Payload: event.ResourceUpdated{Name: fmt.Sprintf("n%d", s.seq), Digest: digest(s.seq)},
	}
}

func digest(n uint64) (d catalog.Digest) {
	for i := range 8 {
		d[i] = byte(n >> (8 * i))
	}
	d[31] = 1
	return d
}

func uri(n int) string { return fmt.Sprintf("file:///docs/%d.md", n) }
