package sqlitelog

import "github.com/mcptrack/mcptrack/core/journal"

// Stats implements [journal.Log].
func (l *Log) Stats() journal.Stats {
	s := l.health.Stats()
	s.Waiting, s.Folded = l.queue.Size()
	s.Waiting += l.contents.waiting()
	return s
}

// Err implements [journal.Log].
func (l *Log) Err() error { return l.health.Err() }
