package natslog

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
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
