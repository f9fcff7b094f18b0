package natslog

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// The error names the required version, within 2 s.
func TestRealUnsupportedNATSFailsSoon(t *testing.T) {
	t.Parallel()
	for what, url := range map[string]string{ // repeated if the machine responds slowly
		"version 2.9.25":           oldServer(t, "2.9.25"),
		"version 2.12.0":           oldServer(t, "2.12.0"),
		"version 2.10.29":          oldServer(t, "2.10.29"),
		"JetStream is not enabled": journaltest.Start(t, "").URL,
	} {
		began := time.Now()
		j, err := Open(t.Context(), Options{URL: url})
		for range 5 {
			if !errors.Is(err, context.DeadlineExceeded) {
				break
			}
			began = time.Now()
			j, err = Open(t.Context(), Options{URL: url})
		}
		if err == nil {
			_ = j.Close()
			t.Errorf("%s: opened", what)
			continue
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: it took %v", what, took)
		}
		if !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "NATS 2.12.1 or newer with JetStream") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// oldServer is the part of a NATS server that connecting needs.
func oldServer(t *testing.T, version string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte(`INFO {"server_id":"x","version":"` + version + `","max_payload":1048576,"headers":true,"jetstream":true}` + "\r\nPONG\r\n"))
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	return "nats://" + l.Addr().String()
}
