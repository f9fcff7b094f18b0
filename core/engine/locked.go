package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/status"
)

// Lock specifies what the followed servers are compared with.
type Lock struct {
	// Guard follows the lock file. The engine calls its Run, and receives its Changes.
	Guard *guard.Guard
	// Launch returns how a server is started or reached; nil means that this is not compared. It is
	// called when a server has connected, and may read files.
	Launch func(ctx context.Context, srv config.Server) json.RawMessage
}

// locked compares the servers of an engine with a lock file.
type locked struct {
	lock     Lock
	engine   *Engine
	verdicts *Verdicts
	dirty    wake.Channel // received by run: something to compare may have changed

	last map[string]compared // by server; only run uses it

	mu  sync.Mutex     // guards cfg
	cfg *config.Config // the servers to follow
}

// compared is what a server was last compared with, and as what.
type compared struct {
	version   any
	entry     config.Server
	connected time.Time
	offer     guard.Offer
	verdict   *guard.Verdict
}

func newLocked(e *Engine, l Lock) *locked {
	return &locked{lock: l, engine: e, verdicts: e.Verdicts(""), dirty: wake.New(), last: map[string]compared{}, cfg: &config.Config{}}
}

func (l *locked) apply(cfg *config.Config) {
	l.mu.Lock()
	l.cfg = cfg
	l.mu.Unlock()
	l.dirty.Send()
}

// run compares the servers whenever one of them, the config or the lock changes, until ctx ends.
func (l *locked) run(ctx context.Context) error {
	l.dirty.Send()
	read := l.lock.Guard.Changes()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-read:
			read = l.lock.Guard.Changes()
		case <-l.dirty:
		}
		l.compareAll(ctx)
	}
}

// published makes run compare the servers if what a server offers may have changed with an event.
func (l *locked) published(e *event.Event) {
	switch e.Payload.(type) {
	case event.ServerState, event.ListChanged, event.SubscriptionActive:
		l.dirty.Send()
	}
}

func (l *locked) compareAll(ctx context.Context) {
	l.mu.Lock()
	cfg := l.cfg
	l.mu.Unlock()
	known := map[string]bool{}
	for _, st := range l.engine.tracker.Snapshot().Servers {
		if srv, ok := cfg.Server(st.ID); ok {
			known[st.ID] = true
			l.compare(ctx, srv, &st)
		}
	}
	maps.DeleteFunc(l.last, func(id string, _ compared) bool { return !known[id] })
	verdicts := make(map[string]*guard.Verdict, len(l.last))
	for id, c := range l.last {
		verdicts[id] = c.verdict
	}
	l.verdicts.Set(verdicts)
}

// Refuse returns why an item of a server must not be used before the user has approved it, or nil if it may
// be: without [Options.Lock] or a lock file, nothing is refused. The newest list that has the item is compared,
// even if that is not published yet.
func (e *Engine) Refuse(server string, k catalog.Kind, key string) error {
	l := e.locked
	if l == nil || !l.lock.Guard.Exists() {
		return nil
	}
	verdict, compared := l.verdicts.latest(server)
	if !compared {
		return errors.New("not served: the server is not yet compared with the lock; try again")
	}
	if err := verdict.Refuse(k, key); err != nil { // also because of how the server is started
		return err
	}
	l.mu.Lock()
	srv, _ := l.cfg.Server(server)
	l.mu.Unlock()
	st, _ := e.tracker.Snapshot().Server(server)
	return l.lock.Guard.Judge(server, srv.Lock, offerOf(srv, &st)).Refuse(k, key)
}

// offerOf returns what a server offers, without its launch.
func offerOf(srv config.Server, st *status.ServerStatus) guard.Offer {
	o := guard.Offer{
		Capabilities: st.Info.RawCapabilities, Instructions: &st.Info.Instructions, Lists: map[catalog.Kind][]catalog.Item{},
		Secrets: srv.Credentials(),
	}
	for k, list := range st.Lists {
		o.Lists[k] = list
	}
	return o
}

// compare compares a server with the lock, unless nothing has changed since that was last done.
func (l *locked) compare(ctx context.Context, srv config.Server, st *status.ServerStatus) {
	was, again := l.last[st.ID]
	if !st.Connected() && !again || ctx.Err() != nil {
		return
	}
	now := compared{version: l.lock.Guard.Version(), entry: srv, connected: st.Since, offer: offerOf(srv, st)}
	switch sameLaunch := again && was.connected.Equal(now.connected) && was.entry.Equal(now.entry); {
	case !st.Connected(): // the lock may have changed, and what the server last offered stays open until it is approved
		now.connected, now.offer = was.connected, was.offer
	case sameLaunch:
		now.offer.Launch = was.offer.Launch
	case l.lock.Launch != nil:
		now.offer.Launch = l.lock.Launch(ctx, srv)
	}
	if again && was.same(now) {
		return
	}
	now.verdict = l.lock.Guard.Judge(st.ID, srv.Lock, now.offer)
	l.last[st.ID] = now
}

func (a compared) same(b compared) bool {
	return a.version == b.version && maps.Equal(a.entry.Lock, b.entry.Lock) && slices.Equal(a.offer.Secrets, b.offer.Secrets) &&
		bytes.Equal(a.offer.Launch, b.offer.Launch) && bytes.Equal(a.offer.Capabilities, b.offer.Capabilities) &&
		*a.offer.Instructions == *b.offer.Instructions && maps.EqualFunc(a.offer.Lists, b.offer.Lists, sameList)
}

// sameList compares lists by identity, because lists are replaced and never modified.
func sameList(a, b []catalog.Item) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
