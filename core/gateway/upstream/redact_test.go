package upstream

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
)

// lockedBuffer is a log that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// An API that echoes the request anywhere in a valid or broken response does not get our headers
// into a status, a log or a report.
func TestPollingIsRedacted(t *testing.T) {
	t.Parallel()
	const token = "hunter2-hunter2"
	for name, answer := range map[string]string{
		"bad length":         "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
		"bad encoding":       "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
		"bad location":       "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://[%s\r\n\r\n",
		"location elsewhere": "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: http://%s.example/\r\n\r\n",
		"reason":             "HTTP/1.1 500 %s\r\nContent-Length: 0\r\n\r\n",
		"build":              "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"build\":\"%s\"}",
		"skipped entry":      "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[{\"name\":\"%[1]s\",\"path\":\"/x\"},{\"name\":\"b\",\"path\":\"/api/b\",\"params\":[{\"name\":\"%[1]s\",\"type\":\"string\"},{\"name\":\"%[1]s\",\"type\":\"string\"}]}]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var serving sync.WaitGroup
			serving.Go(func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					q, err := http.ReadRequest(bufio.NewReader(c))
					if err == nil {
						_, echoed, _ := strings.Cut(q.Header.Get("X-Key"), " ")
						_, _ = fmt.Fprintf(c, answer, echoed)
					}
					_ = c.Close()
				}
			})
			t.Cleanup(func() { _ = ln.Close(); serving.Wait() })
			var log lockedBuffer
			opts := FromConfig(config.Server{URL: config.NewSecret("http://" + ln.Addr().String()),
				Headers: map[string]config.Secret{"X-Key": config.NewSecret("Bearer " + token)}})
			opts.Logger = slog.New(slog.NewTextHandler(io.Writer(&log), nil))
			u, err := New(opts)
			if err != nil {
				t.Fatal(err)
			}
			ran := make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { defer close(ran); u.Run(ctx) }()
			settled := u.Settled(t.Context())
			versions, err := u.Call(t.Context(), "get_version", nil)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			<-ran
			shown := fmt.Sprintf("%+v\n%s\n%s\n%v", u.Status(), log.String(), versions, settled)
			if strings.Contains(shown, token) {
				t.Errorf("the token is shown:\n%s", shown)
			}
			if !strings.Contains(shown, "[redacted]") && !strings.Contains(shown, "another origin") && !strings.Contains(shown, "500 Internal") {
				t.Errorf("the API echoed nothing, or nothing was shown:\n%s", shown)
			}
		})
	}
}
