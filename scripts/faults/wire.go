//go:build linux

package main

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// wire is a TCP proxy on one address. It can be taken down and brought back, cut off
// without a word, and it can forget the event streams that are open, as middleboxes do:
// then what a server writes to them is swallowed.
type wire struct {
	addr   string // where clients connect, the same after every up
	target string

	mu       sync.Mutex // guards what follows
	listener net.Listener
	links    map[*link]struct{}
	cut      chan struct{} // closed by mend; nil: bytes pass
	running  sync.WaitGroup
}

// link is one connection through a wire.
type link struct {
	in, out    net.Conn
	stream     atomic.Bool // it carries an event stream
	swallowing atomic.Bool
}

func newWire(target string) (*wire, error) {
	w := &wire{addr: "127.0.0.1:0", target: target, links: map[*link]struct{}{}}
	return w, w.up()
}

// up accepts connections.
func (w *wire) up() error {
	var l net.Listener
	var err error
	for range 100 { // old connections may hold the address for a moment
		if l, err = net.Listen("tcp", w.addr); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.listener, w.addr = l, l.Addr().String()
	w.mu.Unlock()
	w.running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", w.target)
			if err != nil {
				_ = in.Close()
				continue
			}
			k := &link{in: in, out: out}
			w.mu.Lock()
			w.links[k] = struct{}{}
			w.mu.Unlock()
			w.running.Go(func() { w.pass(k, in, out, true) })
			w.running.Go(func() { w.pass(k, out, in, false) })
		}
	})
	return nil
}

// pass copies one way until an end is closed, and closes both.
func (w *wire) pass(k *link, from, to net.Conn, request bool) {
	defer func() {
		_, _ = from.Close(), to.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.links, k)
	}()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if request && (bytes.HasPrefix(buf[:n], []byte("GET ")) || bytes.Contains(buf[:n], []byte("subscriptions/listen"))) {
			k.stream.Store(true)
		}
		w.wait()
		if n > 0 && !(k.swallowing.Load() && !request) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// wait returns when bytes may pass.
func (w *wire) wait() {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	if cut != nil {
		<-cut
	}
}

// down refuses and breaks all connections.
func (w *wire) down() {
	w.mend()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.listener != nil {
		_ = w.listener.Close()
		w.listener = nil
	}
	for k := range w.links {
		_, _ = k.in.Close(), k.out.Close()
	}
}

// cutOff stops all bytes; connections stay.
func (w *wire) cutOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut == nil {
		w.cut = make(chan struct{})
	}
}

// mend ends cutOff.
func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut != nil {
		close(w.cut)
		w.cut = nil
	}
}

// forget swallows what servers write to the streams that are open.
func (w *wire) forget() (streams int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k := range w.links {
		if k.stream.Load() && !k.swallowing.Swap(true) {
			streams++
		}
	}
	return streams
}

func (w *wire) close() {
	w.down()
	w.running.Wait()
}
