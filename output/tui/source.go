package tui

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
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

const (
	// maxKept and maxKeptBytes limit the updates whose texts are kept as versions.
	maxKept      = 5000
	maxKeptBytes = 32 << 20
	maxTimeline  = 200              // events about one server
	backlog      = 10 * time.Minute // age of the oldest stored event in the feed
)

// LocalOptions configures a [Local]. Every field except Past is required.
type LocalOptions struct {
	// Snapshot returns the current state of the servers.
	Snapshot func() *status.Snapshot
	// Read reads a resource from its server.
	Read func(ctx context.Context, server, uri string) (*session.Content, error)
	// Lines returns the newest log lines that mention a server.
	Lines func(server string) []serverlog.Line
	// Past is a log of earlier events, opened for reading; nil if there is none.
	Past journal.Log
}

// Local is a DataSource for servers that this process follows. It keeps the versions since its
// start and reads earlier events from a log on disk if there is one.
type Local struct {
	opts LocalOptions
	inbox

	mu    sync.Mutex                // guards the fields below
	kept  []*event.Event            // updates, oldest first
	bytes int                       // total size of the texts in kept
	about map[string][]*event.Event // events about a server itself, by server, oldest first
}

// NewLocal creates a Local. The caller must call Run.
func NewLocal(opts LocalOptions) *Local { return &Local{opts: opts} }

// Run collects the newest stored events, and then the events from the iterator until it ends.
func (s *Local) Run(ctx context.Context, events iter.Seq2[journal.Entry, error]) error {
	if s.opts.Past != nil {
		if from, err := s.opts.Past.Since(ctx, time.Now().Add(-backlog)); err == nil {
			_ = s.collect(s.opts.Past.Read(ctx, from)) // the screen works without them
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
			s.take(&e)
		}
	}
	return nil
}

func (s *Local) take(e *event.Event) {
	s.put(withoutTexts(e))
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Type() == event.TypeResourceUpdated || e.Type() == event.TypeResourceRemoved {
		s.kept = append(s.kept, e)
		s.bytes += textBytes(e)
	}
	if e.ServerID != "" && e.ResourceURI == "" {
		s.note(e)
	}
	n := 0
	for len(s.kept)-n > maxKept || s.bytes > maxKeptBytes {
		s.bytes -= textBytes(s.kept[n])
		n++
	}
	s.kept = slices.Delete(s.kept, 0, n)
}

// withoutTexts returns an event that does not hold texts in memory.
func withoutTexts(e *event.Event) *event.Event {
	p, ok := e.Payload.(event.ResourceUpdated)
	if !ok || p.Text == nil && p.PreviousText == nil {
		return e
	}
	light := *e
	p.Text, p.PreviousText = nil, nil
	light.Payload = p
	return &light
}

// note keeps an event about a server itself. The caller must hold s.mu.
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

// Servers implements DataSource.
func (s *Local) Servers() ([]ServerRow, error) {
	var out []ServerRow
	for _, st := range s.opts.Snapshot().Servers {
		out = append(out, ServerRow{
			ID: st.ID, State: st.State, Error: st.Error, Since: st.Since, Protocol: st.Info.ProtocolVersion,
			Resources: len(st.Resources), Tools: len(st.Lists[catalog.Tools]), Prompts: len(st.Lists[catalog.Prompts]),
		})
	}
	return out, nil
}

// Detail implements DataSource.
func (s *Local) Detail(_ context.Context, server string) (ServerDetail, error) {
	st, _ := s.opts.Snapshot().Server(server)
	d := ServerDetail{Lists: map[catalog.Kind][]ItemRow{}}
	for _, kind := range kinds() {
		d.Lists[kind] = items(st.Lists[kind])
	}
	for _, r := range st.Resources {
		row := ResourceRow{URI: r.URI, MimeType: r.MimeType, Size: r.Size, Gone: r.Gone}
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

func items(list catalog.List) (out []ItemRow) {
	for _, it := range list {
		out = append(out, ItemRow{Name: it.Key, Description: it.Describe().Description, Raw: it.Raw})
	}
	return out
}

// updates returns the updates of a resource, oldest first.
func (s *Local) updates(server, uri string) (out []*event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.kept {
		if e.ServerID == server && e.ResourceURI == uri {
			out = append(out, e)
		}
	}
	return out
}

// Versions implements DataSource.
func (s *Local) Versions(ctx context.Context, server, uri string) ([]history.Version, error) {
	events := s.updates(server, uri)
	return history.Versions(func(yield func(event.Event, error) bool) {
		if s.opts.Past != nil {
			for entry, err := range s.opts.Past.Select(ctx, journal.Selection{ServerID: server, URI: uri}) {
				if err != nil {
					break // show at least the versions since the start
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

// Text implements DataSource.
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
	for _, e := range slices.Backward(s.updates(server, uri)) {
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

// Log implements DataSource.
func (s *Local) Log(_ context.Context, server string) ([]serverlog.Line, error) {
	return s.opts.Lines(server), nil
}

// pollEvery is the interval at which Remote requests the servers from serve-sse.
const pollEvery = time.Second

// Remote is a DataSource for the servers of a running serve-sse.
type Remote struct {
	Client remote.Client
	Follow remote.FeedOptions // for the feed of serve-sse
	// Only selects the servers to show; nil selects all.
	Only func(server string) bool
	inbox

	mu      sync.Mutex // guards the fields below
	servers []ServerRow
	stale   error // why the list of servers is out of date; nil if it is current
}

// Run follows the feed until ctx ends or serve-sse rejects the request.
func (s *Remote) Run(ctx context.Context) error {
	return remote.Follow(ctx, s.Follow, func(x eventstream.Event) error {
		var e event.Event
		if json.Unmarshal([]byte(x.Data), &e) != nil {
			return nil // a checkpoint, or an event from a newer version
		}
		s.put(&e)
		return nil
	})
}

// Add adds an event that serve-sse does not store to the feed.
func (s *Remote) Add(e *event.Event) { s.put(e) }

// Poll requests the servers at intervals until ctx ends.
func (s *Remote) Poll(ctx context.Context) error {
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
func (s *Remote) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	var found []struct {
		ID, Error, ProtocolVersion string
		State                      event.State
		Since                      time.Time
		Resources, Tools, Prompts  int
	}
	if err := s.Client.Get(ctx, []string{"api", "servers"}, nil, &found); err != nil {
		return err
	}
	servers := make([]ServerRow, 0, len(found))
	for _, f := range found {
		if s.Only != nil && !s.Only(f.ID) {
			continue
		}
		servers = append(servers, ServerRow{ID: f.ID, Error: f.Error, Protocol: f.ProtocolVersion, State: f.State, Since: f.Since, Resources: f.Resources, Tools: f.Tools, Prompts: f.Prompts})
	}
	slices.SortFunc(servers, func(a, b ServerRow) int { return strings.Compare(a.ID, b.ID) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = servers
	return nil
}

// Servers implements DataSource.
func (s *Remote) Servers() ([]ServerRow, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.servers), s.stale
}

// Detail implements DataSource.
func (s *Remote) Detail(ctx context.Context, server string) (ServerDetail, error) {
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
func (s *Remote) Versions(ctx context.Context, server, uri string) ([]history.Version, error) {
	versions, err := s.Client.Versions(ctx, server, uri)
	if status, ok := errors.AsType[*remote.StatusError](err); ok && status.Code == http.StatusNotFound { // the serve-sse keeps no history
		return nil, nil
	}
	return versions, err
}

// Text implements DataSource.
func (s *Remote) Text(ctx context.Context, server, uri string, digest catalog.Digest) (string, error) {
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
func (s *Remote) Log(ctx context.Context, server string) ([]serverlog.Line, error) {
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
