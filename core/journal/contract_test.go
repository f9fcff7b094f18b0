package journal_test

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(t *testing.T, opts journaltest.Options) journaltest.Opened {
		keep := journal.MemoryOptions{Keep: 30_000, KeepBytes: 64 << 20, KeepContent: opts.KeepContent}
		if opts.Few {
			keep.Keep = 100
		}
		m := journal.NewMemory(keep)
		t.Cleanup(func() { _ = m.Close() })
		return journaltest.Opened{Log: m}
	})
}
