package tui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/serverlog"
)

// ServerRow is a row of the list of servers.
type ServerRow struct {
	status.Summary
	Since time.Time // zero if it is unknown
}

// ServerDetail is the data for a server's page.
type ServerDetail struct {
	Lists map[catalog.Kind][]Row // followed resources, and tools, prompts and skills
	// Timeline has the events about the server itself, oldest first.
	Timeline []*event.Event
}

// Row is a row of a list of what a server offers.
type Row struct {
	Key     string          // the URI of a resource, or the name of another item
	About   string          // the MIME type of a resource, or the description of another item
	Changed time.Time       // zero if it has not changed since the start
	Raw     json.RawMessage // the descriptor as the server sent it; not of a resource

	// Of a resource:
	Size int64
	Gone bool
}

const (
	pollEvery = time.Second      // the interval at which Source requests the servers
	backlog   = 10 * time.Minute // age of the oldest event in the feed
)

// Source provides the data on the screen from a client: of a running serve-sse, a daemon or this process. Its
// methods may be called concurrently; those with a context may wait for a server.
type Source struct {
	Client remote.Client
	// Only selects the servers to show; nil selects all.
	Only func(server string) bool

	mu      sync.Mutex     // guards the fields below
	events  []*event.Event // the newest ones that the screen has not taken
	servers []ServerRow
	stale   error // why the list of servers is out of date; nil if it is current
}

// Run follows the feed until ctx ends or the request is refused.
func (s *Source) Run(ctx context.Context) error {
	from := remote.ReadOptions{From: remote.Position{Time: time.Now().Add(-backlog)}, Retry: true}
	return s.Client.Follow(ctx, from, func(entry journal.Entry) error {
		if e, err := entry.Event(); err == nil {
			s.Add(withoutTexts(&e))
		}
		return nil
	})
}

// withoutTexts returns an event that does not hold texts in memory.
func withoutTexts(e *event.Event) *event.Event {
	if p, ok := e.Payload.(event.ResourceUpdated); ok {
		p.Text, p.PreviousText = nil, nil
		e.Payload = p
	}
	return e
}

// Add adds an event to the feed.
func (s *Source) Add(e *event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	s.events = s.events[max(0, len(s.events)-maxFeed):]
}

// Events returns the events since the last call, oldest first.
func (s *Source) Events() []*event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.events
	s.events = nil
	return out
}

// Poll requests the servers at intervals until ctx ends.
func (s *Source) Poll(ctx context.Context) error {
	for {
		err := s.Refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.mu.Lock()
		s.stale = err
		s.mu.Unlock()
		if !backoff.Sleep(ctx, pollEvery) {
			return nil
		}
	}
}

// Refresh requests the servers once.
func (s *Source) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	found, err := s.Client.Servers(ctx)
	if err != nil {
		return err
	}
	servers := make([]ServerRow, 0, len(found))
	for _, f := range found {
		if s.Only != nil && !s.Only(f.ID) {
			continue
		}
		since, _ := time.Parse(time.RFC3339, f.Since) // empty if it is unknown
		servers = append(servers, ServerRow{f, since})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = servers
	return nil
}

// Servers returns the servers, sorted by ID. An error means that the list is out of date.
func (s *Source) Servers() ([]ServerRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.servers), s.stale
}

// Detail returns the data for a server's page.
func (s *Source) Detail(ctx context.Context, server string) (d ServerDetail, err error) {
	var history struct{ Events []*event.Event }
	if err := kept(s.Client.Get(ctx, []string{"api", "history"}, url.Values{"server": {server}}, &history)); err != nil {
		return d, err
	}
	slices.Reverse(history.Events)
	d.Timeline = history.Events
	var lists struct{ ToolList, PromptList, SkillList []json.RawMessage }
	if err := s.Client.Get(ctx, []string{"api", "servers", server}, nil, &lists); err != nil {
		return d, err
	}
	d.Lists = map[catalog.Kind][]Row{}
	for kind, all := range map[catalog.Kind][]json.RawMessage{catalog.Tools: lists.ToolList, catalog.Prompts: lists.PromptList, catalog.Skills: lists.SkillList} {
		changed := changes(d.Timeline, kind)
		for _, raw := range all {
			if it, err := catalog.NewItem(kind, raw); err == nil {
				d.Lists[kind] = append(d.Lists[kind], Row{Key: it.Key, About: it.Describe().Description, Changed: changed[it.Key], Raw: it.Raw})
			}
		}
	}
	var resources []struct {
		URI, MimeType string
		Changed       time.Time
		Size          int64
		Gone          bool
	}
	err = s.Client.Get(ctx, []string{"api", "servers", server, "resources"}, nil, &resources)
	for _, r := range resources {
		d.Lists[catalog.Resources] = append(d.Lists[catalog.Resources], Row{Key: r.URI, About: r.MimeType, Changed: r.Changed, Size: r.Size, Gone: r.Gone})
	}
	return d, err
}

// failing returns when the server failed for the first time since it was connected; zero if it has not.
func (d *ServerDetail) failing() (first time.Time) {
	for _, e := range slices.Backward(d.Timeline) {
		switch p, _ := e.Payload.(event.ServerState); {
		case p.State == event.Ready || p.State == event.Unsupported:
			return first
		case p.Error != "":
			first = e.Timestamp
		}
	}
	return first
}

// changes returns when the items of a list last changed.
func changes(timeline []*event.Event, kind catalog.Kind) map[string]time.Time {
	changed := map[string]time.Time{}
	for _, e := range timeline {
		if l, ok := e.Payload.(event.ListChanged); ok && l.List == kind {
			for _, key := range slices.Concat(l.Added, l.Changed) {
				changed[key] = e.Timestamp
			}
		}
	}
	return changed
}

// kept returns nil for the refusal of a serve-sse that keeps no history, or no calls.
func kept(err error) error {
	if status, ok := errors.AsType[*remote.RefusedError](err); ok && status.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// Versions returns the versions of a resource, oldest first.
func (s *Source) Versions(ctx context.Context, server, uri string) ([]history.Version, error) {
	versions, err := s.Client.Versions(ctx, server, uri)
	return versions, kept(err)
}

// Text returns the text of the version with the given digest. The zero digest selects the current version.
func (s *Source) Text(ctx context.Context, server, uri string, digest catalog.Digest) (string, error) {
	text, ok, err := s.Client.Text(ctx, server, uri, digest)
	if err == nil && !ok {
		err = errors.New("this version of the resource is not stored")
		if digest.IsZero() {
			return "(not text, too large, or no longer stored)", nil
		}
	}
	return text, err
}

// maxCalls is the number of calls that are shown.
const maxCalls = 500

// Calls are the newest calls of tools that clients made, oldest first, and the statistics of the tools.
type Calls struct {
	Calls []calls.Call
	Tools []calls.ToolStats
}

// Calls returns the calls to a server, or to all servers if server is empty; none if none are recorded.
func (s *Source) Calls(ctx context.Context, server string) (*Calls, error) {
	var found Calls
	q := (&calls.Query{ServerID: server, Newest: maxCalls}).Values()
	q.Set("tools", "1")
	err := s.Client.Get(ctx, []string{"api", "calls"}, q, &found)
	found.Calls = slices.DeleteFunc(found.Calls, func(c calls.Call) bool { return s.Only != nil && !s.Only(c.ServerID) })
	return &found, kept(err)
}

// Log returns the newest log lines that mention a server, oldest first.
func (s *Source) Log(ctx context.Context, server string) ([]serverlog.Line, error) {
	var log struct {
		Lines      []serverlog.Line
		FollowedBy string
	}
	err := s.Client.Get(ctx, []string{"api", "servers", server, "log"}, nil, &log)
	if err == nil && log.FollowedBy != "" {
		err = errors.New("only the process that follows the server has its log: " + log.FollowedBy)
	}
	return log.Lines, err
}
