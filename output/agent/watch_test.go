package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/remote"
)

// folder is where consecutive runs follow servers, within a synctest bubble.
type folder struct {
	*testing.T
	sessiontest.Net
	dir     string
	log     *journal.Memory // stays open from run to run, as a file would
	entries []config.Server
}

func inFolder(t *testing.T, test func(f *folder)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &folder{T: t, dir: dir, log: journal.NewMemory(journal.MemoryOptions{KeepContent: 1}), entries: []config.Server{sessiontest.Entry("docs")}}
		t.Cleanup(f.Wait)
		test(f)
	})
}

// run is one run of Watch.
type run struct {
	*folder
	w       *Watch
	e       *engine.Engine
	from    remote.Position
	stored  journal.States
	reader  *Reader
	out     *writer
	cancel  context.CancelFunc
	running sync.WaitGroup
	err     error
}

// writer keeps lines, blocks or fails.
type writer struct {
	mu    sync.Mutex
	lines []string
	fail  error
	block chan struct{} // closed to unblock writing; nil: not blocked
}

func (w *writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	block := w.block
	w.mu.Unlock()
	if block != nil {
		<-block
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail != nil {
		return 0, w.fail
	}
	w.lines = append(w.lines, strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

func (f *folder) start(parts ...func(*run) engine.Part) *run {
	f.Helper()
	reader, err := OpenReader(f.dir, slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	r := &run{folder: f, reader: reader, out: &writer{}}
	r.w = NewWatch(Options{W: r.out, Reader: reader})
	r.from, err = r.w.Resume(f.Context(), f.log)
	if err == nil {
		r.stored, err = f.log.States(f.Context(), "")
	}
	if err == nil {
		r.e, err = engine.New(f.Context(), engine.Desired{Config: &config.Config{Servers: f.entries}}, f.log, engine.Options{Tracker: tracker.Options{Dial: f.Dial, Texts: true}})
	}
	if err != nil {
		f.Fatal(err)
	}
	var all []engine.Part
	for _, part := range parts {
		all = append(all, part(r))
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.running.Go(func() { r.err = cmp.Or(r.e.Run(ctx, all...), r.err) })
	r.cancel = sync.OnceFunc(cancel)
	return r
}

// source is the log as a source of events.
func (f *folder) source() remote.Client { return remote.Local(f.log, http.NotFoundHandler()) }

// watch starts a run and waits until it has compared everything.
func (f *folder) watch() *run {
	f.Helper()
	r := f.start(func(r *run) engine.Part {
		return engine.Reader(func(ctx context.Context) error {
			return r.w.Follow(ctx, f.source(), remote.ReadOptions{From: r.from})
		})
	})
	f.sleep(5 * time.Second)
	return r
}

func (f *folder) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stop ends the run and returns its lines.
func (r *run) stop() []string {
	r.cancel()
	r.running.Wait()
	r.reader.Close()
	return r.out.lines
}

func (r *run) want(lines ...string) {
	r.Helper()
	r.out.mu.Lock()
	defer r.out.mu.Unlock()
	if !slices.Equal(r.out.lines, lines) {
		r.Errorf("printed %q, want %q", r.out.lines, lines)
	}
	r.out.lines = nil
}

// The first line contains the changes since the last run, however that run ended.
func TestSinceTheLastRun(t *testing.T) {
	t.Parallel()
	inFolder(t, func(f *folder) {
		s := f.Serve("docs", session.EraLegacy)
		s.Set("x:1", "a\nb\n")
		s.Set("x:2", "b")
		r := f.watch()
		r.want()
		s.Set("x:1", "a\nc\n")
		f.sleep(3 * time.Second)
		r.want("docs: x:1 updated (1 line)")
		r.stop()

		s.Set("x:2", "c")
		s.Set("x:3", "new")
		s.SetList(catalog.Tools, map[string]any{"name": "find", "inputSchema": map[string]any{"type": "object"}})
		r = f.watch()
		r.out.mu.Lock()
		all := strings.Join(r.out.lines, "\n")
		r.out.mu.Unlock()
		for _, want := range []string{"x:2 updated", "x:3 added", "tool find added"} {
			if !strings.Contains(all, want) || strings.Contains(all, "x:1") {
				f.Errorf("no %q in %q", want, all)
			}
		}
		r.stop()
		r = f.watch()
		r.want()
		r.stop()
	})
}

// The changes of a line that could not be written are reported by the next run.
func TestLineThatWasNotWritten(t *testing.T) {
	t.Parallel()
	inFolder(t, func(f *folder) {
		s := f.Serve("docs", session.EraLegacy)
		s.Set("x:1", "a")
		r := f.watch()
		r.out.fail = io.ErrClosedPipe
		s.Set("x:1", "b")
		f.sleep(5 * time.Second)
		r.stop()
		if !errors.Is(r.err, io.ErrClosedPipe) {
			t.Error(r.err)
		}
		r = f.watch()
		r.want("docs: x:1 updated (1 line)")
		r.stop()
	})
}

// If a reader blocks until events are lost, the next line contains everything that differs from
// the reported state, whatever the last event of a resource was.
func TestReaderThatDoesNotRead(t *testing.T) {
	t.Parallel()
	inFolder(t, func(f *folder) {
		s := f.Serve("docs", session.EraLegacy)
		s.Set("x:1", "a")
		s.Set("x:2", "a")
		r := f.watch()
		r.out.block = make(chan struct{})
		s.Set("x:2", "b")
		f.sleep(3 * time.Second) // now it blocks while writing the line
		for range journal.DefaultLag + 1 {
			r.e.Tracker().Publish(event.Event{Payload: event.SubscriptionsChanged{}})
		}
		s.Set("x:1", "b")
		s.Set("x:3", "new")
		s.SetList(catalog.Tools, map[string]any{"name": "find", "inputSchema": map[string]any{"type": "object"}})
		s.NotifyListChanged(catalog.Tools)
		f.sleep(5 * time.Second)
		s.NotifyUpdated("x:1") // the same content
		f.sleep(5 * time.Second)
		close(r.out.block)
		f.sleep(5 * time.Second)
		lines := strings.Join(r.stop(), "\n")
		for _, want := range []string{"x:1 updated", "x:2 updated", "x:3 added", "tool find added"} {
			if !strings.Contains(lines, want) {
				f.Errorf("no %q in %q", want, lines)
			}
		}
		if strings.Contains(lines, "no longer known") {
			f.Error(lines)
		}
		r = f.watch()
		r.want()
		r.stop()
	})
}

// An unreachable server is reported once, even across runs, and so is its return.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	inFolder(t, func(f *folder) {
		s := f.Serve("docs", session.EraLegacy)
		s.Set("x:1", "a")
		r := f.watch()
		f.SetDown("docs", sessiontest.ErrRefused)
		s.Disconnect()
		f.sleep(20 * time.Second)
		r.want()
		f.sleep(time.Minute)
		r.want("docs: not reachable")
		r.stop()
		r = f.watch()
		f.sleep(time.Minute)
		r.want()
		s.Set("x:1", "b")
		f.SetDown("docs", nil)
		f.sleep(2 * time.Minute)
		lines := strings.Join(r.stop(), "\n")
		if !strings.Contains(lines, "reachable again") || !strings.Contains(lines, "x:1 updated") {
			f.Errorf("%q", lines)
		}
	})
}

// Once compares everything and ends, even if a server is unreachable or silent.
func TestOnce(t *testing.T) {
	t.Parallel()
	inFolder(t, func(f *folder) {
		f.entries = append(f.entries, sessiontest.Entry("wiki"))
		s, wiki := f.Serve("docs", session.EraLegacy), f.Serve("wiki", session.EraModern)
		for i := range 300 {
			s.Set(fmt.Sprintf("x:%d", i), "a")
		}
		wiki.Set("y:1", "a")
		once := func(limit time.Duration) (lines, missed []string, took time.Duration) {
			r := f.start()
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			began := time.Now()
			_, _ = r.e.Tracker().Settled(ctx)
			Compared(ctx, r.e.Tracker().Snapshot, r.stored, func(string) bool { return true })
			took = time.Since(began)
			servers := r.e.Tracker().Snapshot().Servers
			for _, st := range servers {
				if !st.Connected() {
					missed = append(missed, st.ID)
				}
			}
			r.cancel()
			r.running.Wait()
			if err := r.w.Once(f.Context(), f.source(), remote.ReadOptions{From: r.from}, servers); err != nil {
				f.Error(err)
			}
			return r.stop(), missed, took
		}
		if lines, missed, took := once(time.Minute); len(lines)+len(missed) > 0 || took > 5*time.Second {
			f.Errorf("%q, %q, %v", lines, missed, took)
		}
		for i := range 300 {
			s.Set(fmt.Sprintf("x:%d", i), "b")
		}
		wiki.Set("y:1", "b")
		if lines, _, _ := once(time.Minute); len(lines) != 1 || !strings.HasSuffix(lines[0], " more") || !strings.Contains(lines[0], "updated") {
			f.Errorf("%q", lines)
		}
		if lines, _, _ := once(time.Minute); len(lines) > 0 {
			f.Errorf("again: %q", lines)
		}
		f.SetDown("wiki", sessiontest.ErrRefused)
		wiki.Disconnect()
		s.Set("x:7", "c")
		if lines, missed, _ := once(time.Minute); len(lines) != 1 || !strings.Contains(lines[0], "docs: x:7 updated") || !strings.Contains(lines[0], "wiki: not reachable") || !slices.Equal(missed, []string{"wiki"}) {
			f.Errorf("%q, %q", lines, missed)
		}
	})
}

// A server whose config entry is not approved is reported once, whether or not its old connection
// continues.
func TestUnapproved(t *testing.T) {
	t.Parallel()
	inFolder(t, func(f *folder) {
		s := f.Serve("docs", session.EraLegacy)
		s.Set("x:1", "a")
		r := f.watch()
		apply := func(change func(*config.Server)) {
			r.e.Apply(&config.Config{Servers: []config.Server{sessiontest.Entry("docs", change)}})
			f.sleep(5 * time.Second)
		}
		apply(func(s *config.Server) { s.Unapproved, s.Superseded = "approve it", true })
		r.want("docs: changed in the config, not approved")
		s.Disconnect()
		f.sleep(5 * time.Minute)
		r.want()
		s.Set("x:1", "b")
		f.sleep(5 * time.Second)
		r.want("docs: x:1 updated (1 line)")
		apply(func(s *config.Server) { s.Unapproved = "approve it" })
		f.sleep(5 * time.Minute)
		r.want("docs: not approved")
		apply(func(*config.Server) {})
		apply(func(s *config.Server) { s.Unapproved = "approve it" })
		f.sleep(time.Minute)
		r.want("docs: not approved")
		r.stop()
	})
}

// A feed is reported from the last reported event on, even after writing failed. Events that are
// not for agents move the cursor as well.
func TestFeed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const id = "00000000000000ab-"
		entry := func(n int, payload event.Payload, uri string) string { // without a payload, a checkpoint
			id, typ, data := fmt.Sprint(id, n), "checkpoint", []byte("{}")
			if payload != nil {
				e := event.Event{ID: id, ServerID: "docs", ResourceURI: uri, Timestamp: time.Now(), Payload: payload}
				typ = string(e.Type())
				var err error
				if data, err = e.AppendJSON(nil); err != nil {
					t.Fatal(err)
				}
			}
			return string(eventstream.Append(nil, id, typ, data))
		}
		changed := func(n int, uri string) string { return entry(n, event.ResourceUpdated{}, uri) }
		// read is a run that receives the entries and is interrupted after some time.
		read := func(out *writer, after time.Duration, entries string) (began string, err error) {
			r, err := OpenReader(dir, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			began = r.ID()
			source := remote.Client{Base: &url.URL{Scheme: "http", Host: "feed.example"}, HTTP: &http.Client{Transport: feed(entries)}}
			return began, NewWatch(Options{W: out, Reader: r}).Follow(ctx, source, remote.ReadOptions{})
		}
		for _, run := range []struct {
			fail    error
			after   time.Duration
			entries string
			began   string
			want    []string
		}{
			{nil, 30 * time.Second, entry(1, nil, "") + changed(2, "x:1") + changed(3, "x:2"), "", []string{"docs: x:1 updated, x:2 updated"}},
			{nil, 30 * time.Second, entry(4, event.ServerState{State: event.Ready}, ""), id + "3", nil},
			{errors.New("closed"), 30 * time.Second, changed(5, "x:3"), id + "4", nil},
			{nil, 10 * time.Millisecond, changed(5, "x:3"), id + "4", []string{"docs: x:3 updated"}}, // immediately, since it ends
			{nil, 30 * time.Second, "", id + "5", nil},
		} {
			out := &writer{fail: run.fail}
			began, err := read(out, run.after, run.entries)
			if began != run.began || !slices.Equal(out.lines, run.want) || !errors.Is(err, run.fail) {
				t.Errorf("from %q: %q, %v; want from %q: %q, %v", began, out.lines, err, run.began, run.want, run.fail)
			}
		}
	})
}

// feed is a transport whose responses are event streams with these entries, which do not end.
type feed string

func (f feed) RoundTrip(q *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {eventstream.ContentType}}, Body: io.NopCloser(io.MultiReader(strings.NewReader(string(f)), silent{q.Context()}))}, nil
}

type silent struct{ context.Context }

func (s silent) Read([]byte) (int, error) { <-s.Done(); return 0, s.Err() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
