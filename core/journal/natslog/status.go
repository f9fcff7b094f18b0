package natslog

import "github.com/mcptrack/mcptrack/core/journal"

// Stats implements [journal.Log].
func (l *Log) Stats() journal.Stats {
	s := l.store.health.Stats()
	s.Waiting, s.Folded = l.writer.queue.Size()
	return s
}

// Err implements [journal.Log].
func (l *Log) Err() error { return l.store.health.Err() }
