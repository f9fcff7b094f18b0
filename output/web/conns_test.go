package web_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/output/web"
)

// At the limit, an idle connection makes room for a new one. If all are busy, the new one is
// refused.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	s, base := start(t, web.Options{MaxConns: 3}, func(s *web.Server) {
		s.Handle("/busy", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
	})
	host := strings.TrimPrefix(base, "http://")
	try := func(request string) (net.Conn, error) {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if request != "" {
			_, _ = io.WriteString(c, "GET "+request+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
			_, err = c.Read(make([]byte, 1))
		}
		return c, err
	}
	dial := func(request string) net.Conn {
		c, err := try(request)
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		return c
	}
	closed := func(c net.Conn) bool {
		_, err := io.Copy(io.Discard, c)
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	dial("/busy")
	idle := dial("/events") // trusted
	untrusted := dial("")
	eventually(t, func() bool { return s.Stats().Conns == 3 })
	dial("/busy")
	if !closed(untrusted) {
		t.Error("the untrusted connection is not closed first")
	}
	refused := uint64(0) // until the server notices that the connection is idle
	eventually(t, func() bool {
		_, err := try("/busy")
		if err != nil {
			refused++
		}
		return err == nil
	})
	if !closed(idle) {
		t.Error("the idle connection is not closed")
	}
	if st := s.Stats(); st.Conns != 3 || st.Evicted != 2 || st.Refused != refused {
		t.Errorf("stats: %+v, refused %d", st, refused)
	}
	if !closed(dial("")) {
		t.Error("a connection beyond the limit stays open")
	}
	if st := s.Stats(); st.Conns != 3 || st.Refused != refused+1 {
		t.Errorf("stats: %+v", st)
	}
}

// A connection that sends its headers byte by byte is closed after 5 s.
func TestSlowHeaders(t *testing.T) {
	inBubble(t, func(t *testing.T, host string, dial func() net.Conn) {
		c := dial()
		began := time.Now()
		var sending sync.WaitGroup
		sending.Go(func() {
			for _, b := range []byte("GET /events HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 100)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(500 * time.Millisecond)
			}
		})
		_, _ = io.Copy(io.Discard, c)
		if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
			t.Errorf("closed after %v", took)
		}
		_ = c.Close()
		sending.Wait()
	})
}

// pipes is a listener without a network, for synctest.
type pipes struct {
	net.Listener
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

// addressed is a connection with a TCP address.
type addressed struct {
	net.Conn
	at net.Addr
}

func (c addressed) LocalAddr() net.Addr  { return c.at }
func (c addressed) RemoteAddr() net.Addr { return c.at }

// inBubble serves connections without a network in fake time. The server has no tokens: their file is
// watched in real time.
func inBubble(t *testing.T, check func(t *testing.T, host string, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := web.New(web.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.Handle("/events", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) }))
		ln, err := s.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		p := &pipes{Listener: ln, conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(context.Background())
		var serving sync.WaitGroup
		serving.Go(func() {
			if err := s.Serve(ctx, p); err != nil {
				t.Error(err)
			}
		})
		check(t, ln.Addr().String(), func() net.Conn {
			here, there := net.Pipe()
			p.conns <- addressed{there, ln.Addr()}
			t.Cleanup(func() { _ = here.Close() })
			return here
		})
		cancel()
		serving.Wait()
	})
}

// herd are many connections to one server.
type herd struct {
	host string
	tls  *tls.Config // nil: plain

	wg  sync.WaitGroup
	end chan struct{} // closed by the test to end all connections
}

// hostile opens n connections that send nothing, or a byte every second. It reopens each closed
// one until the end of the test.
func (h *herd) hostile(t *testing.T, n int) {
	for i := range n {
		h.wg.Go(func() {
			for {
				c, err := net.Dial("tcp", h.host)
				if err != nil {
					t.Errorf("hostile connection %d: %v", i, err)
					return
				}
				drip := time.NewTicker(time.Second)
				closed := make(chan struct{}) // closed by the reader
				go func() {
					defer close(closed)
					_, _ = io.Copy(io.Discard, c)
				}()
				for open := true; open; {
					select {
					case <-h.end:
						_ = c.Close()
						<-closed
						drip.Stop()
						return
					case <-closed:
						open = false
					case <-drip.C:
						if i%2 == 0 { // the first byte of a request line, or of a TLS record
							_, _ = c.Write([]byte{map[bool]byte{true: 'G', false: 22}[h.tls == nil]})
						}
					}
				}
				drip.Stop()
				_ = c.Close()
			}
		})
	}
}

// good opens n streams simultaneously and returns the errors of those that were not served.
func (h *herd) good(n int) (failed []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	begin := make(chan struct{})
	for range n {
		all.Go(func() {
			<-begin
			if err := h.stream(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
		})
	}
	close(begin)
	all.Wait()
	return failed
}

// stream opens a stream, which stays open until the test ends.
func (h *herd) stream() error {
	c, err := net.Dial("tcp", h.host)
	if err != nil {
		return err
	}
	h.wg.Go(func() {
		<-h.end
		_ = c.Close()
	})
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	if h.tls != nil {
		c = tls.Client(c, h.tls)
	}
	if _, err = fmt.Fprintf(c, "GET /stream HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", h.host, secret); err != nil {
		return err
	}
	p, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil && p.StatusCode != http.StatusOK {
		err = errors.New(p.Status)
	}
	if err == nil {
		_, err = p.Body.Read(make([]byte, 1))
	}
	return err
}

// After a restart, all clients connect from one address within a second, and all are served at
// the first attempt. Thousands of hostile connections lock nobody out.
func TestHerd(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	served, err := web.LoadTLS(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name          string
		good, hostile int
		secure, proxy bool
	}{
		{"behind a proxy", 5000, 0, false, true},
		{"plain, with hostile ones", 1000, 5000, false, false},
		{"TLS, with hostile ones", 1000, 5000, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fewer := slowdown
			if testing.Short() {
				fewer *= 10
			}
			tt.good, tt.hostile = tt.good/fewer, tt.hostile/fewer
			opts := web.Options{Tokens: token(t), TrustProxy: tt.proxy, MaxConns: 4096 / fewer}
			if tt.proxy {
				opts.MaxConns = 7000 / fewer
			}
			if need := 2*(tt.good+tt.hostile) + 500; web.MostConns() < need*3/4 {
				t.Skipf("the limit of open files allows %d connections", web.MostConns())
			}
			h := &herd{end: make(chan struct{})}
			if tt.secure {
				opts.TLS, h.tls = served, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}
			}
			s, base := start(t, opts, func(s *web.Server) {
				s.Handle("/stream", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, "a")
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}))
			})
			_, h.host, _ = strings.Cut(base, "://")
			h.hostile(t, tt.hostile)
			failed := h.good(tt.good)
			for try := 0; try < 5 && tt.hostile > 0 && len(failed) > 0; try++ { // slow clients may need several attempts
				failed = h.good(len(failed))
			}
			if len(failed) > 0 {
				t.Errorf("%d of %d clients were not served, such as: %v; %+v", len(failed), tt.good, failed[0], s.Stats())
			}
			close(h.end)
			h.wg.Wait()
		})
	}
}
