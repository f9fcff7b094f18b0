package gateway

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A client of one server that was never reached gets the reason: that a server over HTTP does not answer within
// Options.Wait, or why an attempt failed that was made for the client. A program has as long to start as its
// entry allows.
func TestATransparentGatewaySaysWhyItsServerIsDown(t *testing.T) {
	inShared(t, func(s *shared, era session.Era) {
		t := s.T
		connect := func(w *fixture) (time.Duration, error) {
			began := time.Now()
			_, err := w.connect(era, nil, func(r io.ReadCloser) io.ReadCloser { return r })
			return time.Since(began), err
		}
		s.Server("docs~1").Fail(silence())
		entry := s.entries["docs~1"]
		entry.Transport, entry.ConnectTimeout = config.TransportHTTP, 0 // the tracker's is longer than Wait
		s.entries["docs~1"] = entry
		w := s.open(Options{Transparent: true, Wait: 2 * time.Second}, "docs~1")
		if took, err := connect(w); err == nil || !strings.Contains(err.Error(), "server docs: it has not answered") || took > 2*time.Second {
			t.Errorf("a server that hangs: after %s: %v", took, err)
		}
		entry = s.entries["docs~2"]
		entry.ConnectTimeout = 0
		s.entries["docs~2"] = entry
		s.Server("docs~2").Fail(sessiontest.Fault{Times: 1, Delay: 2 * time.Second}) // less than its timeout
		w = s.open(Options{Transparent: true, Wait: time.Second}, "docs~2")
		if _, err := connect(w); err != nil {
			t.Errorf("a program that starts slowly: %v", err)
		}

		s.SetDown("more~3", errors.New("broken pipe"))
		s.tracker.Demand("more~3")()
		betweenAttempts := func() { // the last one is older than Options.Grace
			for {
				s.advance(500 * time.Millisecond)
				st, _ := s.tracker.Snapshot().Server("more~3")
				if st.State == event.Backoff && time.Since(st.Since) > 3*time.Second && time.Until(st.NextRetry) > 2*time.Second {
					return
				}
			}
		}
		betweenAttempts()
		w = s.open(Options{Transparent: true}, "more~3")
		attempts := len(s.Dialled("more~3"))
		if took, err := connect(w); err == nil || !strings.Contains(err.Error(), "server more: broken pipe") || took > time.Second || len(s.Dialled("more~3")) == attempts {
			t.Errorf("a server that fails: after %s: %v", took, err)
		}
		betweenAttempts()
		s.SetDown("more~3", nil)
		if took, err := connect(w); err != nil || took > time.Second {
			t.Errorf("a server that works again: after %s: %v", took, err)
		}
	})
}
