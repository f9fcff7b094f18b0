package publish_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/publish"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// world is a set of servers, which any number of publishers can follow.
type world struct {
	*testing.T
	faults  bool // processes may end while the store is away
	mu      sync.Mutex
	servers map[string]*sessiontest.Server
	serving sync.WaitGroup
}

func newWorld(t *testing.T, ids ...string) *world {
	w := &world{T: t, servers: map[string]*sessiontest.Server{}}
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

// run is a publisher that runs, as a process would.
type run struct {
	*world
	*publish.Publisher
	journal *journal.Journal
	end     context.CancelFunc
	ended   chan struct{}
}

func (w *world) start(opts journal.Options) *run {
	w.Helper()
	return w.publisher(opts, publish.Options{Shared: opts.URL != ""}, w.config())
}

// replica starts a publisher that follows nothing.
func (w *world) replica(opts journal.Options) *run {
	w.Helper()
	return w.publisher(opts, publish.Options{Replica: true}, &config.Config{})
}

func (w *world) publisher(opts journal.Options, with publish.Options, cfg *config.Config) *run {
	w.Helper()
	opts.Logger = slog.New(slog.NewTextHandler(w.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	j, err := journal.Open(w.Context(), opts)
	if err != nil {
		w.Fatal(err)
	}
	with.Journal, with.Tracker, with.Logger = j, tracker.Options{Dial: w.dial}, opts.Logger
	p, err := publish.New(w.Context(), with)
	if err != nil {
		w.Fatal(err)
	}
	p.Apply(cfg)
	ctx, end := context.WithCancel(context.Background())
	r := &run{world: w, Publisher: p, journal: j, end: end, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		if err := p.Run(ctx, publish.Tasks{}); err != nil {
			w.Errorf("Run: %v", err)
		}
		if err := j.Close(); err != nil && !w.faults {
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

// follows counts the servers that the process has ready.
func (r *run) follows() (n int) {
	for _, st := range r.Tracker().Snapshot().Servers {
		if st.State == event.Ready {
			n++
		}
	}
	return n
}

// knows waits until the contents of the resources of the servers are known.
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

// log returns the events of the log that say something about content or lists.
func (r *run) log() (out []string) {
	r.Helper()
	for entry, err := range r.journal.Read(r.Context(), 0) {
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

func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
