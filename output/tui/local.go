package tui

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/serverlog"
)

const (
	// maxKept and maxKeptBytes bound the updates that are kept, for versions and their texts.
	maxKept      = 5000
	maxKeptBytes = 32 << 20
	// maxTimeline bounds the events about one server.
	maxTimeline = 200
)

// LocalOptions say where a [Local] has its data. All but Past are required.
type LocalOptions struct {
	// Snapshot returns what is known of the servers.
	Snapshot func() *status.Snapshot
	// Read reads a resource from its server.
	Read func(ctx context.Context, server, uri string) (*session.Content, error)
	// Restart makes a new connection to a server.
	Restart func(server string)
	// Lines returns the newest log lines about a server.
	Lines func(server string) []serverlog.Line
	// Past has what was stored before, and is only read; nil: nothing was.
	Past journal.Log
}

// Local is a Source for servers that this process follows. It has the versions since its start,
// and the events of a log on disk, if there is one.
type Local struct {
	opts LocalOptions

	mu      sync.Mutex // guards all below
	pending []*event.Event
	kept    []*event.Event // updates, oldest first
	bytes   int
	about   map[string][]*event.Event // by server: the events about the server itself, oldest first
}

// NewLocal returns a source. Run must be called.
func NewLocal(opts LocalOptions) *Local { return &Local{opts: opts} }

// backlog is the age of the oldest event of the past that the feed begins with.
const backlog = 10 * time.Minute

// Run collects the events of the past, and then those that it is given, until they end.
func (s *Local) Run(ctx context.Context, events iter.Seq2[journal.Entry, error]) error {
	if s.opts.Past != nil {
		if from, err := s.opts.Past.Since(ctx, time.Now().Add(-backlog)); err == nil {
			_ = s.collect(s.opts.Past.Read(ctx, from)) // the screen is of use without it
		}
	}
	return s.collect(events)
}

func (s *Local) collect(events iter.Seq2[journal.Entry, error]) error {
	for entry, err := range events {
		if err != nil {
			return err
		}
		if e, err := entry.Event(); err == nil {
			s.take([]*event.Event{&e})
		}
	}
	return nil
}

func (s *Local) take(batch []*event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, batch...)
	s.pending = s.pending[max(0, len(s.pending)-maxFeed):]
	for _, e := range batch {
		if e.Type() == event.TypeResourceUpdated || e.Type() == event.TypeResourceRemoved {
			s.kept = append(s.kept, e)
			s.bytes += textBytes(e)
		}
		if e.ServerID != "" && e.ResourceURI == "" {
			s.note(e)
		}
	}
	n := 0
	for len(s.kept)-n > maxKept || s.bytes > maxKeptBytes {
		s.bytes -= textBytes(s.kept[n])
		n++
	}
	s.kept = slices.Delete(s.kept, 0, n)
}

// note keeps an event about a server itself. s.mu must be held.
func (s *Local) note(e *event.Event) {
	if s.about == nil {
		s.about = map[string][]*event.Event{}
	}
	if _, known := s.about[e.ServerID]; !known {
		snap := s.opts.Snapshot()
		for id := range s.about { // drop servers that left the config
			if _, ok := snap.Server(id); !ok {
				delete(s.about, id)
			}
		}
	}
	all := append(s.about[e.ServerID], e)
	s.about[e.ServerID] = slices.Delete(all, 0, max(0, len(all)-maxTimeline))
}

func textBytes(e *event.Event) (n int) {
	if p, ok := e.Payload.(event.ResourceUpdated); ok {
		for _, t := range []*string{p.Text, p.PreviousText} {
			if t != nil {
				n += len(*t)
			}
		}
	}
	return n
}

// Servers implements Source.
func (s *Local) Servers() ([]Server, error) {
	var out []Server
	for _, st := range s.opts.Snapshot().Servers {
		out = append(out, Server{
			ID: st.ID, State: st.State, Error: st.Error, Since: st.Since, Protocol: st.Info.ProtocolVersion,
			Resources: len(st.Resources), Tools: len(st.Lists[catalog.Tools]), Prompts: len(st.Lists[catalog.Prompts]),
		})
	}
	return out, nil
}

// Events implements Source.
func (s *Local) Events() []*event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.pending
	s.pending = nil
	return out
}

// Detail implements Source.
func (s *Local) Detail(_ context.Context, server string) (Detail, error) {
	st, _ := s.opts.Snapshot().Server(server)
	d := Detail{Tools: items(st.Lists[catalog.Tools]), Prompts: items(st.Lists[catalog.Prompts])}
	for _, r := range st.Resources {
		row := Resource{URI: r.URI, MimeType: r.MimeType, Size: r.Size, Gone: r.Gone}
		if r.Last != nil {
			row.Changed = r.Last.Timestamp
		}
		d.Resources = append(d.Resources, row)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Timeline = slices.Clone(s.about[server])
	return d, nil
}

func items(list catalog.List) (out []Item) {
	for _, it := range list {
		out = append(out, Item{Name: it.Key, Description: it.Describe().Description})
	}
	return out
}

// of returns the updates of a resource.
func (s *Local) of(server, uri string) (out []*event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.kept {
		if e.ServerID == server && e.ResourceURI == uri {
			out = append(out, e)
		}
	}
	return out
}

// Versions implements Source.
func (s *Local) Versions(ctx context.Context, server, uri string) ([]history.Version, error) {
	events := s.of(server, uri)
	return history.Versions(func(yield func(event.Event, error) bool) {
		if s.opts.Past != nil {
			for entry, err := range s.opts.Past.Select(ctx, journal.Selection{ServerID: server, URI: uri}) {
				if err != nil {
					break // those since the start are of use without the others
				}
				e, err := entry.Event()
				if err == nil && !slices.ContainsFunc(events, func(kept *event.Event) bool { return kept.ID == e.ID }) && !yield(e, nil) {
					return
				}
			}
		}
		for _, e := range events {
			if !yield(*e, nil) {
				return
			}
		}
	}, maxKept)
}

// Text implements Source.
func (s *Local) Text(ctx context.Context, server, uri string, digest catalog.Digest) (string, error) {
	if digest.IsZero() {
		c, err := s.opts.Read(ctx, server, uri)
		if err != nil {
			return "", err
		}
		text, ok := c.Text()
		if !ok {
			return "(not text)", nil
		}
		return text, nil
	}
	for _, e := range slices.Backward(s.of(server, uri)) {
		p, ok := e.Payload.(event.ResourceUpdated)
		switch {
		case ok && p.Digest == digest && p.Text != nil:
			return *p.Text, nil
		case ok && p.PreviousDigest == digest && p.PreviousText != nil:
			return *p.PreviousText, nil
		}
	}
	if s.opts.Past != nil {
		if text, ok, err := s.opts.Past.Contents().Get(ctx, digest); err == nil && ok {
			return text, nil
		}
	}
	return "", errors.New("this version of the resource is not available")
}

// Log implements Source.
func (s *Local) Log(_ context.Context, server string) ([]serverlog.Line, error) {
	return s.opts.Lines(server), nil
}

// Reconnect implements Source.
func (s *Local) Reconnect(_ context.Context, server string) error {
	s.opts.Restart(server)
	return nil
}
