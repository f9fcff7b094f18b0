package feed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a hub with both routes until the test ends.
func serve(t testing.TB, opts Options) (*Hub, string) {
	t.Helper()
	h := New(opts)
	base := serveHandler(t, h)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // sent to once
	go func() { done <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.DeadlineExceeded) { // the log may be too slow for Shutdown
			t.Errorf("run: %v", err)
		}
	})
	<-h.first
	return h, base
}

// serveHandler serves both routes of a hub until the test ends.
func serveHandler(t testing.TB, h *Hub) (base string) {
	srv := httptest.NewServer(routes(h))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

func routes(h *Hub) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/events", h.Events())
	mux.Handle("/api/mcp/resource-events", h.Feed())
	return mux
}

// stream is a connection to a route, without the buffering and retries of http.Client.
type stream struct {
	t     testing.TB
	conn  net.Conn
	res   *http.Response
	p     parser
	taken int // messages that next has returned
}

func connect(t testing.TB, base, path, lastID string) *stream {
	t.Helper()
	s, err := dial(base, path, lastID)
	if err != nil {
		t.Fatal(err)
	}
	s.t = t
	t.Cleanup(s.close)
	return s
}

func dial(base, path, lastID string) (*stream, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	id := ""
	if lastID != "" {
		id = "Last-Event-ID: " + lastID + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, id); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(conn, 4096), nil)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return &stream{conn: conn, res: res}, nil
}

func (s *stream) close() { _ = s.conn.Close() }

// more makes one read.
func (s *stream) more() error {
	buf := make([]byte, 32<<10)
	n, err := s.res.Body.Read(buf)
	_, _ = s.p.Write(buf[:n])
	return err
}

// next returns the next message.
func (s *stream) next() message {
	s.t.Helper()
	for s.taken == len(s.p.messages) {
		if err := s.more(); err != nil && s.taken == len(s.p.messages) {
			s.t.Fatalf("after %d messages: %v", s.taken, err)
		}
	}
	s.taken++
	return s.p.messages[s.taken-1]
}

// events returns the next n messages that are not checkpoints.
func (s *stream) events(n int) []message {
	s.t.Helper()
	var out []message
	for len(out) < n {
		if m := s.next(); m.event != "checkpoint" {
			out = append(out, m)
		}
	}
	return out
}

// rest reads to the end, and returns the messages that next has not returned.
func (s *stream) rest() []message {
	s.t.Helper()
	for {
		if err := s.more(); err == io.EOF {
			return s.p.messages[s.taken:]
		} else if err != nil {
			s.t.Fatal(err)
		}
	}
}

func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	end := time.After(time.Minute)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
