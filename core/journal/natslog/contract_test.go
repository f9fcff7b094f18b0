package natslog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/recordstest"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/records"
)

func TestRealLogKeepsTheContract(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	var streams atomic.Int64
	journaltest.Run(t, func(t *testing.T, of journaltest.Options) journaltest.Opened {
		f := slowTo(t, url)
		opts := Options{URL: f.url, Replicas: 1, Stream: fmt.Sprint("s", streams.Add(1)), KeepContent: of.KeepContent, Drain: time.Minute}
		if of.Few {
			opts.RetainBytes = 64 << 10
		}
		reopen := func() journal.Log { return open(t, opts) }
		return journaltest.Opened{Log: reopen(), Reopen: reopen, Break: func() func() {
			f.setAway(true)
			return func() { f.setAway(false) }
		}}
	})
}

func TestRealRecordsKeepTheContract(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	var streams atomic.Int64
	recordstest.Run(t, func(t *testing.T) (records.Store, func() records.Store) {
		opts := Options{URL: url, Replicas: 1, Stream: fmt.Sprint("r", streams.Add(1))}
		reopen := func() records.Store { return open(t, opts).Records("things") }
		return reopen(), reopen
	})
}

// With the log, reading and writing records end, and so do their followers.
func TestRealRecordsEndWithTheLog(t *testing.T) {
	t.Parallel()
	log := open(t, onServer(t))
	things := log.Records("things")
	seen, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(ended)
		things.Follow(context.WithoutCancel(t.Context()), func(records.Changes) { seen <- struct{}{} })
	}()
	<-seen
	closeLog(t, log)
	<-ended
	if _, err := things.Get(t.Context(), "a"); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Get after Close: %v", err)
	}
	if _, err := things.Put(t.Context(), records.Record{Key: "a", Value: []byte("1")}); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Put after Close: %v", err)
	}
}
