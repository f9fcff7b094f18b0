package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// known tools of the server, for hints
type subscription struct {
	t     *tracker.Tracker
	id    string
	uris  []string
	calls []config.ToolCall
	tools []string // that the server is known to have, for hints
	log   *slog.Logger
	// wake signals to run that the state changed. Capacity 1, never closed.
	wake chan struct{}

	mu     sync.Mutex // guards the fields below: keep writes them on the printing goroutine, run reads them
	active bool       // the first line was printed
	begun  int        // sessions with an active subscription so far
	again  bool       // a session is ready and its subscription not active yet
	any    bool       // at least one resource was followed
	failed error      // the first failure
}

// keep reports whether to print an event, and updates the state from it.
func (s *subscription) keep(e *event.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := e.Payload.(type) {
	case event.ServerState:
		switch {
		case p.State == event.Ready:
			s.again = true
		case p.State == event.Unsupported:
			s.fail(&failure{exit: exitRefused, code: "unsupported", err: fmt.Errorf("server %q: %s", s.id, p.Reason)})
		case slices.Contains([]event.State{event.Backoff, event.NeedsAuth, event.Unconfigured, event.Unapproved}, p.State) && !s.active:
			s.fail(&failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("server %q: %s", s.id, p.Error)})
		}
	case event.SubscriptionActive:
		s.active = true
		s.any = s.any || p.Resources.Count > 0
		if s.again {
			s.again = false
			s.begun++
			s.signal()
		}
	}
	return s.active
}

// hasFollowed reports whether at least one resource was followed.
func (s *subscription) hasFollowed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.any
}

// fail ends the command with the first failure. s.mu must be held.
func (s *subscription) fail(err error) {
	if s.failed == nil {
		s.failed = err
		s.signal()
	}
}

func (s *subscription) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// name adds the URIs to the events that say how many resources are followed.
func (s *subscription) name(events []*event.Event) []*event.Event {
	for i, e := range events {
		p, ok := e.Payload.(event.SubscriptionActive)
		if !ok {
			continue
		}
		st, _ := s.t.Snapshot().Server(s.id)
		p.Resources.URIs = make([]string, 0, len(st.Resources))
		for _, r := range st.Resources {
			p.Resources.URIs = append(p.Resources.URIs, r.URI)
		}
		p.Resources.Count = len(p.Resources.URIs)
		named := *e
		named.Payload = p
		events[i] = &named
	}
	return events
}

// run checks after the first subscription that the named resources exist, and makes the
// calls in every session.
func (s *subscription) run(ctx context.Context) error {
	done := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		}
		s.mu.Lock()
		begun, failed := s.begun, s.failed
		s.mu.Unlock()
		if failed != nil {
			return failed
		}
		if begun == done {
			continue
		}
		first := done == 0
		done = begun
		if first {
			if err := s.exist(ctx); err != nil {
				return err
			}
			if !s.hasFollowed() {
				s.log.Warn("there is no resource to follow yet; waiting for one", "server", s.id, "resources", s.uris)
			}
		}
		if err := s.makeCalls(ctx); err != nil {
			if first {
				return err
			}
			s.log.Warn("call failed", "server", s.id, "err", err)
		}
	}
}

// exist returns an error for the first URI, not glob, that the server does not have.
func (s *subscription) exist(ctx context.Context) error {
	st, _ := s.t.Snapshot().Server(s.id)
	for _, uri := range s.uris {
		if strings.ContainsAny(uri, "*[{") || !strings.Contains(uri, ":") {
			continue
		}
		list := st.Lists[catalog.Resources]
		if _, listed := list.Get(uri); listed {
			continue
		}
		if _, err := s.t.ReadResource(ctx, s.id, uri); errors.Is(err, session.ErrNotFound) {
			return &failure{exit: exitRefused, code: "not_found", err: fmt.Errorf("server %q has no resource %q", s.id, printable.Line(uri, 300)),
				hint: didYouMean(uri, list.Keys(), "mcptrack list resources "+printable.Line(s.id, 60)+" shows what the server offers")}
		}
	}
	return nil
}

func (s *subscription) makeCalls(ctx context.Context) error {
	for _, c := range s.calls {
		result, err := s.t.CallTool(ctx, s.id, c.Tool, c.Arguments)
		if err == nil {
			if text, failed := session.ToolFailure(result); failed {
				err = errors.New(text)
			}
		}
		if err != nil {
			f := &failure{exit: exitRefused, code: "call_failed", err: fmt.Errorf("server %q, tool %q: %w", s.id, printable.Line(c.Tool, 100), err)}
			if !slices.Contains(s.tools, c.Tool) {
				f.hint = didYouMean(c.Tool, s.tools, "mcptrack list tools "+printable.Line(s.id, 60)+" shows what the server offers")
			}
			return f
		}
	}
	return nil
}
