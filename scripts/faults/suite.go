//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// restart is a row about the tracker itself: while resources change, happens restarts or suspends it.
type restart struct {
	name    string
	happens func(*suite) error
	gaps    bool // clients may receive a gap
}

// suite is a tracker with its servers and a client.
type suite struct {
	*tracker
	oracle *oracle
	feed   *feed
	report *report
	result result // of the round
}

// ended ends the tracker, and counts a timeout as hung.
func (s *suite) ended(sig syscall.Signal) {
	if !s.end(sig) {
		s.result.hung++
		s.report.note("the tracker did not end within 20 s of %v", sig)
	}
}

// heard swaps, and waits until the client knows everything. The next change swaps back.
func (s *suite) heard() {
	s.each(func(st *fixture) { st.swap(true) })
	wrong := s.feed.wrong("")
	for began := time.Now(); len(wrong) > 0 && time.Since(began) < time.Minute; wrong = s.feed.wrong("") {
		time.Sleep(20 * time.Millisecond)
	}
	if len(wrong) > 0 {
		s.result.hung++
		s.report.note("unknown to the client after a minute: %v", wrong)
	}
	s.each(func(st *fixture) { st.due.Store(true) })
}

func restarts() []restart {
	return append([]restart{
		{name: "tracker killed under load", happens: func(s *suite) error {
			for range 3 {
				s.each(func(st *fixture) { st.change(true) })
				time.Sleep(300 * time.Millisecond)
				s.heard()
				s.end(syscall.SIGKILL)
				s.each(func(st *fixture) { st.change(false) })
				if err := s.start(); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "tracker stopped for 10 s", happens: func(s *suite) error {
			s.signal(syscall.SIGSTOP)
			s.each(func(st *fixture) { st.change(true) })
			time.Sleep(10 * time.Second)
			s.signal(syscall.SIGCONT)
			return nil
		}},
		{name: "SIGTERM right after the first look", happens: func(s *suite) error {
			fresh := fmt.Sprintf("file:///fresh-%d.md", s.oracle.serial.Load())
			s.each(func(st *fixture) { st.set(fresh, true) })
			time.Sleep(time.Second)
			s.ended(syscall.SIGTERM)
			s.each(func(st *fixture) { st.set(fresh, false); st.change(false) })
			return s.start()
		}},
		{name: "membership while down", happens: func(s *suite) error {
			s.ended(syscall.SIGTERM)
			added := fmt.Sprintf("file:///added-%d.md", s.oracle.serial.Load())
			s.each(func(st *fixture) {
				st.set(added, false)
				st.remove(st.uri(7))
				st.change(false)
			})
			if err := s.start(); err != nil {
				return err
			}
			s.settle(40*time.Second, false)
			s.each(func(st *fixture) { st.set(st.uri(7), true) })
			return nil
		}},
		{name: "second process on the directory", happens: (*suite).beside},
		{name: "config edited", happens: func(s *suite) error {
			for _, description := range []string{`, "description": "edited"`, ""} { // a new session with every server
				for _, st := range s.fixtures {
					st.extra = strings.TrimSuffix(st.extra, `, "description": "edited"`) + description
				}
				if err := s.configure(); err != nil {
					return err
				}
				s.each(func(st *fixture) { st.change(true) })
				s.settle(30*time.Second, false)
			}
			return nil
		}},
	}, damages()...)
}

// settle waits until everything that the client knows is true. If count is set, the rest counts as
// lost.
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
	s.each(func(st *fixture) { st.change(true) })
	s.heard()
	if err := r.happens(s); err != nil {
		s.report.note("%s: %v", r.name, err)
		s.result.hung++
	}
	for _, st := range s.fixtures {
		if st.due.Load() {
			s.report.note("%s on %s: nothing changed during the fault", r.name, st.id)
			s.result.hung++
		}
	}
	s.each(func(st *fixture) { st.set(st.uri(6), true) })
	s.result.slowest = s.settle(60*time.Second, true)
	after := s.feed.sum()
	if gaps := after.gaps - before.gaps; gaps > 0 && r.gaps { // then clients hear of the lists when they change
		s.each(func(st *fixture) { st.swap(true) })
		s.settle(60*time.Second, true)
		after = s.feed.sum()
	} else if gaps > 0 {
		s.result.lost += gaps
		s.report.note("%s: the client received %d gaps", r.name, gaps)
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

// output runs the program to its end and returns what it printed and how it ended.
func (t *tracker) output(args ...string) (out, errs string, exit int) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var o, e bytes.Buffer
	cmd := exec.CommandContext(ctx, t.bin, args...)
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return "", err.Error(), -1
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// beside starts a second serve-sse on the directory of the running one: it must exit with 1 and name
// the process that owns the directory. Meanwhile replay, history and diff must work while resources
// change, and replay must print what serve-sse serves.
func (s *suite) beside() error {
	wrong := func(format string, args ...any) {
		s.result.lost++
		s.report.note(format, args...)
	}
	_, errs, exit := s.output("serve-sse", "--config", s.config(), "--addr", freeAddr(), "--data-dir", s.data())
	if exit != 1 || !strings.Contains(errs, fmt.Sprintf("process %d", s.pid())) {
		wrong("the second serve-sse ended with %d: %s", exit, errs)
	}
	for range 5 {
		s.each(func(st *fixture) { st.change(true) })
		lines, _, err := s.log()
		if err != nil {
			return err
		}
		out, errs, exit := s.output("replay", "--data-dir", s.data())
		if exit != 0 || errs != "" || !strings.HasPrefix(out, strings.Join(lines, "\n")+"\n") {
			wrong("replay beside ended with %d and printed %d bytes: %s", exit, len(out), errs)
		}
		st := s.fixtures[0]
		out, errs, exit = s.output("history", st.id, st.uri(0), "--data-dir", s.data(), "--json")
		if exit != 0 || errs != "" || strings.Count(out, `"sha256:`) < 2 {
			wrong("history beside ended with %d: %.300s %s", exit, out, errs)
		}
		out, errs, exit = s.output("diff", st.id, st.uri(0), "--data-dir", s.data())
		if exit != 0 || errs != "" || !strings.Contains(out, "+version ") {
			wrong("diff beside ended with %d: %.300s %s", exit, out, errs)
		}
	}
	return nil
}

// injectResumes: inject --from is ended and started again while resources change. The last
// text about every resource that reaches the model must describe its last update, and no older text
// may follow a newer one.
func injectResumes(o options, report *report, name string) error {
	o.dir = filepath.Join(o.dir, "inject")
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	return withSuite(o, report, nil, func(s *suite) error {
		far := &realtimetest.Endpoint{}
		web := httptest.NewServer(far)
		defer web.Close()
		log, err := os.Create(filepath.Join(o.dir, "inject-log"))
		if err != nil {
			return err
		}
		defer func() { _ = log.Close() }()
		start := func() (*exec.Cmd, error) {
			cmd := exec.Command(o.bin, "inject", "--url", "ws"+strings.TrimPrefix(web.URL, "http")+"/v1/realtime", "--call-id", "rtc_1",
				"--from", s.url(), "--max-per-minute", "0", "--coalesce", "500ms")
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(o.dir, "state"), "OPENAI_API_KEY=sk-test")
			cmd.Stderr = log
			return cmd, cmd.Start()
		}
		r := result{rounds: 1}
		for i, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL, 0} {
			cmd, err := start()
			if err != nil {
				return err
			}
			if i == 0 {
				time.Sleep(2 * time.Second) // it is connected: a first start has no cursor
			}
			for range 4 {
				s.each(func(st *fixture) { st.change(true) })
				time.Sleep(700 * time.Millisecond)
			}
			if sig == 0 {
				s.settle(30*time.Second, true)
				time.Sleep(5 * time.Second)
				sig = syscall.SIGTERM
			}
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait()
			s.each(func(st *fixture) { st.change(true) })
		}
		cmd, err := start()
		if err != nil {
			return err
		}
		s.settle(30*time.Second, true)
		judge := func() (lost, stale int) {
			last, stale := s.feed.injected(far.Items())
			s.feed.mu.Lock()
			defer s.feed.mu.Unlock()
			for key, want := range s.feed.newest {
				if last[key] != want {
					lost++
				}
			}
			return lost, stale
		}
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
			if lost, _ := judge(); lost == 0 {
				break
			}
		}
		lost, stale := judge()
		r.lost, r.stale = r.lost+lost, stale
		if lost+stale > 0 {
			report.note("inject: %d items about %d resources; the last texts of %d are old, %d older ones followed newer ones", len(far.Items()), len(s.oracle.of("")), lost, stale)
		}
		if len(far.Items()) < 20 {
			r.hung++
			report.note("inject sent only %d items", len(far.Items()))
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		report.row(name, "all", r)
		return nil
	})
}

var injectedUpdate = regexp.MustCompile(`Resource (\S+) updated for MCP server (\S+) at ([0-9TZ:.-]+)`)

// injected returns the sequence number of the last update that the items name of every
// resource, and how often an older one followed a newer.
func (f *feed) injected(items []realtimetest.ReceivedItem) (last map[at]uint64, stale int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last = map[at]uint64{}
	for _, it := range items {
		for _, m := range injectedUpdate.FindAllStringSubmatch(strings.Join(it.Texts, "\n"), -1) {
			key := at{server: m[2], uri: m[1]}
			seq := f.seqs[update{key, m[3]}]
			if seq == 0 {
				continue // of an event before the client connected
			}
			if seq < last[key] {
				stale++
			}
			last[key] = seq
		}
	}
	return last, stale
}

// diskFull: the disk of the log is full for 4 s, while resources and lists change back. Clients must
// receive only stored events, and finally the truth.
func diskFull(o options, report *report, name string) error {
	o.dir = filepath.Join(o.dir, "disk")
	o.disk = filepath.Join(o.dir, "data")
	if err := os.MkdirAll(o.disk, 0o700); err != nil {
		return err
	}
	return withSuite(o, report, nil, func(s *suite) error {
		s.result = result{rounds: 1}
		before := s.feed.sum()
		s.heard()
		fill := fmt.Sprintf("/proc/%d/root%s/fill", s.pid(), o.disk)
		if err := os.WriteFile(fill, make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("the disk is not full: %w", err)
		}
		for range 4 {
			s.each(func(st *fixture) { st.change(true) })
			time.Sleep(time.Second)
		}
		if err := os.Remove(fill); err != nil {
			return err
		}
		if says := s.stderr(); !strings.Contains(says, "disk is full") {
			s.result.hung++
			report.note("%s: it reports only: %.500s", name, says)
		}
		s.result.slowest = s.settle(time.Minute, true)
		after := s.feed.sum()
		s.result.stale = after.stale - before.stale
		s.result.duplicated = after.duplicated - before.duplicated + after.reused - before.reused
		s.result.lost += after.holes - before.holes + after.gaps - before.gaps
		if gaps := after.gaps - before.gaps; gaps > 0 {
			report.note("%s: the client received %d gaps", name, gaps)
		}
		report.row(name, "all", s.result)
		return nil
	})
}
