package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// probe is the result of listing a server with certain capabilities.
type probe struct {
	srv   config.Server // as it was configured then
	began time.Time
	base  map[catalog.Kind]catalog.List // what the server listed in the shared session
	done  chan struct{}                 // closed once lists and again are set
	lists map[catalog.Kind]catalog.List // those that differ from base; nil: none
	retry *backoff.Backoff
	again time.Time // when it is repeated, as it failed; zero: it did not fail
}

// outdated reports whether the probe is to be repeated: it failed, or the config or what the
// server lists has changed since. It must be done.
func (p *probe) outdated(srv config.Server, base map[catalog.Kind]catalog.List) bool {
	switch {
	case !p.srv.Equal(srv):
		return true
	case !p.again.IsZero():
		return !time.Now().Before(p.again)
	}
	return !sameLists(p.base, base) && time.Since(p.began) >= probeAgain
}

// run probes a server. If nothing can be listed, the lists known before stay. It returns how
// long to wait before the next attempt, if something failed; else 0.
func (s *variants) run(ctx context.Context, p *probe, capabilities json.RawMessage) (wait time.Duration) {
	defer s.g.kick()
	defer close(p.done)
	lists, err := s.look(ctx, p, capabilities)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || lists != nil {
		p.lists = lists
	}
	if err == nil {
		p.retry.Reset()
		return 0
	}
	wait = p.retry.Next()
	p.again = time.Now().Add(wait)
	if ctx.Err() == nil {
		s.g.opts.Logger.Warn("cannot list what a server offers to clients with more capabilities; they see what all clients see",
			"server", p.srv.ID, "next", wait.Round(time.Second), "err", err)
	}
	return wait
}

// look lists a server in a session with the capabilities, and returns the lists that differ
// from p.base; nil: none. With an error they may be incomplete.
func (s *variants) look(ctx context.Context, p *probe, capabilities json.RawMessage) (differ map[catalog.Kind]catalog.List, err error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-s.slots }()
	refuse := func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, notFound() }
	o := s.g.opts.Session
	o.Era, o.Logger, o.OneShot = session.EraLegacy, s.g.opts.Logger.With("server", printable.Line(p.srv.ID, 128)), true
	o.Client = &session.ClientSide{Capabilities: capabilities, Request: refuse}
	srv := p.srv
	srv.Protocol = config.ProtocolLegacy
	ctx, cancel := context.WithTimeout(ctx, max(ownTimeout, srv.ConnectTimeout))
	defer cancel()
	c, err := s.g.opts.Dial(ctx, srv, o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	for k, base := range p.base {
		list, failed := c.List(ctx, k)
		switch {
		case failed != nil:
			err = failed
		case !equalLists(list, base):
			if differ == nil {
				differ = map[catalog.Kind]catalog.List{}
			}
			differ[k] = list
		}
	}
	return differ, err
}

// sameLists reports whether a and b are the same lists in memory. As lists are immutable,
// their contents are equal then.
func sameLists(a, b map[catalog.Kind]catalog.List) bool {
	return maps.EqualFunc(a, b, func(a, b catalog.List) bool {
		return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
	})
}

func equalLists(a, b catalog.List) bool {
	return slices.EqualFunc(a, b, func(a, b catalog.Item) bool {
		return a.Key == b.Key && (a.Digest == b.Digest || bytes.Equal(a.Raw, b.Raw))
	})
}
