package realtime

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// update returns an update of a resource, event n of a log.
func update(n uint64, uri string, at time.Time) *event.Event {
	return &event.Event{ID: event.FormatID("00000000000000aa", n), Seq: n, ServerID: "docs", ResourceURI: uri,
		Timestamp: at, Cause: event.CauseNotify, Received: at, Payload: event.ResourceUpdated{}}
}

// texts returns the texts of all items.
func texts(items []realtimetest.ReceivedItem) (out []string) {
	for _, it := range items {
		out = append(out, it.Texts...)
	}
	return out
}

// wire is a network of pipes, for synctest bubbles.
type wire struct {
	conns  chan net.Conn // from dial to Accept; capacity 0, never closed
	closed chan struct{} // closed by Close
	once   sync.Once
}

func newWire() *wire { return &wire{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error   { w.once.Do(func() { close(w.closed) }); return nil }
func (w *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (w *wire) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case w.conns <- there:
			return here, nil
		case <-w.closed:
			return nil, fmt.Errorf("no listener: %w", net.ErrClosed)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}}
}

// rig is a session with an endpoint. It collects receipts and failures.
type rig struct {
	*testing.T
	*Session
	far  *realtimetest.Endpoint
	done chan error // sent to once, when Run returns

	mu       sync.Mutex
	receipts []Receipt
	failures []Failure
}

// begin runs a session inside a synctest bubble.
func begin(t *testing.T, far *realtimetest.Endpoint, change func(*SessionOptions)) *rig {
	t.Helper()
	w := newWire()
	srv := &http.Server{Handler: far}
	go func() { _ = srv.Serve(w) }()
	r := &rig{T: t, far: far, done: make(chan error, 1)}
	opts := SessionOptions{
		Endpoint: Endpoint{URL: "ws://127.0.0.1/v1/realtime?model=test", Client: w.client()},
		Delivery: DeliveryOptions{
			Queue:    QueueOptions{Every: -1, Window: -1},
			Injected: func(x []Receipt) { r.mu.Lock(); defer r.mu.Unlock(); r.receipts = append(r.receipts, x...) },
			Failed:   func(x Failure) { r.mu.Lock(); defer r.mu.Unlock(); r.failures = append(r.failures, x) },
		},
	}
	if change != nil {
		change(&opts)
	}
	var err error
	if r.Session, err = NewSession(opts); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.done <- r.Session.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-stopped
		_ = srv.Close()
		for _, p := range far.Problems() {
			t.Error(p)
		}
	})
	return r
}

func (r *rig) injected() []Receipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Receipt(nil), r.receipts...)
}

func (r *rig) failed() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Failure(nil), r.failures...)
}
