//go:build linux

package main

import (
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

// injectResumes: inject --from is ended and started again while resources change. The last
// text that the model gets of every resource has to be that of its last update, and no older
// one may follow a newer.
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
				s.each(func(st *stand) { st.change(true) })
				time.Sleep(700 * time.Millisecond)
			}
			if sig == 0 {
				s.settle(30*time.Second, true)
				time.Sleep(5 * time.Second)
				sig = syscall.SIGTERM
			}
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait()
			s.each(func(st *stand) { st.change(true) })
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

var said = regexp.MustCompile(`Resource (\S+) updated for MCP server (\S+) at ([0-9TZ:.-]+)`)

// injected returns the sequence number of the last update that the items name of every
// resource, and how often an older one followed a newer.
func (f *feed) injected(items []realtimetest.ReceivedItem) (last map[at]uint64, stale int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	last = map[at]uint64{}
	for _, it := range items {
		for _, m := range said.FindAllStringSubmatch(strings.Join(it.Texts, "\n"), -1) {
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
