package sqlitelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/journal"
)

// file is one epoch of events.db, as readers use it. Readers of a file that is no longer the file
// of the log get journal.ErrEpoch.
type file struct {
	path    string
	info    fs.FileInfo // by which it is recognized
	wal     fs.FileInfo // events.db-wal, in a process that only reads; nil: unknown
	shm     fs.FileInfo // events.db-shm, likewise
	epoch   string
	origin  string
	readers *pool
}

// inPlace reports whether the file is still the one at its path. It does not open it: closing any
// descriptor of the file would release the locks that SQLite holds.
func (f *file) inPlace() bool { return inPlace(f.path, f.info) }

// inPlace reports whether the file at a path is still the known one; nil: none is known.
func inPlace(path string, known fs.FileInfo) bool {
	info, err := os.Lstat(path)
	return known == nil || err == nil && os.SameFile(info, known) || err != nil && !gone(err)
}

// gone reports whether an error of Lstat says that the file does not exist.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// emptied reports whether the file is in its place but empty, which it never is once SQLite has
// written to it.
func (f *file) emptied() bool {
	info, err := os.Lstat(f.path)
	return err == nil && info.Size() == 0
}

// errEmptied is the damage of a file that was truncated to nothing.
func errEmptied(path string) error {
	return fmt.Errorf("%w: %s is empty", errDamaged, path)
}

// openFile opens events.db to write. It creates a missing file, sets a damaged one aside, and
// begins a new epoch wherever ids might name two events. known is what this process knew of the
// log; nil at the start.
func (l *Log) openFile(known *logRow) (c *sqlite.Conn, f *file, row logRow, err error) {
	if err := l.finishRescue(); err != nil {
		return nil, nil, row, err
	}
	c, f, row, err = l.tryFile(known)
	if !damaged(err) {
		return c, f, row, err
	}
	if known, err = l.rescue(err, known); err != nil {
		return nil, nil, row, err
	}
	return l.tryFile(known)
}

// tryFile is openFile without the repair of damage.
func (l *Log) tryFile(known *logRow) (_ *sqlite.Conn, _ *file, row logRow, err error) {
	path := l.dir.file()
	made, err := l.makeFile(path)
	if err != nil {
		return nil, nil, row, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, nil, row, fmt.Errorf("event log: %w", err)
	}
	if err := checkFile(path, info); err != nil {
		return nil, nil, row, err
	}
	if info.Size() == 0 && !made && known == nil && l.dir.seen.last > 0 { // it had events
		return nil, nil, row, errEmptied(path)
	}
	c, err := connect(path, sqlite.OpenReadWrite, writerCache)
	if err != nil {
		return nil, nil, row, fmt.Errorf("event log: open %s: %w", path, plain(err))
	}
	row, err = l.admit(c, inode(info), known)
	if err != nil {
		return nil, nil, row, errors.Join(fmt.Errorf("event log: open %s: %w", path, plain(err)), c.Close())
	}
	return c, &file{path: path, info: info, epoch: row.epoch, origin: row.origin, readers: newPool(path)}, row, nil
}

// makeFile creates an empty file that only this user may read, if there is none. SQLite would apply
// the umask.
func (l *Log) makeFile(path string) (made bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err == nil {
		err = errors.Join(f.Close(), l.dir.sync())
	}
	if err != nil {
		return false, fmt.Errorf("event log: create the file: %w", err)
	}
	return true, nil
}

// admit checks an opened file and makes it the log of this run. The result's clean says whether the
// previous run has closed the log.
func (l *Log) admit(c *sqlite.Conn, inode int64, known *logRow) (row logRow, err error) {
	if err := set(c, "PRAGMA journal_mode = wal", "wal"); err != nil {
		return row, err
	}
	if err := run(c, "PRAGMA synchronous = full"); err != nil { // this run shows what the previous one has not synced
		return row, err
	}
	if err := migrate(c); err != nil {
		return row, err
	}
	if err := checkSchema(c); err != nil {
		return row, ours(err)
	}
	if row, err = readLog(c); err != nil {
		return row, ours(err)
	}
	if err := quickCheck(c, l.opts.check); err != nil {
		return row, ours(err)
	}
	end, err := lastEvent(c, row)
	if err != nil {
		return row, ours(err)
	}
	var seen mark // by the previous run
	if known == nil {
		seen = l.dir.seen
	}
	why := ""
	switch {
	case known != nil && row.epoch != known.epoch:
		why = "the file was replaced"
	case known == nil && row.last >= row.first && end < row.last:
		why = "the log came back shorter"
		l.health.Damages.Add(1)
	case end > row.last:
		why = "the log came back longer"
		l.health.Damages.Add(1)
	case row.inode != 0 && inode != 0 && row.inode != inode:
		why = "the file is a copy or was restored"
	case seen.epoch == row.epoch && seen.last > row.last:
		why = "its last events are missing"
		l.health.Damages.Add(1)
	case seen.epoch != "" && seen.epoch != row.epoch:
		why = "the file was deleted or replaced"
		l.health.Damages.Add(1)
	case !row.clean && known == nil && row.durability != journal.Always && (row.boot == "" || row.boot != l.boot):
		why = "the machine stopped before all events were durable, so the last ones may be lost"
	}
	row.last = max(row.last, end, seen.last)
	if known != nil {
		if row.last = max(row.last, known.last); end == 0 {
			row.first = max(row.first, known.first)
		}
	}
	row.durability, row.boot, row.inode = l.opts.Durability, l.boot, inode
	err = transaction(c, func() error {
		if why != "" {
			row.epoch = journal.NewEpoch()
			if err := addEpoch(c, row, why); err != nil {
				return err
			}
		}
		if row.first <= row.last && end < row.last { // a damaged row stands for the lost end until it expires
			if err := run(c, "INSERT INTO events SELECT ?, max(?, coalesce(max(stored), 0)), '', '', '', '', 0 FROM events WHERE seq = ?", row.last, time.Now().UnixMicro(), end); err != nil {
				return err
			}
		}
		if err := l.heal(c, row.origin, false); err != nil {
			return err
		}
		now := row
		now.clean = false
		return writeLog(c, now)
	})
	if err == nil && why != "" {
		l.opts.Logger.Warn("the event log begins a new epoch, because "+why, "last", row.last)
	}
	return row, err
}

// lastEvent returns the number of the last row of events, 0 if there is none. A row behind the end
// of the log must be an event.
func lastEvent(c *sqlite.Conn, row logRow) (end int64, err error) {
	err = query(c, "SELECT "+eventColumns+" FROM events ORDER BY seq DESC LIMIT 1", func(s *sqlite.Stmt) error {
		sc := &scanner{sums: newChecksum(row.origin)}
		if ok := sc.read(s); !ok && sc.row.seq > row.last || sc.row.seq > maxMark {
			return fmt.Errorf("%w: the number of an event was changed", errDamaged)
		}
		end = sc.row.seq
		return nil
	})
	return end, err
}

// set runs a PRAGMA and fails unless it returns want.
func set(c *sqlite.Conn, pragma, want string) error {
	got, err := firstText(c, pragma)
	if err == nil && got != want {
		err = fmt.Errorf("%s returned %q", pragma, got)
	}
	return err
}

// quickCheck returns an error if it finds damage within limit.
func quickCheck(c *sqlite.Conn, limit time.Duration) error {
	late := make(chan struct{})
	timer := time.AfterFunc(limit, func() { close(late) })
	c.SetInterrupt(late)
	defer func() {
		timer.Stop()
		c.SetInterrupt(nil)
	}()
	found, err := firstText(c, "PRAGMA quick_check(1)")
	switch {
	case sqlite.ErrCode(err) == sqlite.ResultInterrupt:
		return nil
	case err == nil && found != "ok" && found != "":
		return fmt.Errorf("%w: %s", errDamaged, found)
	}
	return err
}

// openExisting opens events.db only to read.
func (l *Log) openExisting(ctx context.Context) (f *file, row logRow, err error) {
	path := l.dir.file()
	info, err := os.Lstat(path)
	if err != nil {
		return nil, row, fmt.Errorf("event log: %w", err)
	}
	if err := checkFile(path, info); err != nil {
		return nil, row, err
	}
	f = &file{path: path, info: info, readers: newPool(path)}
	read := func(c *sqlite.Conn) error {
		version, err := number(c, "PRAGMA user_version")
		if err == nil && version == 0 {
			return fs.ErrNotExist // it is being created
		}
		if err == nil && version != int64(len(migrations())) {
			return fmt.Errorf("it has format %d; this mcptrack reads format %d", version, len(migrations()))
		}
		if err == nil {
			row, err = readLog(c)
			err = ours(err)
		}
		return err
	}
	err = f.readers.use(ctx, read)
	if _, wal := os.Lstat(path + "-wal"); sqlite.ErrCode(err).ToPrimary() == sqlite.ResultCantOpen && errors.Is(wal, fs.ErrNotExist) {
		// A copy in a folder that cannot be written to: the writer of events.db would have made
		// that file.
		f.readers.close()
		f.readers = newPool(immutable(path))
		err = f.readers.use(ctx, read)
	}
	if err != nil {
		f.readers.close()
		return nil, row, fmt.Errorf("event log: open %s: %w", path, plain(err))
	}
	f.epoch, f.origin = row.epoch, row.origin
	f.wal, _ = os.Lstat(path + "-wal")
	f.shm, _ = os.Lstat(path + "-shm")
	return f, row, nil
}
