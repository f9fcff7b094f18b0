package sqlitelog

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// fillEvents names the variable with the number of events that a child stores.
const fillEvents = "MCPTRACK_LOG_EVENTS"

// childFill stores events about 10,000 resources, durably and without waiting for each, reads them
// back, and prints {"events":N,"stored":S,"read":S}, in seconds. It keeps the log open until its
// standard input ends, so that it can be killed with it. scripts/bench.sh measures with it and
// replays its log.
func childFill(dir string) error {
	n, err := strconv.Atoi(os.Getenv(fillEvents))
	if err != nil || n < 1 {
		return fmt.Errorf("%s: %w", fillEvents, err)
	}
	l, err := Open(context.Background(), Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	s := new(journaltest.Source)
	began := time.Now()
	var last *item
	for i := range n {
		if last, err = push(l, s.Next(journaltest.URI(i%10_000))); err != nil {
			return err
		}
		for i%1024 == 0 && l.Stats().Waiting > l.opts.Queue/2 { // lest events give way to newer ones
			<-time.After(time.Millisecond)
		}
	}
	if o := <-last.Done; o.Err != nil {
		return o.Err
	}
	stored := time.Since(began).Seconds()
	if count := l.Stats().Stored; count != uint64(n) {
		return fmt.Errorf("%d of %d events were stored", count, n)
	}
	began = time.Now()
	count := 0
	for e, err := range l.Read(context.Background(), 1) {
		if count++; err != nil || e.Gap != nil || e.Seq != uint64(count) {
			return fmt.Errorf("read back %s: %v", e.ID, err)
		}
	}
	if count != n {
		return fmt.Errorf("%d of %d events were read back", count, n)
	}
	err = json.NewEncoder(os.Stdout).Encode(struct {
		Events int     `json:"events"`
		Stored float64 `json:"stored"`
		Read   float64 `json:"read"`
	}{n, stored, time.Since(began).Seconds()})
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return l.Close()
}
