package sessiontest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// ErrRefused is a typical dial error, for use with SetDown.
var ErrRefused = errors.New("connection refused")

// Net is a set of fake servers that are reached over pipes. The command in a config entry is the
// server's address. The zero value is empty. Call Wait at the end of the test.
type Net struct {
	mu      sync.Mutex
	servers map[string]*Fake
	down    map[string]error // errors with which dialling fails, by server
	dials   map[string][]time.Time
	pipes   sync.WaitGroup
}

// Serve adds a server that supports one era. The caller may modify the server until it is dialled.
func (n *Net) Serve(id string, era session.Era) *Fake {
	s := New()
	s.Legacy, s.Modern = era == session.EraLegacy, era == session.EraModern
	n.Add(id, s)
	return s
}

// Add adds a server.
func (n *Net) Add(id string, s *Fake) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.servers == nil {
		n.servers, n.down, n.dials = map[string]*Fake{}, map[string]error{}, map[string][]time.Time{}
	}
	n.servers[id] = s
}

// Server returns a server that was added before.
func (n *Net) Server(id string) *Fake {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.servers[id]
}

// Dial connects to the server for an entry, like [session.Dial].
func (n *Net) Dial(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
	n.mu.Lock()
	n.dials[srv.ID] = append(n.dials[srv.ID], time.Now())
	server, err := n.servers[srv.Command], n.down[srv.ID]
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(srv.ConnectTimeout, opts.ConnectTimeout, 15*time.Second))
	defer cancel()
	r, w, wait := server.Pipe()
	n.pipes.Go(wait)
	return overIO(ctx, r, w, srv, opts)
}

// overIO calls [session.OverIO] and closes the pipes if it returns an error.
func overIO(ctx context.Context, r io.ReadCloser, w io.WriteCloser, srv config.Server, opts session.Options) (*session.Session, error) {
	s, err := session.OverIO(ctx, r, w, srv, opts)
	if err != nil {
		_, _ = r.Close(), w.Close()
	}
	return s, err
}

// Dialled returns the times at which a server was dialled.
func (n *Net) Dialled(id string) []time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dials[id])
}

// SetDown makes dialling a server fail with err and cuts its connections. If err is nil, the server
// is reachable again.
func (n *Net) SetDown(id string, err error) {
	n.mu.Lock()
	n.down[id] = err
	server := n.servers[id]
	n.mu.Unlock()
	if err != nil {
		server.Disconnect()
	}
}

// Wait cuts all connections and waits until the goroutines that served them have ended.
func (n *Net) Wait() {
	n.mu.Lock()
	servers := n.servers
	n.mu.Unlock()
	for _, s := range servers {
		s.Disconnect()
	}
	n.pipes.Wait()
}

// Entry returns a config entry that tracks everything, after applying the given changes.
func Entry(id string, change ...func(*config.Server)) config.Server {
	srv := config.Server{ID: id, Enabled: true, Transport: config.TransportStdio, Program: config.Program{Command: id},
		Tracking:       config.Tracking{TrackResources: true, TrackTools: true, TrackPrompts: true, TrackSkills: true, Read: config.ReadDigest, PollInterval: config.DefaultPollInterval},
		RequestTimeout: config.DefaultRequestTimeout, Protocol: config.ProtocolAuto}
	for _, c := range change {
		c(&srv)
	}
	return srv
}

// Tap modifies a server's stdout: change receives each line without its newline and returns the
// replacement. Its Dial method is a [session.DialFunc] for one server.
type Tap struct {
	Server *Fake
	Change func(line string) string

	pipes sync.WaitGroup
}

// Dial connects to the server.
func (t *Tap) Dial(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
	out, in, wait := t.Server.Pipe()
	t.pipes.Go(wait)
	r, w := io.Pipe()
	t.pipes.Go(func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			if _, err := io.WriteString(w, t.Change(lines.Text())+"\n"); err != nil {
				break
			}
		}
		_, _ = out.Close(), w.Close()
	})
	return overIO(ctx, r, in, srv, opts)
}

// Wait waits until all connections have ended.
func (t *Tap) Wait() {
	t.Server.Disconnect()
	t.pipes.Wait()
}
