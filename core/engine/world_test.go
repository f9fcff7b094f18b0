package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// world is a set of servers that any number of processes can follow.
type world struct {
	*testing.T
	faults  bool // processes may end while the store is unavailable
	mu      sync.Mutex
	away    bool // servers cannot be reached
	servers map[string]*sessiontest.Fake
	serving sync.WaitGroup
}

func newWorld(t *testing.T, ids ...string) *world {
	w := &world{T: t, servers: map[string]*sessiontest.Fake{}}
	for _, id := range ids {
		w.servers[id] = sessiontest.New()
		w.servers[id].SetQuietly("file:///a.md", "one")
		w.servers[id].SetQuietly("file:///b.md", "one")
	}
	t.Cleanup(w.serving.Wait)
	return w
}

func (w *world) dial(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return nil, errors.New("nobody is there")
	}
	r, wr, wait := w.servers[srv.ID].Pipe()
	w.serving.Go(wait)
	return session.OverIO(ctx, r, wr, srv, opts)
}

func (w *world) config() *config.Config {
	cfg := &config.Config{}
	for id := range w.servers {
		cfg.Servers = append(cfg.Servers, sessiontest.Entry(id))
	}
	return cfg
}

// run is a running engine, in place of a process.
type run struct {
	*world
	*engine.Engine
	events journal.Log
	end    context.CancelFunc
	ended  chan struct{}
}

func (w *world) start(at place) *run {
	w.Helper()
	return w.engine(at, engine.Options{Role: roleAt(at)}, w.config())
}

// roleAt returns the role of a process that shares servers wherever that is possible.
func roleAt(at place) engine.Role {
	if at.url != "" {
		return engine.Shares
	}
	return engine.Alone
}

// replica starts an engine that follows nothing.
func (w *world) replica(at place) *run {
	w.Helper()
	return w.engine(at, engine.Options{Role: engine.Watches}, &config.Config{})
}

// place is where a log is stored.
type place struct {
	memory   *journal.Memory // stays open from run to run, as a file would; nil: stored elsewhere
	dir      string          // of a file; "": on a cluster
	url      string
	stream   string // "": the default
	cut      *cut   // nil: the process is not killed
	replicas int
	process  string
	drain    time.Duration
}

// local is the log of one process that remembers what was published.
func local() place {
	return place{memory: journal.NewMemory(journal.MemoryOptions{KeepContent: 1 << 20})}
}

func (w *world) open(at place, log *slog.Logger) (events journal.Log, end func() error) {
	w.Helper()
	if at.memory != nil {
		return at.memory, func() error { return nil }
	}
	if at.dir != "" {
		l, err := sqlitelog.Open(w.Context(), sqlitelog.Options{Dir: at.dir, Logger: log})
		if err != nil {
			w.Fatal(err)
		}
		return l, l.Close
	}
	l, err := natslog.Open(w.Context(), natslog.Options{URL: at.url, Stream: at.stream, Replicas: at.replicas, Process: at.process, Drain: at.drain, Logger: log})
	if err != nil {
		w.Fatal(err)
	}
	return l, l.Close
}

func (w *world) engine(at place, with engine.Options, cfg *config.Config) *run {
	w.Helper()
	if with.Tracker.Dial == nil {
		with.Tracker.Dial = w.dial
	}
	with.Logger = slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	j, end := w.open(at, with.Logger)
	if at.cut != nil {
		at.cut.Log = j
		j = at.cut
	}
	p, err := engine.New(w.Context(), engine.Desired{Config: cfg}, j, with)
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &run{world: w, Engine: p, events: j, end: stop, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		if err := p.Run(ctx); err != nil {
			w.Errorf("Run: %v", err)
		}
		if err := end(); err != nil && !w.faults {
			w.Errorf("Close: %v", err)
		}
	}()
	w.Cleanup(r.stop)
	return r
}

func (r *run) stop() {
	r.end()
	<-r.ended
}

// follows counts the servers that are ready in the process.
func (r *run) follows() (n int) {
	for _, st := range r.Tracker().Snapshot().Servers {
		if st.State == event.Ready {
			n++
		}
	}
	return n
}

// knows waits until the contents of the servers' resources are known.
func (r *run) knows() {
	r.Helper()
	eventually(r.T, "the contents are known", time.Minute, func() bool {
		snap := r.Tracker().Snapshot()
		for _, st := range snap.Servers {
			for _, res := range st.Resources {
				if res.Digest.IsZero() {
					return false
				}
			}
			if len(st.Resources) == 0 {
				return false
			}
		}
		return len(snap.Servers) == len(r.servers)
	})
}

// log returns the events of the log that are about contents or lists.
func (r *run) log() (out []string) {
	r.Helper()
	for entry, err := range r.events.Read(r.Context(), 0) {
		if err != nil {
			r.Fatal(err)
		}
		e, err := entry.Event()
		if err != nil {
			r.Fatal(err)
		}
		switch p := e.Payload.(type) {
		case event.ResourceUpdated, event.ResourceAdded, event.ResourceRemoved:
			out = append(out, fmt.Sprint(e.ServerID, " ", e.Type(), " ", e.ResourceURI, " ", e.Cause))
		case event.ListChanged:
			out = append(out, fmt.Sprint(e.ServerID, " ", p.List, " +", p.Added, " -", p.Removed, " ~", p.Changed, " ", e.Cause))
		}
	}
	return out
}

// lastDigests returns the digests of the last events of all resources.
func lastDigests(t *testing.T, j journal.Log) map[string]catalog.Digest {
	t.Helper()
	last := map[string]catalog.Digest{}
	for entry, err := range j.Read(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		e, err := entry.Event()
		if err != nil {
			t.Fatal(err)
		}
		if u, ok := e.Payload.(event.ResourceUpdated); ok {
			last[e.ServerID+" "+e.ResourceURI] = u.Digest
		}
	}
	return last
}

func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
