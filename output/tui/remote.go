package tui

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/serverlog"
)

// pollEvery is how often the servers are requested from the serve-sse.
const pollEvery = time.Second

// Remote is a Source over a running serve-sse.
type Remote struct {
	Client remote.Client
	Follow remote.FeedOptions // for following its feed

	mu      sync.Mutex // guards all below
	servers []Server
	stale   error
	pending []*event.Event
}

// Run follows the feed until ctx ends or the feed refuses the request.
func (s *Remote) Run(ctx context.Context) error {
	return remote.Follow(ctx, s.Follow, func(x eventstream.Event) error {
		var e event.Event
		if json.Unmarshal([]byte(x.Data), &e) != nil {
			return nil // a checkpoint, or an event of a newer mcptrack
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pending = append(s.pending, &e)
		s.pending = s.pending[max(0, len(s.pending)-maxFeed):]
		return nil
	})
}

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
	servers := make([]Server, 0, len(found))
	for _, f := range found {
		servers = append(servers, Server{ID: f.ID, Error: f.Error, Protocol: f.ProtocolVersion, State: f.State, Since: f.Since, Resources: f.Resources, Tools: f.Tools, Prompts: f.Prompts})
	}
	slices.SortFunc(servers, func(a, b Server) int { return strings.Compare(a.ID, b.ID) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers = servers
	return nil
}

// Servers implements Source.
func (s *Remote) Servers() ([]Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.servers), s.stale
}

// Events implements Source.
func (s *Remote) Events() []*event.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.pending
	s.pending = nil
	return out
}

// Detail implements Source.
func (s *Remote) Detail(ctx context.Context, server string) (Detail, error) {
	var lists struct {
		ToolList   []Item `json:"toolList"`
		PromptList []Item `json:"promptList"`
	}
	if err := s.Client.Get(ctx, []string{"api", "servers", server}, nil, &lists); err != nil {
		return Detail{}, err
	}
	d := Detail{Tools: lists.ToolList, Prompts: lists.PromptList}
	if err := s.Client.Get(ctx, []string{"api", "servers", server, "resources"}, nil, &d.Resources); err != nil {
		return Detail{}, err
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

// Versions implements Source.
func (s *Remote) Versions(ctx context.Context, server, uri string) ([]history.Version, error) {
	return s.Client.Versions(ctx, server, uri)
}

// Text implements Source.
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

// Log implements Source.
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

// Reconnect implements Source.
func (s *Remote) Reconnect(context.Context, string) error { return ErrUnsupported }
