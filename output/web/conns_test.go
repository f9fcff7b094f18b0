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

// One address has at most half of all connections, so that others are served. A connection beyond a limit is
// closed, and one that ends makes room.
func TestConnectionLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		opts web.Options
		want [3]int // how many of 8 connections each of the clients gets
	}{
		"direct":         {web.Options{MaxConns: 12}, [3]int{6, 6, 0}},
		"behind a proxy": {web.Options{MaxConns: 12, TrustProxy: true}, [3]int{8, 4, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tt.opts, func(t *testing.T, host string, dial func(string) net.Conn) {
				open := func(addr string) (net.Conn, bool) {
					c := dial(addr)
					_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
					_, err := c.Read(make([]byte, 1))
					return c, errors.Is(err, os.ErrDeadlineExceeded)
				}
				var got [3]int
				var last net.Conn
				for client, addrs := range [][]string{{"2001:db8::1", "2001:db8::2"}, {"192.0.2.1"}, {"127.0.0.1"}} {
					for i := range 8 {
						if c, ok := open(addrs[i%len(addrs)]); ok {
							got[client]++
							last = c
						}
					}
				}
				if got != tt.want {
					t.Errorf("%v connections, want %v", got, tt.want)
				}
				_ = last.Close()
				synctest.Wait()
				c, ok := open("127.0.0.1")
				if !ok {
					t.Fatal("a closed connection leaves no room")
				}
				_ = c.SetReadDeadline(time.Time{})
				_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
				if line, err := bufio.NewReader(c).ReadString('\n'); !strings.Contains(line, "200") {
					t.Errorf("%q, %v", line, err)
				}
			})
		})
	}
}

// A connection that sends its headers byte by byte is closed after 5 s.
func TestSlowHeaders(t *testing.T) {
	inBubble(t, web.Options{}, func(t *testing.T, _ string, dial func(string) net.Conn) {
		c := dial("127.0.0.1")
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

// addressed is a connection with TCP addresses.
type addressed struct {
	net.Conn
	at, from net.Addr
}

func (c addressed) LocalAddr() net.Addr  { return c.at }
func (c addressed) RemoteAddr() net.Addr { return c.from }

// inBubble serves connections from any address, without a network and in fake time.
func inBubble(t *testing.T, opts web.Options, check func(t *testing.T, host string, dial func(from string) net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := web.New(opts)
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
		check(t, ln.Addr().String(), func(from string) net.Conn {
			here, there := net.Pipe()
			p.conns <- addressed{there, ln.Addr(), &net.TCPAddr{IP: net.ParseIP(from), Port: 1}}
			t.Cleanup(func() { _ = here.Close() })
			return here
		})
		cancel()
		serving.Wait()
	})
}

// After a restart, 1,000 clients connect from one address simultaneously. All are served at the first attempt.
func TestHerd(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	served, err := web.LoadTLS(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	clients := 1000 / slowdown
	if testing.Short() {
		clients /= 10
	}
	if web.MostConns() < 4*clients {
		t.Skipf("the limit of open files allows %d connections", web.MostConns())
	}
	for name, opts := range map[string]web.Options{"plain": {}, "TLS": {TLS: served}} {
		t.Run(name, func(t *testing.T) {
			opts.Tokens = token(t)
			_, base := start(t, opts, func(s *web.Server) {
				s.Handle("/stream", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, "a")
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				}))
			})
			_, host, _ := strings.Cut(base, "://")
			stream := func() error {
				c, err := net.Dial("tcp", host)
				if err != nil {
					return err
				}
				t.Cleanup(func() { _ = c.Close() })
				_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
				if opts.TLS != nil {
					c = tls.Client(c, &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
				}
				if _, err = fmt.Fprintf(c, "GET /stream HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", host, secret); err != nil {
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
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					if err := stream(); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		})
	}
}
