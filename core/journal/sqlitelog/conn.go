package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	// writerCache and readerCache limit the page cache of a connection, in KiB. A transaction that
	// changes more pages writes some of them to disk before it commits.
	writerCache, readerCache = 6 << 10, 512
	// minCheckpoint and maxCheckpoint limit the length of events.db-wal, in pages of 4 KiB, at which SQLite
	// copies the pages to events.db. Each page is copied only once per checkpoint, however often it has
	// changed.
	minCheckpoint, maxCheckpoint = 64, 4096
	// busyTimeout is how long a statement waits for a lock that another process, such as sqlite3,
	// holds.
	busyTimeout = 500 * time.Millisecond
)

func connect(path string, flags sqlite.OpenFlags, cache int) (*sqlite.Conn, error) {
	c, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c.SetBusyTimeout(busyTimeout)
	// Do not call c.SetDefensive: in v1.4.2 it passes too few arguments, so SQLite writes to an
	// arbitrary address.
	for _, pragma := range []string{
		fmt.Sprintf("cache_size = -%d", cache), "mmap_size = 0", "temp_store = memory", "trusted_schema = off",
		"cell_size_check = on", // detect a damaged page when it is read
	} {
		if err == nil {
			err = run(c, "PRAGMA "+pragma)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// limitWAL keeps events.db-wal short beside a file that holds retain bytes of events, so that both fit on a
// volume that was chosen for them.
func limitWAL(c *sqlite.Conn, retain int64) error {
	pages := min(max(retain/16>>12, minCheckpoint), maxCheckpoint)
	return errors.Join(
		run(c, fmt.Sprintf("PRAGMA wal_autocheckpoint = %d", pages)),
		run(c, fmt.Sprintf("PRAGMA journal_size_limit = %d", pages<<12))) // overwriting is cheaper than growing the file
}

// run executes a statement without keeping it prepared.
func run(c *sqlite.Conn, text string, args ...any) error {
	return sqlitex.ExecuteTransient(c, text, &sqlitex.ExecOptions{Args: args})
}

// number returns the integer in the first column of the last row, or 0 if there are no rows.
func number(c *sqlite.Conn, text string, args ...any) (n int64, err error) {
	err = query(c, text, func(s *sqlite.Stmt) error {
		n = s.ColumnInt64(0)
		return nil
	}, args...)
	return n, err
}

// firstText returns the text in the first column of the last row, or an empty string if there are
// no rows.
func firstText(c *sqlite.Conn, text string) (found string, err error) {
	err = sqlitex.ExecuteTransient(c, text, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		found = s.ColumnText(0)
		return nil
	}})
	return found, err
}

// do executes a prepared statement that returns no rows. A parameter must be an int64, a string, a
// bool or a []byte; a nil []byte is stored as NULL.
func do(s *sqlite.Stmt, params ...any) error {
	bind(s, params...)
	if _, err := s.Step(); err != nil {
		return err // the failed Step has already reset the statement
	}
	return s.Reset()
}

// bind sets the parameters of a prepared statement; do describes the allowed types.
func bind(s *sqlite.Stmt, params ...any) {
	for i, p := range params {
		switch p := p.(type) {
		case int64:
			s.BindInt64(i+1, p)
		case string:
			s.BindText(i+1, p)
		case []byte:
			if s.BindNull(i + 1); p != nil {
				s.BindBytes(i+1, p)
			}
		case bool:
			s.BindBool(i+1, p)
		default:
			panic("sqlitelog: unsupported parameter type")
		}
	}
}

// query calls row for every row that a query returns. The prepared statement is cached.
func query(c *sqlite.Conn, text string, row func(s *sqlite.Stmt) error, args ...any) error {
	return sqlitex.Execute(c, text, &sqlitex.ExecOptions{Args: args, ResultFunc: row})
}

// transaction calls f within a transaction, which is rolled back if f fails.
func transaction(c *sqlite.Conn, f func() error) error {
	if err := run(c, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := f()
	if err == nil {
		err = run(c, "COMMIT")
	}
	if err != nil {
		rollback(c)
	}
	return err
}

// rollback rolls back the open transaction, if any. After some errors, SQLite has already rolled it
// back.
func rollback(c *sqlite.Conn) {
	if !c.AutocommitEnabled() {
		_ = run(c, "ROLLBACK") // fails only if there is nothing to roll back
	}
}

// damaged reports whether the error means that the file is not a usable database.
func damaged(err error) bool {
	if errors.Is(err, errDamaged) {
		return true
	}
	if err == nil {
		return false
	}
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultFormat:
		return true
	case sqlite.ResultConstraint, sqlite.ResultMismatch: // impossible with our statements unless the tables are damaged
		return true
	case sqlite.ResultIOErr:
		return code == sqlite.ResultIOErrShortRead // the file was truncated
	}
	return false
}

// immutable returns a URI for opening a database file read-only without using a -wal or -shm file.
// Nobody may write to the file while it is open.
func immutable(path string) string {
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?immutable=1"
}

// plain replaces the message of an SQLite error by a sentence for users. It returns other errors
// unchanged.
func plain(err error) error {
	if err == nil || errors.Is(err, errDamaged) {
		return err
	}
	code := sqlite.ErrCode(err)
	text := ""
	switch code.ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultFormat:
		text = "it is damaged or was not created by mcptrack; mcptrack serve-sse moves a damaged file aside and begins a new one"
	case sqlite.ResultCantOpen, sqlite.ResultPerm, sqlite.ResultReadOnly:
		text = "the file cannot be used because you cannot write to its folder; copy events.db, and events.db-wal if it exists, to a folder that you can write to"
	case sqlite.ResultBusy, sqlite.ResultLocked:
		text = "another program, such as sqlite3, has locked the file; try again"
	case sqlite.ResultFull:
		text = "the disk is full"
	case sqlite.ResultIOErr:
		text = "the disk cannot be read or written"
	default:
		return err
	}
	return &plainError{fmt.Sprintf("%s (%v)", text, code), err}
}

// plainError replaces the message of the error that it wraps.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// ours classifies an error about missing tables or columns as damage, because our statements match
// our schema. It returns other errors unchanged.
func ours(err error) error {
	if err != nil && sqlite.ErrCode(err) == sqlite.ResultError && !errors.Is(err, errDamaged) {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// maxReaders is the number of connections that may read at the same time.
const maxReaders = 4

// pool is a pool of read-only connections to one file. Its methods are safe for concurrent use.
type pool struct {
	path string
	// slots is a semaphore that limits the number of connections in use: a caller sends before it
	// uses one, and receives when it is done. Its capacity is maxReaders, and it is never closed.
	slots chan struct{}

	mu     sync.Mutex // guards the fields below
	idle   []*sqlite.Conn
	closed bool
}

func newPool(path string) *pool {
	return &pool{path: path, slots: make(chan struct{}, maxReaders)}
}

// errRetired is returned when a pool is used after close.
var errRetired = errors.New("the file is no longer in use")

// use calls f with a connection in a read transaction, so that f sees a consistent state of the
// file. f must not block, because events.db-wal cannot shrink while the transaction is open.
func (p *pool) use(ctx context.Context, f func(c *sqlite.Conn) error) error {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-p.slots }()
	c, err := p.take()
	if err != nil {
		return err
	}
	begin, err := c.Prepare("BEGIN")
	if err == nil {
		err = do(begin)
	}
	if err == nil {
		err = f(c)
	}
	if end, rerr := c.Prepare("ROLLBACK"); rerr == nil && !c.AutocommitEnabled() {
		_ = do(end) // an error is harmless: the transaction only reads
	}
	if err == nil && p.keep(c) {
		return nil
	}
	return errors.Join(err, c.Close())
}

func (p *pool) take() (*sqlite.Conn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errRetired
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := connect(p.path, sqlite.OpenReadOnly|sqlite.OpenURI, readerCache) // the path is absolute or a URI from immutable, so SQLite accepts it unchanged
	if err != nil {
		return nil, fmt.Errorf("event log: open the file: %w", err)
	}
	return c, nil
}

func (p *pool) keep(c *sqlite.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.idle = append(p.idle, c)
	}
	return !p.closed
}

// close waits until no connection is in use, and closes all connections.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for range maxReaders {
		p.slots <- struct{}{}
	}
	for range maxReaders {
		<-p.slots
	}
	for _, c := range idle {
		_ = c.Close() // an error is harmless: the connection only reads
	}
}
