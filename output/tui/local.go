package tui

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/bus"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/serverlog"
)

const (
	// maxKept and maxKeptBytes bound the updates that are kept, for versions and their texts.
	maxKept      = 5000
	maxKeptBytes = 32 << 20
	// maxTimeline bounds the events about one server.
	maxTimeline = 200
)

// Tracker is a Source for a tracker in this process. It has the versions since its start.
type Tracker struct {
	Tracker *tracker.Tracker
	// Lines returns the newest log lines about a server.
	Lines func(server string) []serverlog.Line
	// Restart ends the connection to a server and makes a new one.
	Restart func(ctx context.Context, server string) error

	mu      sync.Mutex // guards all below
	pending []*event.Event
	kept    []*event.Event // updates, oldest first
	bytes   int
	about   map[string][]*event.Event // by server: the events about the server itself, oldest first
}

// Run collects events until ctx ends or the tracker does.
func (s *Tracker) Run(ctx context.Context) error {
	for {
		_, sub := s.Tracker.Subscribe(ctx)
		for batch := sub.Next(); batch != nil; batch = sub.Next() {
			s.take(batch)
		}
		if !errors.Is(sub.Err(), bus.ErrLagged) {
			return nil
		}
	}
}

func (s *Tracker) take(batch []*event.Event) {
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
func (s *Tracker) note(e *event.Event) {
	if s.about == nil {
		s.about = map[string][]*event.Event{}
	}
	if _, known := s.about[e.ServerID]; !known {
		snap := s.Tracker.Snapshot()
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
func (s *Tracker) Servers() ([]Server, error) {
	var out []Server
	for _, st := range s.Tracker.Snapshot().Servers {
		out = append(out, Server{
			ID: st.ID, State: st.State, Error: st.Error, Since: st.Since, Protocol: st.Info.ProtocolVersion,
			Resources: len(st.Resources), Tools: len(st.Lists[catalog.Tools]), Prompts: len(st.Lists[catalog.Prompts]),
		})
	}
	return out, nil
}

// Events implements Source.
func (s *Tracker) Events() []*event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.pending
	s.pending = nil
	return out
}

// Detail implements Source.
func (s *Tracker) Detail(_ context.Context, server string) (Detail, error) {
	st, _ := s.Tracker.Snapshot().Server(server)
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
func (s *Tracker) of(server, uri string) (out []*event.Event) {
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
func (s *Tracker) Versions(_ context.Context, server, uri string) ([]history.Version, error) {
	events := s.of(server, uri)
	return history.Versions(func(yield func(event.Event, error) bool) {
		for _, e := range events {
			if !yield(*e, nil) {
				return
			}
		}
	}, maxKept)
}

// Text implements Source.
func (s *Tracker) Text(ctx context.Context, server, uri string, digest catalog.Digest) (string, error) {
	if digest.IsZero() {
		c, err := s.Tracker.ReadResource(ctx, server, uri)
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
	return "", errors.New("this version of the resource is not available")
}

// Log implements Source.
func (s *Tracker) Log(_ context.Context, server string) ([]serverlog.Line, error) {
	return s.Lines(server), nil
}

// Reconnect implements Source.
func (s *Tracker) Reconnect(ctx context.Context, server string) error { return s.Restart(ctx, server) }
