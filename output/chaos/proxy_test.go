//go:build unix

package chaos

import (
	"net"
	"sync"
	"testing"
	"time"
)

// proxy passes the connections to one address on to a target, which may change. It can break them,
// refuse them, and hold back all bytes.
type proxy struct {
	t    testing.TB
	addr string // the same after every up

	mu       sync.Mutex // guards what follows
	target   string
	listener net.Listener
	conns    map[net.Conn]struct{}
	passing  chan struct{} // closed while bytes pass
	running  sync.WaitGroup
}

// newProxy returns a proxy that is closed when the test ends.
func newProxy(t testing.TB, target string) *proxy {
	p := &proxy{t: t, addr: "127.0.0.1:0", target: target, conns: map[net.Conn]struct{}{}, passing: make(chan struct{})}
	close(p.passing)
	p.up()
	t.Cleanup(p.down)
	return p
}

func (p *proxy) url() string { return "http://" + p.addr }

func (p *proxy) moveTo(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// up accepts connections.
func (p *proxy) up() {
	var l net.Listener
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); pause(10 * time.Millisecond) { // old connections may hold the address
		if l, err = net.Listen("tcp", p.addr); err == nil {
			break
		}
	}
	if err != nil {
		p.t.Error(err)
		return
	}
	p.mu.Lock()
	p.listener, p.addr = l, l.Addr().String()
	p.mu.Unlock()
	p.running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			target := p.target
			p.mu.Unlock()
			out, err := net.Dial("tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			p.mu.Lock()
			p.conns[in], p.conns[out] = struct{}{}, struct{}{}
			if p.listener != l { // it is down
				_, _ = in.Close(), out.Close()
			}
			p.running.Go(func() { p.pass(in, out) })
			p.running.Go(func() { p.pass(out, in) })
			p.mu.Unlock()
		}
	})
}

// pass copies one way until an end is closed, and closes both.
func (p *proxy) pass(from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
	}()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		passing := p.passing
		p.mu.Unlock()
		<-passing
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// down breaks all connections and refuses others.
func (p *proxy) down() {
	p.release()
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.cut()
	p.running.Wait()
}

// hold holds back all bytes; connections stay.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passing = make(chan struct{})
}

// release ends hold.
func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.passing:
	default:
		close(p.passing)
	}
}

// pause gives a fault real time to take effect: sockets and processes are real.
func pause(d time.Duration) { <-time.After(d) }
