package filewatch

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestEventsLost: after any loss of events, the change made meanwhile is found, and later ones give
// events again.
func TestEventsLost(t *testing.T) {
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			followed(t, onlyEvents(), func(t *testing.T, f *File, s *source, path string) {
				for round, content := range []string{"second", "third"} {
					put(t, path, content)
					wantSilence(t, f, time.Minute)
					fault(s)
					wantContent(t, f, content)
					if s.made != round+2 {
						t.Errorf("%d sources made by round %d", s.made, round)
					}
					put(t, path, content+" by event")
					s.event(path)
					wantContent(t, f, content+" by event")
				}
			})
		})
	}
}

// TestWatchLimit: at the system's limit of watches the file is polled, with one log line, and events
// are used again once watches are available.
func TestWatchLimit(t *testing.T) {
	dir := realDir(t)
	onEvents(t, dir)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(dir, "c.json")
		put(t, path, "first")
		var log bytes.Buffer
		s := source{addErr: syscall.ENOSPC}
		f := start(t, path, FileOptions{Poll: time.Hour, notify: s.notify, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		wantContent(t, f, "first")
		for _, content := range []string{"second", "third"} {
			put(t, path, content)
			wantContent(t, f, content)
		}
		if m := f.Mode(); m.Kind != ModePoll || !strings.Contains(m.String(), syscall.ENOSPC.Error()) {
			t.Errorf("mode %v", m)
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "polling") {
			t.Errorf("log, want one line:\n%s", text)
		}
		s.limit(nil)
		wantSilence(t, f, time.Minute)
		if m := f.Mode(); m.String() != ModeInotify {
			t.Errorf("mode %v", m)
		}
		put(t, path, "fourth")
		s.event(path)
		wantContent(t, f, "fourth")
	})
}
