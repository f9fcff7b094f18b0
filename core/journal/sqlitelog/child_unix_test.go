//go:build unix

package sqlitelog

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// childFull fills a log, makes its disk full (no file may grow beyond the size of the log),
// continues appending, frees the disk, and reports what was acknowledged.
func childFull(dir string) int {
	signal.Ignore(syscall.SIGXFSZ)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	var logged strings.Builder // read after Close
	log := slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l, err := Open(ctx, Options{Dir: dir, Logger: log})
	if err != nil {
		return fail(err)
	}
	s := new(journaltest.Source)
	push := func(n int) {
		for range n {
			_ = l.Append(s.Next(journaltest.URI(s.N % 100)))
		}
	}
	followed := make(chan uint64, 1)
	var last atomic.Uint64 // set before the last event is appended
	go func() {
		next := uint64(1)
		for e, err := range l.Follow(ctx, 1) {
			if err != nil || e.Gap != nil || e.Seq != next {
				break
			}
			if next++; e.Seq == last.Load() {
				break
			}
		}
		followed <- next - 1
	}()
	push(300)
	if err := l.Flush(ctx); err != nil {
		return fail(err)
	}
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return fail(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 128 << 10, Max: was.Max}); err != nil {
		return fail(err)
	}
	var report struct {
		Failed    string
		Queued    int
		Acked     []string
		Followed  int
		Recovered bool   // was logged
		New       string // why a new log could not be opened while the disk was full
		Finished  bool
	}
	for l.Err() == nil && ctx.Err() == nil {
		push(50)
		time.Sleep(5 * time.Millisecond) // a real process with a real disk: there is nothing to wait on
	}
	if err := l.Err(); err != nil {
		report.Failed = err.Error()
	}
	push(100)
	report.Queued = l.Stats().Waiting
	for l.Stats().Failures < 3 && ctx.Err() == nil { // some attempts fail
		time.Sleep(5 * time.Millisecond) // a real process with a real disk: there is nothing to wait on
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return fail(err)
	}
	last.Store(uint64(s.N) + 1)
	push(1)
	if err := l.Flush(ctx); err != nil {
		return fail(fmt.Errorf("not all is stored: %w, %+v", err, l.Stats()))
	}
	for e, err := range l.Read(ctx, 1) {
		if err != nil {
			return fail(err)
		}
		report.Acked = append(report.Acked, e.ID)
	}
	if len(report.Acked) != s.N {
		return fail(fmt.Errorf("%d of %d events are stored", len(report.Acked), s.N))
	}
	report.Followed = int(<-followed)
	if err := l.Close(); err != nil {
		return fail(err)
	}
	report.Recovered = strings.Contains(logged.String(), "events can be stored again")
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 16, Max: was.Max}); err != nil {
		return fail(err)
	}
	_, err = Open(ctx, Options{Dir: filepath.Join(dir, "new"), Logger: log})
	report.New = fmt.Sprint(err)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return fail(err)
	}
	report.Finished = true
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return fail(err)
	}
	return 0
}

// The files of a child may not grow, and later may.
func TestDiskFullAndBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, out := startChild(t, "full", dir)
	var report struct {
		Failed    string
		Queued    int
		Acked     []string
		Followed  int
		Recovered bool   // was logged
		New       string // why a new log could not be opened while the disk was full
		Finished  bool
	}
	for out.Scan() {
		if err := json.Unmarshal(out.Bytes(), &report); err != nil {
			t.Fatalf("%s: %v", out.Text(), err)
		}
	}
	if err := cmd.Wait(); err != nil || !report.Finished {
		t.Fatalf("the child: %v, %+v", err, report)
	}
	if !strings.Contains(report.Failed, "cannot be stored") || report.Queued < 1 {
		t.Errorf("while the disk was full: error %q, %d waiting", report.Failed, report.Queued)
	}
	if !report.Recovered {
		t.Error("that events can be stored again was not logged as a warning")
	}
	if !strings.Contains(report.New, "event log") {
		t.Errorf("a new log on a full disk: %s", report.New)
	}
	if report.Followed != len(report.Acked) {
		t.Errorf("a follower got %d of %d", report.Followed, len(report.Acked))
	}
	l := open(t, Options{Dir: dir})
	entries := journaltest.ReadAll(t, l, 0)
	journaltest.InOrder(t, entries, l.Epoch(), 1, len(report.Acked))
	for i, e := range entries {
		ev, err := e.Event()
		if err != nil {
			t.Fatal(err)
		}
		if want := "n" + strconv.Itoa(i+1); ev.Payload.(event.ResourceUpdated).Name != want {
			t.Fatalf("entry %s is %s, want %s", e.ID, ev.Payload.(event.ResourceUpdated).Name, want)
		}
		if report.Acked[i] != e.ID {
			t.Errorf("event %d was acknowledged as %s and is %s", i+1, report.Acked[i], e.ID)
		}
	}
}
