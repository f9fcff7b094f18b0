package web_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/output/web"
)

// herd are many connections to one server.
type herd struct {
	host string
	tls  *tls.Config // nil: plain

	wg  sync.WaitGroup
	end chan struct{} // closed by the test; then the hostile ones end
}

// hostile opens connections that send nothing, or a byte now and then. When one is closed, it is
// opened again, as long as the test goes on.
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
						if i%2 == 0 { // of a TLS record and of a request line
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

// good opens streams, all simultaneously and each once, and returns why some were not served.
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

// TestHerd: after a restart all clients connect within a second, from one address, and all are
// served at the first try. Thousands of connections that wait to be closed lock nobody out.
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
		{"plain", 1000, 0, false, false},
		{"TLS", 1000, 0, true, false},
		{"behind a proxy", 5000, 0, false, true},
		{"plain, with hostile ones", 1000, 5000, false, false},
		{"TLS, with hostile ones", 1000, 5000, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
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
			for try := 0; try < 5 && tt.hostile > 0 && len(failed) > 0; try++ { // they lock nobody out, but may delay clients that are slow themselves
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
