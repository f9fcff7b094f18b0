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
	Resources []ResourceRow
	Lists     map[catalog.Kind][]ItemRow // of tools, prompts and skills
	// Timeline has the events about the server itself, oldest first.
	Timeline []*event.Event
}

// ResourceRow is a row of a server's followed resources.
type ResourceRow struct {
	URI, MimeType string
	Size          int64
	Changed       time.Time // zero if it has not changed since the start
	Gone          bool
}

// ItemRow is a row of a server's tools, prompts or skills.
type ItemRow struct {
	Name, Description string
	Raw               json.RawMessage // the descriptor as the server sent it
}

func items(list catalog.List) (out []ItemRow) {
	for _, it := range list {
		out = append(out, ItemRow{Name: it.Key, Description: it.Describe().Description, Raw: it.Raw})
	}
	return out
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
func (s *Source) Detail(ctx context.Context, server string) (ServerDetail, error) {
	var lists struct {
		ToolList   []json.RawMessage `json:"toolList"`
		PromptList []json.RawMessage `json:"promptList"`
		SkillList  []json.RawMessage `json:"skillList"`
	}
	if err := s.Client.Get(ctx, []string{"api", "servers", server}, nil, &lists); err != nil {
		return ServerDetail{}, err
	}
	d := ServerDetail{Lists: map[catalog.Kind][]ItemRow{
		catalog.Tools: decoded(catalog.Tools, lists.ToolList), catalog.Prompts: decoded(catalog.Prompts, lists.PromptList), catalog.Skills: decoded(catalog.Skills, lists.SkillList),
	}}
	if err := s.Client.Get(ctx, []string{"api", "servers", server, "resources"}, nil, &d.Resources); err != nil {
		return ServerDetail{}, err
	}
	var history struct{ Events []*event.Event }
	err := s.Client.Get(ctx, []string{"api", "history"}, url.Values{"server": {server}}, &history)
	var status *remote.RefusedError
	if errors.As(err, &status) && status.Status == http.StatusNotFound { // the serve-sse keeps no history
		err = nil
	}
	slices.Reverse(history.Events)
	d.Timeline = history.Events
	return d, err
}

// decoded returns the items that a serve-sse sent.
func decoded(kind catalog.Kind, all []json.RawMessage) []ItemRow {
	var list catalog.List
	for _, raw := range all {
		if it, err := catalog.NewItem(kind, raw); err == nil {
			list = append(list, it)
		}
	}
	return items(list)
}

// Versions returns the versions of a resource, oldest first.
func (s *Source) Versions(ctx context.Context, server, uri string) ([]history.Version, error) {
	versions, err := s.Client.Versions(ctx, server, uri)
	if status, ok := errors.AsType[*remote.RefusedError](err); ok && status.Status == http.StatusNotFound { // the serve-sse keeps no history
		return nil, nil
	}
	return versions, err
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
