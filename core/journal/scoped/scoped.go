// Package scoped shows the events of some servers of a log under other ids: those that the servers
// have in the config of one client of the daemon.
//
// A [Log] reads from another log and stores nothing itself. Every entry keeps its id, number and
// time, so that the numbers of a Log have holes where events of other servers were left out. Events
// that do not concern a server are left out, too; gaps are not, because the missing events may have
// concerned a server in scope. Names can change while readers follow the log: each entry is shown
// under the names at the time at which it is read.
package scoped

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// ErrReadOnly is returned by the methods that would write to the log.
var ErrReadOnly = errors.New("the log can only be read")

// Log is a [journal.Log] that shows part of another log. Close does nothing: the iterators end with
// their context, or when the other log is closed.
type Log struct {
	from  journal.Log
	names func() map[string]string
	lock  string
}

var _ journal.Log = (*Log)(nil)

// New returns a log that shows the servers whose ids are keys of the map that names returns. They
// are shown under the values, which must be distinct. names is called often and concurrently, and
// must not return a map that is modified later. An event about a difference from a lock file is shown
// only if the file is lock.
func New(from journal.Log, names func() map[string]string, lock string) *Log {
	return &Log{from, names, lock}
}

// original returns the id that a server has in the other log, or false if the server is not shown.
func (l *Log) original(shown string) (string, bool) {
	for id, name := range l.names() {
		if name == shown {
			return id, true
		}
	}
	return "", false
}

// shown yields the entries that are shown, under the names of their servers. An entry that another
// follows immediately is held until it is known whether that one is shown, so that More is right.
func (l *Log) shown(entries iter.Seq2[journal.Entry, error]) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		var held *journal.Entry
		release := func(more bool) bool {
			if held == nil {
				return true
			}
			e := *held
			held, e.More = nil, more
			return yield(e, nil)
		}
		for e, err := range entries {
			if err != nil {
				if release(false) {
					yield(e, err)
				}
				return
			}
			shown, ok := l.show(e)
			if ok {
				if !release(true) {
					return
				}
				held = &shown
			}
			if !e.More && !release(false) {
				return
			}
		}
		release(false)
	}
}

// show returns an entry under the name of its server. ok is false if the entry is not shown.
func (l *Log) show(e journal.Entry) (shown journal.Entry, ok bool) {
	id := e.ServerID()
	if id == "" {
		return e, e.Gap != nil || e.Type() == event.TypeGap
	}
	name, ok := l.names()[id]
	if ok && e.Type() == event.TypeLockDrift {
		stored, err := e.Event()
		drift, is := stored.Payload.(event.LockDrift)
		ok = err == nil && is && drift.Lock == l.lock
	}
	if !ok || name == id {
		return e, ok
	}
	return e.OfServer(name), true
}

func (l *Log) Epoch() string { return l.from.Epoch() }

// Bounds returns the bounds of the other log: the first and the last event may not be shown.
func (l *Log) Bounds(ctx context.Context) (journal.Bounds, error) { return l.from.Bounds(ctx) }

func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return l.shown(l.from.Read(ctx, from))
}

func (l *Log) Follow(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return l.shown(l.from.Follow(ctx, from))
}

func (l *Log) Select(ctx context.Context, sel journal.Selection) iter.Seq2[journal.Entry, error] {
	if sel.ServerID != "" {
		id, ok := l.original(sel.ServerID)
		if !ok {
			return func(func(journal.Entry, error) bool) {}
		}
		sel.ServerID = id
	}
	return l.shown(l.from.Select(ctx, sel))
}

func (l *Log) Resume(ctx context.Context, id string) (journal.Resumption, error) {
	return l.from.Resume(ctx, id)
}

func (l *Log) Since(ctx context.Context, t time.Time) (uint64, error) { return l.from.Since(ctx, t) }

func (l *Log) States(ctx context.Context, server string) (journal.States, error) {
	out := journal.States{Resources: map[journal.ResourceID]journal.State{}, Lists: map[journal.ListName]catalog.List{}}
	for id, name := range l.names() {
		if server != "" && server != name {
			continue
		}
		states, err := l.from.States(ctx, id)
		if err != nil {
			return out, err
		}
		for r, st := range states.Resources {
			out.Resources[journal.ResourceID{ServerID: name, URI: r.URI}] = st
		}
		for list, items := range states.Lists {
			out.Lists[journal.ListName{ServerID: name, Kind: list.Kind}] = items
		}
	}
	return out, nil
}

// Flush waits until everything that was appended to the other log before the call is stored.
func (l *Log) Flush(ctx context.Context) error { return l.from.Flush(ctx) }

func (l *Log) Err() error                { return l.from.Err() }
func (l *Log) Stats() journal.StoreStats { return l.from.Stats() }
func (l *Log) Close() error              { return nil }

func (l *Log) Append(*event.Event) error { return ErrReadOnly }

func (l *Log) Remember(journal.ResourceID, journal.State) error { return ErrReadOnly }

func (l *Log) RememberList(journal.ListName, catalog.List) error { return ErrReadOnly }

// Contents returns the texts of the other log. They are found by their digest, whatever server they
// are from.
func (l *Log) Contents() journal.Contents { return contents{l.from.Contents()} }

type contents struct{ journal.Contents }

func (contents) Put(catalog.Digest, string) {}
