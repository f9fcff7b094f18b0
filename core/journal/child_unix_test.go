//go:build unix

package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// childFull fills a journal, makes its disk full (no file may grow beyond what
// the log has), goes on appending, frees the disk, and reports what it was told.
func childFull(dir string) int {
	signal.Ignore(syscall.SIGXFSZ)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	fail := func(err error) int { fmt.Fprintln(os.Stderr, err); return 1 }
	j, err := Open(ctx, Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return fail(err)
	}
	s := newSource()
	var items []*item
	push := func(n int) {
		for range n {
			it := &item{event: s.next(uri(len(items) % 100)), done: make(chan outcome, 1)}
			items = append(items, it)
			_ = j.queue.push(it)
		}
	}
	push(300)
	<-items[299].done
	items[299].done <- outcome{entry: Entry{}} // looked at again below
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return fail(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 128 << 10, Max: was.Max}); err != nil {
		return fail(err)
	}
	var report struct {
		Failed   string
		Queued   int
		Acked    []string
		Finished bool
	}
	for j.Err() == nil && ctx.Err() == nil {
		push(50)
		time.Sleep(5 * time.Millisecond)
	}
	if err := j.Err(); err != nil {
		report.Failed = err.Error()
	}
	push(100)
	report.Queued = j.Stats().Waiting
	for j.Stats().Failures < 3 && ctx.Err() == nil { // some attempts fail too
		time.Sleep(5 * time.Millisecond)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was); err != nil {
		return fail(err)
	}
	for i, it := range items {
		select {
		case o := <-it.done:
			if o.err != nil {
				return fail(fmt.Errorf("event %d: %w", i, o.err))
			}
			if i == 299 {
				o.entry.ID = j.Epoch() + "-300"
			}
			report.Acked = append(report.Acked, o.entry.ID)
		case <-ctx.Done():
			return fail(fmt.Errorf("event %d was not stored: %v, %+v", i, j.Err(), j.Stats()))
		}
	}
	if err := j.Close(); err != nil {
		return fail(err)
	}
	report.Finished = true
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		return fail(err)
	}
	return 0
}
