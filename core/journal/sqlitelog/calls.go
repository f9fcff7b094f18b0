package sqlitelog

import (
	"context"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/calls"
)

const (
	// callDelay is how long a call may wait so that one transaction stores it together with others.
	callDelay = 250 * time.Millisecond
	// maxWaitingCalls limits the number of calls that wait to be stored.
	maxWaitingCalls = 8192
	// callShare is the part of RetainBytes that calls may take in addition to events.
	callShare = 16
	// callBytes is the approximate stored size of a call in addition to its texts.
	callBytes = 40
)

// callLog implements [calls.Store]. New calls wait in memory until the writer stores them, and are
// dropped while too many wait.
type callLog struct {
	l *Log

	mu      sync.Mutex // guards the fields below
	queue   []calls.Call
	last    int64  // id of the newest call
	dropped uint64 // since calls were last stored
	closed  bool
}

// Calls returns the calls of tools that are stored with the log. They are not events: no reader of the log
// sees them. They are kept for Options.Retain, and take at most a sixteenth of Options.RetainBytes.
func (l *Log) Calls() calls.Store { return &l.calls }

func (c *callLog) Add(call calls.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed || c.l.opts.Existing:
		return
	case len(c.queue) == maxWaitingCalls:
		if c.dropped++; c.dropped == 1 {
			c.l.opts.Logger.Warn("calls are missing in the record of calls, because they cannot be stored fast enough")
		}
		return
	case len(c.queue) == 0:
		time.AfterFunc(callDelay, c.l.queue.Rouse) // after Close it has no effect
	}
	c.last = calls.NextID(c.last)
	call.ID = c.last
	c.queue = append(c.queue, call)
}

func (c *callLog) take() []calls.Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.queue
	c.queue, c.dropped = nil, 0
	return taken
}

func (c *callLog) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) > 0
}

// follow makes later calls have higher ids than the newest stored one.
func (c *callLog) follow(last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, last)
}

func (c *callLog) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// Read implements [calls.Store]. It finds a call when it is stored.
func (c *callLog) Read(ctx context.Context, q calls.Query) ([]calls.Call, error) {
	order := "ASC"
	if q.Newest > 0 {
		order = "DESC"
	}
	var found []calls.Call
	err := c.l.read(ctx, func(_ *file, conn *sqlite.Conn) error {
		found = nil
		if has, err := number(conn, "SELECT count(*) FROM sqlite_schema WHERE name = 'calls'"); has == 0 {
			return err // an older mcptrack writes the file
		}
		return query(conn, `SELECT n, client, session, server, tool, outcome, code, micros, bytes FROM (SELECT * FROM calls
			WHERE n > ?1 AND (?2 = '' OR server = ?2) AND (?3 = '' OR tool = ?3) AND (?4 = '' OR client = ?4) AND (NOT ?5 OR outcome <> 'ok') ORDER BY n `+order+` LIMIT ?6) ORDER BY n`,
			func(s *sqlite.Stmt) error {
				found = append(found, calls.Call{ID: s.ColumnInt64(0), Client: s.ColumnText(1), Session: s.ColumnText(2), ServerID: s.ColumnText(3), Tool: s.ColumnText(4),
					Outcome: calls.Outcome(s.ColumnText(5)), Code: s.ColumnInt(6), Duration: time.Duration(s.ColumnInt64(7)) * time.Microsecond, Bytes: s.ColumnInt64(8)})
				return nil
			}, q.After, q.ServerID, q.Tool, q.Client, q.Failed, q.Limit())
	})
	return found, err
}

// loadCalls learns where the stored calls end.
func (w *writer) loadCalls(c *sqlite.Conn) error {
	w.callTotal = 0
	return query(c, "SELECT n, total FROM calls ORDER BY n DESC LIMIT 1", func(s *sqlite.Stmt) error {
		w.l.calls.follow(s.ColumnInt64(0))
		w.callTotal = s.ColumnInt64(1)
		return nil
	})
}

// putCalls stores the calls in a batch, and removes some of those that exceed the limits. The column total
// has the size of a call and all before it, so the size of those that are stored is a difference.
func (w *writer) putCalls(b *batch, now time.Time) error {
	if len(b.calls) == 0 && !b.empty() {
		return nil
	}
	b.callTotal = w.callTotal
	for _, c := range b.calls {
		b.callTotal += int64(len(c.Client)+len(c.Session)+len(c.ServerID)+len(c.Tool)) + callBytes
		if err := do(w.stmts.call, c.ID, b.callTotal, c.Client, c.Session, c.ServerID, c.Tool, string(c.Outcome), int64(c.Code), c.Duration.Microseconds(), c.Bytes); err != nil {
			return err
		}
	}
	return do(w.stmts.trimCalls, now.Add(-w.l.opts.Retain).UnixMicro(), b.callTotal-w.l.maxCallBytes(), int64(minTrim))
}

func (l *Log) maxCallBytes() int64 { return max(1, l.opts.RetainBytes/callShare) }

// callsOverdue reports whether there are still calls that exceed the limits.
func (w *writer) callsOverdue() bool {
	over, err := number(w.conn, "SELECT n <= ? OR total <= ? FROM calls ORDER BY n LIMIT 1", time.Now().Add(-w.l.opts.Retain).UnixMicro(), w.callTotal-w.l.maxCallBytes())
	return err != nil || over == 1
}
