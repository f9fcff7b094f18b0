package tracker

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// wire is an HTTP server on one address, which can be taken down and brought back
// there, or cut off without a word: the connections stay and nothing passes.
type wire struct {
	t       *testing.T
	addr    string // where clients connect: a relay in front of the server
	handler http.Handler

	mu      sync.Mutex
	relay   net.Listener
	server  *http.Server
	passing chan struct{}   // closed while bytes pass; open: cut off
	held    []chan struct{} // of those that were cut off once; closed by down
	conns   []net.Conn
	served  sync.WaitGroup
}

func newWire(t *testing.T, h http.Handler) *wire {
	w := &wire{t: t, addr: "127.0.0.1:0", handler: h, passing: make(chan struct{})}
	close(w.passing)
	w.up()
	return w
}

func (w *wire) up() {
	w.mu.Lock()
	defer w.mu.Unlock()
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	for range 100 { // the old connections may hold the address for a moment
		if w.relay, err = net.Listen("tcp", w.addr); err == nil {
			break
		}
		rest(20 * time.Millisecond)
	}
	if err != nil {
		w.t.Error(err)
		return
	}
	w.addr = w.relay.Addr().String()
	server, relay := &http.Server{Handler: w.handler, ReadHeaderTimeout: 10 * time.Second}, w.relay
	w.server = server
	w.served.Go(func() { _ = server.Serve(backend) })
	w.served.Go(func() {
		for {
			in, err := relay.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", backend.Addr().String())
			if err != nil {
				_ = in.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, in, out)
			w.mu.Unlock()
			w.served.Go(func() { w.pass(in, out) })
			w.served.Go(func() { w.pass(out, in) })
		}
	})
}

// pass moves bytes one way, while they may pass.
func (w *wire) pass(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		w.mu.Lock()
		passing := w.passing
		w.mu.Unlock()
		<-passing
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// cutOff stops all bytes, on old and new connections, until mend.
func (w *wire) cutOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.passing = make(chan struct{})
}

// mend lets new connections pass. Those that were cut off stay dead, as the
// network forgot them, without a word to either end.
func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, w.passing)
	w.passing = make(chan struct{})
	close(w.passing)
}

// down is the death of the server's process: every connection breaks.
func (w *wire) down() {
	w.mu.Lock()
	_ = w.server.Close()
	_ = w.relay.Close()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
	for _, held := range w.held {
		close(held)
	}
	w.held = nil
	w.mu.Unlock()
	w.served.Wait()
}
