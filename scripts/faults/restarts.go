//go:build linux

package main

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"
)

// restart is a row that concerns the tracker itself: while the servers' resources change,
// happens ends it and starts it again, or stops it for a while.
type restart struct {
	name    string
	happens func(*suite) error
	gaps    bool // clients may be told of a gap
}

// suite is a tracker with its servers and a client.
type suite struct {
	*tracker
	oracle *oracle
	feed   *feed
	report *report
	result result // of the round
}

// ended counts a tracker that did not end in time.
func (s *suite) ended(sig syscall.Signal) {
	if !s.end(sig) {
		s.result.hung++
		s.report.note("the tracker did not end within 20 s of %v", sig)
	}
}

// each changes all servers at once.
func (s *suite) each(f func(*stand)) {
	var changing sync.WaitGroup
	for _, st := range s.stands {
		changing.Go(func() { f(st) })
	}
	changing.Wait()
}

// heard swaps, and waits until the client knows everything; the next change undoes it.
func (s *suite) heard() {
	s.each(func(st *stand) { st.swap(true) })
	began := time.Now()
	for len(s.feed.wrong("")) > 0 && time.Since(began) < time.Minute {
		time.Sleep(20 * time.Millisecond)
	}
	if wrong := s.feed.wrong(""); len(wrong) > 0 {
		s.result.hung++
		s.report.note("the client does not know within a minute: %v", wrong)
	}
	s.each(func(st *stand) { st.due.Store(true) })
}

func restarts() []restart {
	return append([]restart{
		{name: "tracker killed under load", happens: func(s *suite) error {
			for range 3 {
				s.each(func(st *stand) { st.change(true) })
				time.Sleep(300 * time.Millisecond)
				s.heard()
				s.end(syscall.SIGKILL)
				s.each(func(st *stand) { st.change(false) })
				if err := s.start(); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "tracker stopped for 10 s", happens: func(s *suite) error {
			s.signal(syscall.SIGSTOP)
			s.each(func(st *stand) { st.change(true) })
			time.Sleep(10 * time.Second)
			s.signal(syscall.SIGCONT)
			return nil
		}},
		{name: "SIGTERM right after the first look", happens: func(s *suite) error {
			fresh := fmt.Sprintf("file:///fresh-%d.md", s.oracle.serial.Load())
			s.each(func(st *stand) { st.set(fresh, true) })
			time.Sleep(time.Second)
			s.ended(syscall.SIGTERM)
			s.each(func(st *stand) { st.set(fresh, false); st.change(false) })
			return s.start()
		}},
		{name: "membership while down", happens: func(s *suite) error {
			s.ended(syscall.SIGTERM)
			added := fmt.Sprintf("file:///added-%d.md", s.oracle.serial.Load())
			s.each(func(st *stand) {
				st.set(added, false)
				st.remove(st.uri(7))
				st.change(false)
			})
			if err := s.start(); err != nil {
				return err
			}
			s.settle(40*time.Second, false)
			s.each(func(st *stand) { st.set(st.uri(7), true) })
			return nil
		}},
		{name: "second process on the directory", happens: (*suite).beside},
		{name: "config edited", happens: func(s *suite) error {
			for _, description := range []string{`, "description": "edited"`, ""} { // a new session with every server
				for _, st := range s.stands {
					st.extra = strings.TrimSuffix(st.extra, `, "description": "edited"`) + description
				}
				if err := s.configure(); err != nil {
					return err
				}
				s.each(func(st *stand) { st.change(true) })
				s.settle(30*time.Second, false)
			}
			return nil
		}},
	}, damages()...)
}

// settle waits until all that the client knows is true; count says whether what is not
// counts as lost.
func (s *suite) settle(limit time.Duration, count bool) time.Duration {
	began := time.Now()
	wrong := s.feed.wrong("")
	for ; len(wrong) > 0 && time.Since(began) < limit; wrong = s.feed.wrong("") {
		time.Sleep(50 * time.Millisecond)
	}
	took := time.Since(began)
	if len(wrong) == 0 {
		time.Sleep(2500 * time.Millisecond)
		wrong = s.feed.wrong("")
	}
	if count && len(wrong) > 0 {
		s.result.lost += len(wrong)
		s.report.note("the last event is not true within %v for %v", limit, wrong)
	}
	return took
}

func (r restart) run(s *suite) {
	s.result = result{rounds: 1}
	before := s.feed.sum()
	s.each(func(st *stand) { st.change(true) })
	s.heard()
	if err := r.happens(s); err != nil {
		s.report.note("%s: %v", r.name, err)
		s.result.hung++
	}
	for _, st := range s.stands {
		if st.due.Load() {
			s.report.note("%s on %s: nothing changed meanwhile", r.name, st.id)
			s.result.hung++
		}
	}
	s.each(func(st *stand) { st.set(st.uri(6), true) })
	s.result.slowest = s.settle(60*time.Second, true)
	after := s.feed.sum()
	if gaps := after.gaps - before.gaps; gaps > 0 && r.gaps { // then clients hear of the lists when they change
		s.each(func(st *stand) { st.swap(true) })
		s.settle(60*time.Second, true)
		after = s.feed.sum()
	} else if gaps > 0 {
		s.result.lost += gaps
		s.report.note("%s: the client was told of %d gaps", r.name, gaps)
	}
	s.result.stale += after.stale - before.stale
	s.result.duplicated += after.duplicated - before.duplicated
	s.result.lost += after.holes - before.holes
	if reused := after.reused - before.reused; reused > 0 {
		s.result.duplicated += reused
		s.report.note("%s: %d ids named another event to the client", r.name, reused)
	}
	s.report.row(r.name, "all", s.result)
}

// sum returns what all events did wrong so far.
func (f *feed) sum() (sum counts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.counts {
		sum.stale += c.stale
		sum.duplicated += c.duplicated
		sum.holes += c.holes
		sum.events += c.events
		sum.reused += c.reused
		sum.gaps += c.gaps
	}
	return sum
}
