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
	// writerCache and readerCache bound the pages that a connection keeps in memory, in KiB. A
	// transaction that changes more pages writes them before its end.
	writerCache, readerCache = 6 << 10, 512
	// checkpointPages is the length of events.db-wal, in pages of 4 KiB, at which SQLite writes its
	// pages to events.db. Each page is then written there once, however often it changed.
	checkpointPages = 4096
	// busyTimeout is how long a statement waits for the lock of another process, such as sqlite3.
	busyTimeout = 500 * time.Millisecond
)

// connect opens a connection to the file.
func connect(path string, flags sqlite.OpenFlags, cache int) (*sqlite.Conn, error) {
	c, err := sqlite.OpenConn(path, flags)
	if err != nil {
		return nil, err
	}
	c.SetBusyTimeout(busyTimeout)
	// Do not call c.SetDefensive: in v1.4.2 it passes one argument too few, and SQLite writes to an
	// address that it finds in freed memory.
	for _, pragma := range []string{
		fmt.Sprintf("cache_size = -%d", cache), "mmap_size = 0", "temp_store = memory", "trusted_schema = off",
		"cell_size_check = on",          // finds a damaged page when it is read, not by its consequences
		"journal_size_limit = 16777216", // as long as between checkpoints: overwriting is cheaper than growing
		fmt.Sprintf("wal_autocheckpoint = %d", checkpointPages),
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

// run runs a statement that is not run often.
func run(c *sqlite.Conn, text string, args ...any) error {
	return sqlitex.ExecuteTransient(c, text, &sqlitex.ExecOptions{Args: args})
}

// number returns the first column of the last row, 0 if there is none.
func number(c *sqlite.Conn, text string, args ...any) (n int64, err error) {
	err = query(c, text, func(s *sqlite.Stmt) error {
		n = s.ColumnInt64(0)
		return nil
	}, args...)
	return n, err
}

// firstText returns the first column of the last row, "" if there is none.
func firstText(c *sqlite.Conn, text string) (found string, err error) {
	err = sqlitex.ExecuteTransient(c, text, &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		found = s.ColumnText(0)
		return nil
	}})
	return found, err
}

// do runs a prepared statement without rows. The parameters are int64, string, []byte, where nil
// means NULL, or bool.
func do(s *sqlite.Stmt, params ...any) error {
	bind(s, params...)
	if _, err := s.Step(); err != nil {
		return err // Step has reset it
	}
	return s.Reset()
}

// bind sets the parameters of a prepared statement; see do.
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
			panic("sqlitelog: a parameter has an unknown type")
		}
	}
}

// query calls row with every row of a query. It caches the prepared statement.
func query(c *sqlite.Conn, text string, row func(s *sqlite.Stmt) error, args ...any) error {
	return sqlitex.Execute(c, text, &sqlitex.ExecOptions{Args: args, ResultFunc: row})
}

// transaction runs f as one transaction.
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

// rollback ends a failed transaction unless SQLite has already ended it.
func rollback(c *sqlite.Conn) {
	if !c.AutocommitEnabled() {
		_ = run(c, "ROLLBACK") // only fails if there is nothing to roll back
	}
}

// damaged reports whether the error says that the file is not a usable database.
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
	case sqlite.ResultConstraint, sqlite.ResultMismatch: // our statements never cause these in our tables
		return true
	case sqlite.ResultIOErr:
		return code == sqlite.ResultIOErrShortRead // the file is too short
	}
	return false
}

// immutable returns the name of a file for a connection that reads it without files beside it.
// Nobody may write to the file.
func immutable(path string) string {
	return "file:" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?immutable=1"
}

// plain replaces the text of an SQLite error by a sentence. It returns other errors unchanged.
func plain(err error) error {
	if err == nil || errors.Is(err, errDamaged) {
		return err
	}
	code := sqlite.ErrCode(err)
	text := ""
	switch code.ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultFormat:
		text = "it is damaged or not a file of mcptrack; serve-sse sets a damaged file aside and rescues what can be read"
	case sqlite.ResultCantOpen, sqlite.ResultPerm, sqlite.ResultReadOnly:
		text = "the file cannot be used because its folder is not writable; copy events.db, and events.db-wal if it exists, to a folder of your own"
	case sqlite.ResultBusy, sqlite.ResultLocked:
		text = "another program, such as sqlite3, holds the file; try again"
	case sqlite.ResultFull:
		text = "the disk is full"
	case sqlite.ResultIOErr:
		text = "the disk cannot be read or written"
	default:
		return err
	}
	return &plainError{fmt.Sprintf("%s (%v)", text, code), err}
}

// plainError is an error with another text.
type plainError struct {
	text string
	err  error
}

func (e *plainError) Error() string { return e.text }
func (e *plainError) Unwrap() error { return e.err }

// ours returns err as damage if it says that tables or columns are missing: our statements fit our
// schema.
func ours(err error) error {
	if err != nil && sqlite.ErrCode(err) == sqlite.ResultError && !errors.Is(err, errDamaged) {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return err
}

// maxReaders is how many connections read simultaneously.
const maxReaders = 4

// pool holds connections that only read. Its methods may be called from several goroutines.
type pool struct {
	path string
	// slots is a semaphore for connections in use: a user sends, and receives when it is done.
	// Capacity maxReaders, never closed.
	slots chan struct{}

	mu     sync.Mutex // guards the fields below
	idle   []*sqlite.Conn
	closed bool
}

func newPool(path string) *pool {
	return &pool{path: path, slots: make(chan struct{}, maxReaders)}
}

// errRetired is the error of using a pool after close.
var errRetired = errors.New("the file is no longer used")

// use calls f with a connection in a transaction, so that f sees one state of the file. f must not
// wait for anything: while it reads, events.db-wal cannot become shorter.
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
		_ = do(end) // nothing was written
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
	c, err := connect(p.path, sqlite.OpenReadOnly|sqlite.OpenURI, readerCache) // the path is absolute or comes from immutable
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

// close waits until no connection is in use, and closes all.
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
		_ = c.Close() // nothing was written
	}
}
