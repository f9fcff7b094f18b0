package tracker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/peertest"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// patience is how long a test waits for what must happen; a busy machine is no bug.
const patience = 30 * time.Second

// peer is a tracker that follows one real server, made with the TypeScript SDK (see
// testdata/peers/scripted.mjs), together with the messages that it sent and the events that it
// published.
type peer struct {
	*testing.T
	era     session.Era
	args    []string // for the server
	tracker *tracker.Tracker
	client  *tracker.Client
	events  *journal.Subscription
	queue   []*event.Event // taken from events, not yet looked at

	mu    sync.Mutex // guards all below
	wire  []message  // of all sessions
	child *exec.Cmd  // of the last session
	dials int
}

// message is one message that was sent to the server.
type message struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// eachEra runs the test with a server of either era. entry changes what is tracked; by default
// nothing is.
func eachEra(t *testing.T, opts tracker.Options, entry func(*config.Server), test func(p *peer), args ...string) {
	t.Helper()
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			test(startPeer(t, era, opts, entry, args...))
		})
	}
}

// startPeer follows the server; both end with the test.
func startPeer(t *testing.T, era session.Era, opts tracker.Options, entry func(*config.Server), args ...string) *peer {
	t.Helper()
	p := &peer{T: t, era: era, args: args}
	if era == session.EraModern {
		p.args = append(slices.Clone(args), "--legacy=reject")
	}
	command := peertest.Script(t, "scripted.mjs", p.args...)
	opts.Dial = func(ctx context.Context, srv config.Server, o session.Options) (*session.Session, error) {
		return p.dial(ctx, command, srv, o)
	}
	p.tracker = tracker.New(opts)
	p.client = p.tracker.Client("notes")
	srv := config.Server{ID: "notes", Transport: config.TransportStdio, Enabled: true, Tracking: config.Tracking{Read: config.ReadDigest, PollInterval: config.DefaultPollInterval},
		RequestTimeout: config.DefaultRequestTimeout, Protocol: config.Protocol(era)}
	if entry != nil {
		entry(&srv)
	}
	p.tracker.Apply(&config.Config{Servers: []config.Server{srv}})
	_, p.events = p.tracker.Subscribe(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = p.tracker.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	p.await(func(e *event.Event) bool {
		s, ok := e.Payload.(event.ServerState)
		return ok && s.State == event.Ready
	}, "the server is ready")
	return p
}

// dial starts the server, connects to it, and records what the session sends.
func (p *peer) dial(ctx context.Context, command []string, srv config.Server, opts session.Options) (*session.Session, error) {
	cmd := exec.Command(command[0], command[1:]...)
	stdin, toServer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fromServer, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	err = cmd.Start()
	stdin.Close()
	stdout.Close()
	if err != nil {
		return nil, err
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // killed, or asked to exit with an error
	}()
	p.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	p.mu.Lock()
	p.child = cmd
	p.dials++
	p.mu.Unlock()
	s, err := session.OverIO(ctx, fromServer, &tap{p: p, w: toServer}, srv, opts)
	if err != nil {
		toServer.Close()
		fromServer.Close()
	}
	return s, err
}

// tap records the messages that pass.
type tap struct {
	p *peer
	w io.WriteCloser
}

// Write implements [io.Writer]; every call is one complete message.
func (t *tap) Write(b []byte) (int, error) {
	for line := range bytes.Lines(b) {
		var m message
		if json.Unmarshal(line, &m) == nil {
			t.p.mu.Lock()
			t.p.wire = append(t.p.wire, m)
			t.p.mu.Unlock()
		}
	}
	return t.w.Write(b)
}

func (t *tap) Close() error { return t.w.Close() }

// sent returns how many messages of the method, with parameters that contain the text, were sent so
// far.
func (p *peer) sent(method, text string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, m := range p.wire {
		if m.Method == method && strings.Contains(string(m.Params), text) {
			n++
		}
	}
	return n
}

// subscribes returns how often the server was asked to push updates of the URI.
func (p *peer) subscribes(uri string) int {
	return p.sent("resources/subscribe", `"`+uri+`"`) + p.sent("subscriptions/listen", `"`+uri+`"`)
}

// do calls one of the server's tools; nothing is cached or published.
func (p *peer) do(tool string, args map[string]any) {
	p.Helper()
	raw, err := p.tracker.CallTool(p.ctx(), "notes", tool, args)
	if text, failed := session.ToolFailure(raw); err != nil || failed {
		p.Fatalf("%s: %v %s", tool, err, text)
	}
}

// set changes the text of a resource. When it returns, the update has been sent.
func (p *peer) set(uri, text string) {
	p.Helper()
	p.do("set", map[string]any{"uri": uri, "text": text})
}

// ctx bounds one step of a test.
func (p *peer) ctx() context.Context {
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	p.Cleanup(cancel)
	return ctx
}

// await returns the next matching event, and the events before it.
func (p *peer) await(fits func(*event.Event) bool, what string) (e *event.Event, before []*event.Event) {
	p.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		for i, e := range p.queue {
			if fits(e) {
				before, p.queue = slices.Concat(before, p.queue[:i]), p.queue[i+1:]
				return e, before
			}
		}
		before, p.queue = slices.Concat(before, p.queue), nil
		select {
		case <-p.events.Ready():
			p.queue, _ = p.events.Take()
		case <-deadline.C:
			p.Fatalf("%s did not happen; events:\n%s", what, show(before))
		}
	}
}

// awaitType waits for the next event of a type, about the URI if one is given.
func (p *peer) awaitType(t event.Type, uri string) (*event.Event, []*event.Event) {
	p.Helper()
	return p.await(func(e *event.Event) bool { return e.Type() == t && (uri == "" || e.ResourceURI == uri) }, string(t)+" "+uri)
}

// pending returns the events that have arrived and were not looked at.
func (p *peer) pending() []*event.Event {
	batch, _ := p.events.Take()
	out := append(p.queue, batch...)
	p.queue = nil
	return out
}

func show(events []*event.Event) string {
	var b []byte
	for _, e := range events {
		b, _ = e.AppendJSON(b)
		b = append(b, '\n')
	}
	return string(b)
}

// has reports whether there is an event of the type, about the URI if one is given.
func has(events []*event.Event, t event.Type, uri string) bool {
	return slices.ContainsFunc(events, func(e *event.Event) bool { return e.Type() == t && (uri == "" || e.ResourceURI == uri) })
}

// settled waits until the tracker has read a resource for the first time.
func (p *peer) settled(uri string) {
	p.Helper()
	p.eventually("the tracker has read "+uri, func() bool {
		st, _ := p.tracker.Snapshot().Server("notes")
		i := slices.IndexFunc(st.Resources, func(r status.ResourceStatus) bool { return r.URI == uri })
		return i >= 0 && !st.Resources[i].Digest.IsZero()
	})
}

// eventually waits for a condition that has no event.
func (p *peer) eventually(what string, so func() bool) {
	p.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline.C:
			p.Fatalf("%s: not within %s", what, patience)
		}
	}
}
