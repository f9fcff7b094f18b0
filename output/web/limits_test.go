package web_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/output/web"
)

// TestConnectionLimit: at the limit an idle connection makes room; if all are busy, a
// new one is refused.
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
	refused := uint64(0) // while the server does not know yet that the connection is idle
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

// TestSlowHeaders: a connection that sends a byte at a time is closed after 5 s.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	_, base := start(t, web.Options{}, nil)
	c, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	done := make(chan struct{}) // closed by the writer
	go func() {
		defer close(done)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for _, b := range []byte("GET /events HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("a", 100)) {
			if _, err := c.Write([]byte{b}); err != nil || time.Since(began) > time.Minute {
				return
			}
			<-tick.C
		}
	}()
	_ = c.SetReadDeadline(began.Add(time.Minute))
	_, err = io.Copy(io.Discard, c)
	if took := time.Since(began); errors.Is(err, os.ErrDeadlineExceeded) || took < 4*time.Second {
		t.Errorf("slow headers: %v after %v", err, took)
	}
	_ = c.Close()
	<-done
}
