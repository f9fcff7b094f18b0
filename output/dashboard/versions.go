package dashboard

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// maxVersionBytes limits the texts of all versions that are held in memory.
const maxVersionBytes = 64 << 20

// versions holds the text versions of resources that were published while this process
// runs, the newest within a limit.
type versions struct {
	most int

	mu    sync.Mutex
	texts map[version]string
	order []version // oldest first
	size  int
}

// version names a content of a resource.
type version struct {
	server, uri string
	digest      catalog.Digest
}

// overhead is the memory of a version besides its text, roughly.
func (v version) overhead() int { return len(v.server) + len(v.uri) + 200 }

// add stores a version; texts of more than an eighth of the limit are not stored.
func (s *versions) add(v version, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.texts[v]; ok || v.digest.IsZero() || len(text) > s.most/8 {
		return
	}
	if s.texts == nil {
		s.texts = make(map[version]string)
	}
	s.texts[v] = text
	s.order = append(s.order, v)
	s.size += len(text) + v.overhead()
	for s.size > s.most {
		old := s.order[0]
		s.order = s.order[1:]
		s.size -= len(s.texts[old]) + old.overhead()
		delete(s.texts, old)
	}
}

func (s *versions) get(v version) (text string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok = s.texts[v]
	return text, ok
}

// Run collects the texts of published contents until ctx ends, and returns its cause.
// It is called once.
func (d *Dashboard) Run(ctx context.Context) error {
	for d.opts.Follow != nil && ctx.Err() == nil {
		d.collect(d.opts.Follow(ctx))
		select {
		case <-ctx.Done():
		case <-time.After(time.Second): // the log was replaced
		}
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// collect stores the texts of events until the sequence ends.
func (d *Dashboard) collect(entries iter.Seq2[journal.Entry, error]) {
	for entry, err := range entries {
		if err != nil {
			return
		}
		if !entry.Local() { // texts are not in the log
			continue
		}
		e, err := entry.Event()
		if err != nil {
			continue
		}
		if p, ok := e.Payload.(event.ResourceUpdated); ok {
			if p.PreviousText != nil {
				d.versions.add(version{e.ServerID, e.ResourceURI, p.PreviousDigest}, *p.PreviousText)
			}
			if p.Text != nil {
				d.versions.add(version{e.ServerID, e.ResourceURI, p.Digest}, *p.Text)
			}
		}
	}
}
