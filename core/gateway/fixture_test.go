package gateway

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a gateway, the servers behind it and the clients in front of it, all within one
// synctest bubble.
type fixture struct {
	*testing.T
	opts    Options
	dial    session.DialFunc // nil: Net's
	log     *journal.Memory  // of the tracker; nil: its own
	gateway *Gateway
	tracker *tracker.Tracker
	sessiontest.Net
	refused  []Refusal                 // appended by Run's goroutine; read it after a wait
	verdicts map[string]*guard.Verdict // by the last merge, likewise
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// inEras runs the test with servers and clients of either era.
func inEras(t *testing.T, test func(w *fixture, era session.Era)) {
	t.Helper()
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(newFixture(t), era) })
		})
	}
}

func newFixture(t *testing.T) *fixture {
	w := &fixture{T: t}
	t.Cleanup(w.stop)
	return w
}

// start runs a gateway over the entries and waits until they are listed.
func (w *fixture) start(entries ...config.Server) {
	w.Helper()
	opts := tracker.Options{Dial: w.Dial, AllLists: true, Session: w.opts.Session}
	if w.log != nil {
		opts.Log = w.log
	}
	if w.dial != nil {
		opts.Dial = w.dial
		if w.opts.Dial == nil {
			w.opts.Dial = w.dial
		}
	}
	if w.opts.Callers != nil {
		opts.ClientSide = w.opts.Callers.ClientSide
	}
	w.tracker = tracker.New(opts)
	w.opts.Tracker = w.tracker
	w.opts.Refused = func(r Refusal) { w.refused = append(w.refused, r) }
	w.opts.Verdicts = func(all map[string]*guard.Verdict) { w.verdicts = all }
	var err error
	if w.gateway, err = New(w.opts); err != nil {
		w.Fatal(err)
	}
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	w.apply(entries...)
	w.running.Go(func() { _ = w.tracker.Run(ctx) })
	w.running.Go(func() { _ = w.gateway.Run(ctx) })
	if err := w.gateway.Settled(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func (w *fixture) apply(entries ...config.Server) {
	cfg := &config.Config{Servers: entries}
	w.gateway.Apply(cfg)
	w.tracker.Apply(cfg)
}

func (w *fixture) stop() {
	if w.gateway != nil {
		w.gateway.Close()
		w.cancel()
	}
	w.running.Wait()
	w.Wait()
}

// advance waits for fake time.
func (w *fixture) advance(d time.Duration) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	<-ctx.Done()
	synctest.Wait()
}

// client connects to the gateway, over pipes.
func (w *fixture) client(era session.Era) *session.Session {
	w.Helper()
	return w.clientOf(era, nil)
}

// clientOf connects a client that servers can ask, unless it is nil.
func (w *fixture) clientOf(era session.Era, side *session.ClientSide) *session.Session {
	w.Helper()
	return w.clientOver(era, side, func(r io.ReadCloser) io.ReadCloser { return r })
}

// clientOver connects a client that reads what wrap returns.
func (w *fixture) clientOver(era session.Era, side *session.ClientSide, wrap func(io.ReadCloser) io.ReadCloser) *session.Session {
	w.Helper()
	s, err := w.connect(era, side, wrap)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

// connect is like clientOver, and returns why the gateway refuses the client.
func (w *fixture) connect(era session.Era, side *session.ClientSide, wrap func(io.ReadCloser) io.ReadCloser) (*session.Session, error) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	w.running.Go(func() {
		_ = w.gateway.Server().ServeIO(context.Background(), in, out)
		_ = out.Close()
	})
	s, err := session.OverIO(w.Context(), wrap(fromServer), toServer, config.Server{Protocol: config.Protocol(era)}, session.Options{Client: side})
	if err == nil {
		w.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

// keys returns the keys of one list of a client.
func (w *fixture) keys(c *session.Session, k catalog.Kind) string {
	w.Helper()
	list, err := c.List(w.Context(), k)
	if err != nil {
		w.Fatal(err)
	}
	return strings.Join(list.Keys(), " ")
}

func (w *fixture) wantKeys(c *session.Session, k catalog.Kind, want ...string) {
	w.Helper()
	slices.Sort(want)
	if got := w.keys(c, k); got != strings.Join(want, " ") {
		w.Errorf("%s: %s, want %s", k, got, strings.Join(want, " "))
	}
}

// do sends a request of a client.
func (w *fixture) do(c *session.Session, method, params string) (string, error) {
	w.Helper()
	var p map[string]json.RawMessage
	if err := json.Unmarshal([]byte(params), &p); err != nil {
		w.Fatal(err)
	}
	raw, err := c.Do(w.Context(), session.Request{Method: method, Params: p, Timeout: time.Hour})
	return string(raw), err
}

// last returns the parameters of the last request that a server received for a method.
func (w *fixture) last(id, method string) (params map[string]json.RawMessage) {
	w.Helper()
	for _, m := range slices.Backward(w.Server(id).Wire()) {
		if m.Method == method {
			_ = json.Unmarshal(m.Params, &params)
			return params
		}
	}
	w.Fatalf("%s was not asked for %s", id, method)
	return nil
}

func tool(name string) map[string]any {
	return map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}
}

func listFault() sessiontest.Fault {
	return sessiontest.Fault{Method: "tools/list", Code: -32603, Message: "no"}
}

func silence() sessiontest.Fault { return sessiontest.Fault{Silent: true} }
