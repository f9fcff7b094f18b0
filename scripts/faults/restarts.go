//go:build unix

package main

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

// restart is a row that concerns the tracker itself: while the servers' resources change,
// happens ends it and starts it again, or stops it for a while.
type restart struct {
	name    string
	happens func(*suite) error
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

func restarts() []restart {
	return append([]restart{
		{"tracker killed under load", func(s *suite) error {
			for range 3 {
				s.each(func(st *stand) { st.change(true) })
				time.Sleep(300 * time.Millisecond)
				s.end(syscall.SIGKILL)
				s.each(func(st *stand) { st.change(false) })
				if err := s.start(); err != nil {
					return err
				}
			}
			return nil
		}},
		{"tracker stopped for 10 s", func(s *suite) error {
			s.signal(syscall.SIGSTOP)
			s.each(func(st *stand) { st.change(true) })
			time.Sleep(10 * time.Second)
			s.signal(syscall.SIGCONT)
			return nil
		}},
		{"SIGTERM right after the first look", func(s *suite) error {
			fresh := fmt.Sprintf("file:///fresh-%d.md", s.oracle.serial.Load())
			s.each(func(st *stand) { st.set(fresh, true) })
			time.Sleep(time.Second)
			s.ended(syscall.SIGTERM)
			s.each(func(st *stand) { st.set(fresh, false) })
			return s.start()
		}},
		{"membership while down", func(s *suite) error {
			s.ended(syscall.SIGTERM)
			added := fmt.Sprintf("file:///added-%d.md", s.oracle.serial.Load())
			s.each(func(st *stand) {
				st.set(added, false)
				st.remove(st.uri(7))
			})
			if err := s.start(); err != nil {
				return err
			}
			s.settle(40*time.Second, false)
			s.each(func(st *stand) { st.set(st.uri(7), true) })
			return nil
		}},
		{"second process on the directory", func(s *suite) error { return s.beside() }},
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
	if err := r.happens(s); err != nil {
		s.report.note("%s: %v", r.name, err)
		s.result.hung++
	}
	s.each(func(st *stand) { st.set(st.uri(6), true) })
	s.result.slowest = s.settle(60*time.Second, true)
	after := s.feed.sum()
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
	}
	return sum
}
