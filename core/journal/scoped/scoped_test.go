package scoped

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logs are a log in memory and one in a file: the entries of the first carry the events that were
// appended, those of the second only what is stored.
func logs(t *testing.T) map[string]journal.Log {
	dir := t.TempDir()
	write := func() journal.Log {
		l, err := sqlitelog.Open(t.Context(), sqlitelog.Options{Dir: dir, KeepContent: 1 << 20, Logger: journaltest.Logger(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	return map[string]journal.Log{"memory": journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20}), "file": write()}
}

const (
	internal = "docs~1f"
	other    = "docs~2e"
	hostile  = "a\"b\u202e~3"
	lockFile = "/a/mcptrack.lock"
)

func names() map[string]string { return map[string]string{internal: "docs", hostile: "odd \"name\""} }

func update(server, uri string, n int) *event.Event {
	size := int64(n)
	return &event.Event{ServerID: server, ResourceURI: uri, Timestamp: time.Now(), Cause: event.CauseNotify,
		Payload: event.ResourceUpdated{Digest: journaltest.Digest(n), Size: &size, Changed: new(bool)}}
}

func fill(t *testing.T, log journal.Log) {
	t.Helper()
	for i, e := range []*event.Event{
		update(internal, "file:///1", 1), update(other, "file:///1", 2), {Timestamp: time.Now(), Payload: event.ConfigReloaded{}},
		update(hostile, "file:///2", 3), update(internal, "file:///2", 4), update(other, "file:///3", 5),
		{ServerID: internal, Timestamp: time.Now(), Payload: event.ServerState{State: event.Ready}},
	} {
		if err := log.Append(e); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if err := log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// short describes entries: number, server and URI of each, and a + if more follow immediately.
func short(t *testing.T, entries iter.Seq2[journal.Entry, error]) string {
	t.Helper()
	var out []string
	for e, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		if e.Gap != nil {
			out = append(out, "gap")
			continue
		}
		ev, err := e.Event()
		if err != nil {
			t.Fatal(err)
		}
		wire := string(e.Data())
		if want, _ := journal.Encode(&ev, e.ID); string(want) != wire {
			t.Errorf("the wire form of %+v is %s", ev, wire)
		}
		if ev.ServerID != e.ServerID() || !strings.HasSuffix(e.ID, fmt.Sprint("-", e.Seq)) {
			t.Errorf("%+v is of %s", e, ev.ServerID)
		}
		more := ""
		if e.More {
			more = "+"
		}
		out = append(out, fmt.Sprint(e.Seq, " ", ev.ServerID, " ", ev.ResourceURI, more))
	}
	return strings.Join(out, ", ")
}

func TestShowsItsServersUnderTheirNames(t *testing.T) {
	for name, from := range logs(t) {
		t.Run(name, func(t *testing.T) {
			fill(t, from)
			log := New(from, names, lockFile)
			const all = `1 docs file:///1+, 4 odd "name" file:///2+, 5 docs file:///2+, 7 docs `
			equal := func(what, got, want string) {
				if t.Helper(); got != want {
					t.Errorf("%s: got  %s\nwant %s", what, got, want)
				}
			}
			plain := func(s string) string { return strings.ReplaceAll(s, "+", "") }
			equal("read", plain(short(t, log.Read(t.Context(), 0))), plain(all))
			equal("read from 2", plain(short(t, log.Read(t.Context(), 2))), plain(all[strings.Index(all, "4"):]))
			equal("all", plain(short(t, log.Select(t.Context(), journal.Selection{}))), plain(all))
			equal("server", plain(short(t, log.Select(t.Context(), journal.Selection{ServerID: "docs"}))), "1 docs file:///1, 5 docs file:///2, 7 docs ")
			equal("resource", plain(short(t, log.Select(t.Context(), journal.Selection{ServerID: `odd "name"`, URI: "file:///2"}))), `4 odd "name" file:///2`)
			equal("internal id", short(t, log.Select(t.Context(), journal.Selection{ServerID: internal})), "")
			equal("other server", short(t, log.Select(t.Context(), journal.Selection{ServerID: other})), "")

			b, err := log.Bounds(t.Context())
			if err != nil || b.First != 1 || b.Last != 7 || b.Epoch != from.Epoch() || log.Epoch() != from.Epoch() {
				t.Errorf("bounds: %+v, %v", b, err)
			}
			r, err := log.Resume(t.Context(), event.FormatID(b.Epoch, 2))
			if err != nil || r.From != 3 || r.Gap != nil || r.Next != 8 {
				t.Errorf("resume: %+v, %v", r, err)
			}
			if at, err := log.Since(t.Context(), time.Now().Add(time.Hour)); err != nil || at != 8 {
				t.Errorf("since: %d, %v", at, err)
			}
		})
	}
}

func TestStatesHaveTheNames(t *testing.T) {
	for name, from := range logs(t) {
		t.Run(name, func(t *testing.T) {
			fill(t, from)
			for _, server := range []string{internal, other} {
				item, err := catalog.NewItem(catalog.Tools, []byte(`{"name":"`+server[5:]+`","inputSchema":{"type":"object"}}`))
				if err == nil {
					err = from.RememberList(journal.ListName{ServerID: server, Kind: catalog.Tools}, catalog.List{item})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			log := New(from, names, lockFile)
			st, err := log.States(t.Context(), "docs")
			if _, ok := st.Resources[journal.ResourceID{ServerID: "docs", URI: "file:///2"}]; err != nil || !ok || len(st.Resources) != 2 {
				t.Errorf("%+v, %v", st.Resources, err)
			}
			if list := st.Lists[journal.ListName{ServerID: "docs", Kind: catalog.Tools}]; len(st.Lists) != 1 || len(list) != 1 || list[0].Key != "1f" {
				t.Errorf("%+v", st.Lists)
			}
			if st, err := log.States(t.Context(), ""); err != nil || len(st.Resources) != 3 || len(st.Lists) != 1 {
				t.Errorf("%+v, %v", st, err)
			}
			for _, id := range []string{internal, other, "none"} {
				if st, err := log.States(t.Context(), id); err != nil || len(st.Resources)+len(st.Lists) != 0 {
					t.Errorf("%s: %+v, %v", id, st, err)
				}
			}
		})
	}
}

// A follower receives the events of its servers as they happen, an event that others hide is not
// waited for, and a server can get another name meanwhile.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := journal.NewMemory(journal.MemoryOptions{})
		var now atomic.Pointer[map[string]string]
		first := names()
		now.Store(&first)
		log := New(from, func() map[string]string { return *now.Load() }, lockFile)
		ctx, cancel := context.WithCancelCause(t.Context())
		var got []string
		var ended error
		entries := log.Follow(ctx, 0)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range entries {
				if ended = err; err == nil {
					got = append(got, fmt.Sprint(e.Seq, " ", e.ServerID()))
				}
			}
		}()
		add := func(servers ...string) {
			for _, server := range servers {
				if err := from.Append(update(server, "file:///1", 1)); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		add(internal)
		add(internal, other)
		add(other, internal)
		second := map[string]string{internal: "renamed", other: "docs"}
		now.Store(&second)
		add(internal, other)
		why := errors.New("enough")
		cancel(why)
		<-done
		if want := "[1 docs 2 docs 5 docs 6 renamed 7 docs]"; fmt.Sprint(got) != want || !errors.Is(ended, why) {
			t.Errorf("%v, %v", got, ended)
		}
	})
}

// More is set exactly if another shown entry follows.
func TestMore(t *testing.T) {
	from := journal.NewMemory(journal.MemoryOptions{})
	fill(t, from)
	if got, want := short(t, New(from, names, lockFile).Read(t.Context(), 0)), `1 docs file:///1+, 4 odd "name" file:///2+, 5 docs file:///2+, 7 docs `; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := short(t, New(from, func() map[string]string { return map[string]string{hostile: "x"} }, lockFile).Read(t.Context(), 0)); got != "4 x file:///2" {
		t.Errorf("a hidden entry counts as more: %s", got)
	}
}

// What is missing is reported, because it may have concerned a server in scope.
func TestGapsAreShown(t *testing.T) {
	from := journal.NewMemory(journal.MemoryOptions{Keep: 2})
	fill(t, from)
	log := New(from, names, lockFile)
	if got, want := short(t, log.Read(t.Context(), 0)), "gap, 7 docs "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r, err := log.Resume(t.Context(), event.FormatID(log.Epoch(), 1))
	if err != nil || r.Gap == nil || r.Gap.Reason != journal.ReasonRetention {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCannotBeWritten(t *testing.T) {
	for name, from := range logs(t) {
		t.Run(name, func(t *testing.T) {
			log := New(from, names, lockFile)
			text := "kept"
			from.Contents().Put(journaltest.Digest(1), text)
			log.Contents().Put(journaltest.Digest(2), "not kept")
			for what, err := range map[string]error{
				"append": log.Append(update("docs", "file:///1", 1)), "remember": log.Remember(journal.ResourceID{}, journal.State{}),
				"list": log.RememberList(journal.ListName{}, nil),
			} {
				if !errors.Is(err, ErrReadOnly) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := errors.Join(log.Flush(t.Context()), log.Close(), log.Err()); err != nil {
				t.Error(err)
			}
			found, err := log.Contents().Stored(t.Context(), []catalog.Digest{journaltest.Digest(1), journaltest.Digest(2)})
			if err != nil || len(found) != 1 || !found[journaltest.Digest(1)] {
				t.Errorf("%v, %v", found, err)
			}
			if b, err := log.Bounds(t.Context()); err != nil || b.Last != 0 {
				t.Errorf("something was stored: %+v, %v", b, err)
			}
		})
	}
}

// Of the differences from locks, those from the lock in scope are shown.
func TestLocks(t *testing.T) {
	t.Parallel()
	for name, from := range logs(t) {
		for _, lock := range []string{lockFile, "/b/mcptrack.lock", ""} {
			if err := from.Append(&event.Event{ServerID: internal, Timestamp: time.Now(), Payload: event.LockDrift{Change: event.DriftResolved, Section: "tools", Item: "tool/dig", Lock: lock}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := from.Append(update(internal, "file:///1", 1)); err != nil {
			t.Fatal(err)
		}
		if err := from.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := short(t, New(from, names, lockFile).Read(t.Context(), 0)), "1 docs +, 4 docs file:///1"; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
