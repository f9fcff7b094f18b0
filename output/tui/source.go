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
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/serverlog"
)

// ServerRow is a row of the list of servers.
type ServerRow struct {
	ID, Error, Protocol string
	State               event.State
	Since               time.Time
	Resources, Tools    int
	Prompts             int
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

// DataSource provides the data on the screen. Its methods are called concurrently; methods with a
// context may wait for a server.
type DataSource interface {
	// Servers returns the servers, sorted by ID. An error means that the list is out of date.
	Servers() ([]ServerRow, error)
	// Events returns the events since the last call, oldest first.
	Events() []*event.Event
	Detail(ctx context.Context, server string) (ServerDetail, error)
	// Versions returns the versions of a resource, oldest first.
	Versions(ctx context.Context, server, uri string) ([]history.Version, error)
	// Text returns the text of the version with the given digest. The zero digest selects the
	// current version.
	Text(ctx context.Context, server, uri string, digest catalog.Digest) (string, error)
	// Log returns the newest log lines that mention a server, oldest first.
	Log(ctx context.Context, server string) ([]serverlog.Line, error)
}

// inbox buffers the newest events until the screen takes them.
type inbox struct {
	mu     sync.Mutex
	events []*event.Event
}

func (b *inbox) put(events ...*event.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, events...)
	b.events = b.events[max(0, len(b.events)-maxFeed):]
}

// Events implements DataSource.
func (b *inbox) Events() []*event.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.events
	b.events = nil
	return out
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

// Source is a DataSource for the servers of a client: of a running serve-sse, a daemon or this process.
type Source struct {
	Client remote.Client
	// Only selects the servers to show; nil selects all.
	Only func(server string) bool
	inbox

	mu      sync.Mutex // guards the fields below
	servers []ServerRow
	stale   error // why the list of servers is out of date; nil if it is current
}

// Run follows the feed until ctx ends or the request is refused.
func (s *Source) Run(ctx context.Context) error {
	from := remote.ReadOptions{From: remote.Position{Time: time.Now().Add(-backlog)}, Retry: true}
	return s.Client.Follow(ctx, from, func(entry journal.Entry) error {
		if e, err := entry.Event(); err == nil {
			s.put(withoutTexts(&e))
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

// Add adds an event that is not stored to the feed.
func (s *Source) Add(e *event.Event) { s.put(e) }

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
		servers = append(servers, ServerRow{ID: f.ID, Error: f.Error, Protocol: f.ProtocolVersion, State: f.State, Since: since, Resources: f.Resources, Tools: f.Tools, Prompts: f.Prompts})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = servers
	return nil
}

// Servers implements DataSource.
func (s *Source) Servers() ([]ServerRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.servers), s.stale
}

// Detail implements DataSource.
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
	var status *remote.StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound { // the serve-sse keeps no history
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

// Versions implements DataSource.
func (s *Source) Versions(ctx context.Context, server, uri string) ([]history.Version, error) {
	versions, err := s.Client.Versions(ctx, server, uri)
	if status, ok := errors.AsType[*remote.StatusError](err); ok && status.Code == http.StatusNotFound { // the serve-sse keeps no history
		return nil, nil
	}
	return versions, err
}

// Text implements DataSource.
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

// Log implements DataSource.
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
