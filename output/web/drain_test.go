package web_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/output/web"
)

func TestDrain(t *testing.T) {
	s, err := web.New(web.Options{Drain: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{}) // closed by the hook
	s.OnShutdown(func(context.Context) error { close(stop); return nil })
	left := make(chan error, 1) // sent to by the handler that is cut
	s.Handle("/stream", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-stop
		_, _ = io.WriteString(w, "end")
	}))
	s.Handle("/stuck", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		left <- context.Cause(r.Context())
	}))
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1) // sent to once
	go func() { ended <- s.Serve(ctx, ln) }()
	client := &http.Client{}
	defer client.CloseIdleConnections()
	stream, err := client.Get(s.URL() + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	stuck, err := client.Get(s.URL() + "/stuck")
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Body.Close()
	cancel()
	if text, err := io.ReadAll(stream.Body); string(text) != "end" || err != nil {
		t.Errorf("the stream ended with %q, %v", text, err)
	}
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "unfinished requests were closed") {
			t.Errorf("serve: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("serve does not end")
	}
	if err := <-left; err == nil {
		t.Error("the stuck handler was not cut")
	}
}

// TestDrainUnused: connections that browsers open in advance do not delay the end.
func TestDrainUnused(t *testing.T) {
	s, err := web.New(web.Options{Drain: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1) // sent to once
	go func() { ended <- s.Serve(ctx, ln) }()
	unused, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer unused.Close()
	for s.Stats().Conns == 0 {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("draining took %v", took)
	}
}
