package filewatch

import (
	"path/filepath"
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
				for _, content := range []string{"second", "third"} {
					put(t, path, content)
					wantSilence(t, f, time.Minute)
					s.fails(fault)
					wantContent(t, f, content)
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
		var log logged
		s := source{addErr: syscall.ENOSPC}
		f := start(t, path, FileOptions{poll: time.Hour, notify: s.notify, Logger: log.logger()})
		wantContent(t, f, "first")
		for _, content := range []string{"second", "third"} {
			put(t, path, content)
			wantContent(t, f, content)
		}
		log.want(t, 1, syscall.ENOSPC.Error())
		s.limit(nil)
		wantSilence(t, f, time.Minute)
		log.want(t, 2, "reliable again")
		put(t, path, "fourth")
		s.event(path)
		wantContent(t, f, "fourth")
	})
}

// A change that no event told of, as of a link to a folder within the path of a link, sets the watches
// anew.
func TestUnannouncedChange(t *testing.T) {
	followed(t, FileOptions{}, func(t *testing.T, f *File, s *source, path string) {
		before := s.made
		put(t, path, "second")
		wantContent(t, f, "second")
		if s.made == before {
			t.Error("the old watches are still in use")
		}
	})
}
