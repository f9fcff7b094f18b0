package filewatch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestTreeEventsLost: after any loss of events, changes made meanwhile are found, and later changes give
// events again.
func TestTreeEventsLost(t *testing.T) {
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			dir := realDir(t)
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(dir, "a", "b", "1")
				put(t, path, "first")
				var s source
				m := follow(t, dir, TreeOptions{poll: time.Hour, pollOnly: time.Hour, notify: s.notify})
				for round := range 2 {
					put(t, path, fmt.Sprint("unseen ", round))
					s.fails(fault)
					m.wantDisk(t)
					put(t, path, fmt.Sprint("seen ", round))
					s.event(path)
					m.wantDisk(t)
					if s.made != round+2 {
						t.Errorf("%d sources made by round %d", s.made, round)
					}
				}
			})
		})
	}
}

// TestTreeOverflow causes a real overflow: more events than the kernel queues.
func TestTreeOverflow(t *testing.T) {
	if testing.Short() {
		t.Skip("large, nightly")
	}
	t.Parallel()
	dir := t.TempDir()
	limit, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil || strings.TrimSpace(string(limit)) != "16384" {
		t.Skip("the length of the queue is not the usual one")
	}
	put(t, filepath.Join(dir, "d", "0"), "x")
	m := follow(t, dir, onlyTreeEvents())
	m.mu.Lock() // not that the source would wait for the receiver
	for i := range 9_000 {
		must(t, os.WriteFile(filepath.Join(dir, "d", fmt.Sprint(i)), []byte("y"), 0o644))
	}
	m.mu.Unlock()
	m.wantDisk(t)
	put(t, filepath.Join(dir, "d", "0"), "z")
	m.wantDisk(t)
}

// TestTreeWatchLimit: directories beyond the limit are polled, with one log line.
func TestTreeWatchLimit(t *testing.T) {
	dir := realDir(t)
	onEvents(t, dir)
	synctest.Test(t, func(t *testing.T) {
		var log logged
		var s source
		put(t, filepath.Join(dir, "a", "1"), "x")
		m := follow(t, dir, TreeOptions{poll: time.Hour, notify: s.notify, Logger: log.logger()})
		log.want(t, 0, "")
		s.limit(syscall.ENOSPC)
		for i := range 3 {
			path := filepath.Join(dir, fmt.Sprint("new", i), "below", "2")
			put(t, path, "x")
			if i == 0 {
				s.event(filepath.Join(dir, "new0"))
			}
			m.wantDisk(t)
			put(t, path, "y")
			m.wantDisk(t)
		}
		log.want(t, 1, syscall.ENOSPC.Error())
	})
}

// TestTreePolls: without events all changes are found within the interval (in fake
// time), with one log line; new watches are tried every minute.
func TestTreePolls(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log logged
		var tries atomic.Int64
		opts := TreeOptions{Logger: log.logger(), notify: func() (*notifier, error) {
			tries.Add(1)
			return nil, syscall.EMFILE
		}}
		put(t, filepath.Join(dir, "a", "1"), "x")
		m := follow(t, dir, opts)
		for i := range 3 {
			began := time.Now()
			put(t, filepath.Join(dir, "b", fmt.Sprint(i)), "x")
			m.wantDisk(t)
			wantAfter(t, began, 5*time.Second)
		}
		time.Sleep(5 * time.Minute)
		if tries := tries.Load(); tries < 5 || tries > 7 {
			t.Errorf("%d tries for events in 5 min", tries)
		}
		log.want(t, 1, syscall.EMFILE.Error())
		if err := m.Run(t.Context()); err == nil {
			t.Error("a second Run")
		}
	})
}

// TestTreeSlowPoll: even when events work everything is polled at long intervals, and
// a root that is removed and restored is noticed without an event.
func TestTreeSlowPoll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vault")
	onEvents(t, filepath.Dir(dir))
	synctest.Test(t, func(t *testing.T) {
		var silent source
		put(t, filepath.Join(dir, "1"), "x")
		m := follow(t, dir, TreeOptions{notify: silent.notify})
		m.patience = time.Hour
		for range 3 {
			began := time.Now()
			put(t, filepath.Join(dir, "1"), began.String())
			m.wantDisk(t)
			if took := time.Since(began); took < 239*time.Second || took > 361*time.Second {
				t.Errorf("polled after %v", took)
			}
		}
		began := time.Now()
		must(t, os.Rename(dir, dir+".old"))
		put(t, filepath.Join(dir, "2"), "y")
		m.wantDisk(t)
		if took := time.Since(began); took > 2300*time.Millisecond {
			t.Errorf("a new root was noticed after %v", took)
		}
	})
}

func TestDirtyPathsBecomeAll(t *testing.T) {
	now := time.Now()
	d := dirtyPaths{debounce: debounce{quiet: 200 * time.Millisecond, most: 2 * time.Second}, limit: 3}
	for i := range 3 {
		d.kick(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	d.kick("3", now.Add(150*time.Millisecond))
	if b := d.take(now.Add(300 * time.Millisecond)); b != nil {
		t.Errorf("too early: %+v", b)
	}
	b := d.take(now.Add(350 * time.Millisecond))
	if b == nil || !b.All || len(b.Paths) > 0 || !b.SeenAt.Equal(now) || d.pending() {
		t.Errorf("%+v", b)
	}
	old, more := &Batch{Paths: []string{"a", "c"}, SeenAt: now}, &Batch{Paths: []string{"b", "c"}, SeenAt: now.Add(-time.Second)}
	if m := merge(old, more, 3); m.All || strings.Join(m.Paths, "") != "abc" || !m.SeenAt.Equal(now.Add(-time.Second)) {
		t.Errorf("%+v", m)
	}
	if m := merge(old, more, 2); !m.All || m.Paths != nil {
		t.Errorf("%+v", m)
	}
}
