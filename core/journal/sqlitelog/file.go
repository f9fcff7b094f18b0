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

// file is one epoch of events.db as its readers use it. When the log gets another file or epoch,
// readers of this one receive journal.ErrEpoch.
type file struct {
	path    string
	info    fs.FileInfo // identifies the file
	wal     fs.FileInfo // events.db-wal, only in a process that only reads; nil if unknown
	shm     fs.FileInfo // events.db-shm, under the same conditions
	epoch   string
	readers *pool
}

// inPlace reports whether this file is still the one at its path. It only looks at the path,
// because opening the file and closing it again would release the locks that SQLite holds.
func (f *file) inPlace() bool { return inPlace(f.path, f.info) }

// inPlace reports whether the file at a path is still the known one. It also returns true if known
// is nil, or if the file cannot be examined.
func inPlace(path string, known fs.FileInfo) bool {
	info, err := os.Lstat(path)
	return known == nil || err == nil && os.SameFile(info, known) || err != nil && !gone(err)
}

// gone reports whether an error from Lstat means that the file does not exist.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// emptied reports whether the file is still at its path, but empty. Once SQLite has written to a
// file, it is never empty.
func (f *file) emptied() bool {
	info, err := os.Lstat(f.path)
	return err == nil && info.Size() == 0
}

// errEmptied returns the error for a file that was truncated to length 0.
func errEmptied(path string) error {
	return fmt.Errorf("%w: %s is empty", errDamaged, path)
}

// openFile opens events.db for writing. It creates the file if it is missing, sets it aside and creates
// another if it is damaged, and starts a new epoch if an id could otherwise identify two different events. known is
// the last state of the log that this process has seen; it is nil at the start.
func (l *Log) openFile(known *logRow) (c *sqlite.Conn, f *file, row logRow, err error) {
	c, f, row, err = l.tryFile(known)
	if !damaged(err) {
		return c, f, row, err
	}
	last, err := l.setAside(err, known)
	if err != nil {
		return nil, nil, row, err
	}
	return l.tryFile(last)
}

// setAside renames a damaged file, so that a new log begins. No connection to the file may be open.
// known is the last state of the log that this process has seen, or nil. setAside returns what the new
// log must know of the old one: where its numbers end.
func (l *Log) setAside(cause error, known *logRow) (last *logRow, err error) {
	l.health.Damages.Add(1)
	path, to := l.dir.file(), ""
	for n := 1; ; n++ {
		to = fmt.Sprintf("%s.damaged-%d", path, n)
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	for _, suffix := range []string{"-journal", "-shm", "-wal", ""} { // SQLite would apply them to the new file
		if err := os.Rename(path+suffix, to+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("event log: move a damaged file aside: %w", err)
		}
	}
	l.opts.Logger.Error("the event log is damaged; the file was moved aside, a new log begins, and readers receive a gap", "err", plain(cause), "movedTo", to)
	last = &logRow{last: l.dir.seen.last}
	if known != nil {
		last.last = known.last
	}
	return last, l.dir.sync()
}

// tryFile opens events.db like openFile, but returns an error if the file is damaged.
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
	if info.Size() == 0 && !made && known == nil && l.dir.seen.last > 0 { // empty, although it had contained events
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
	return c, &file{path: path, info: info, epoch: row.epoch, readers: newPool(path)}, row, nil
}

// makeFile creates an empty file with permissions for the current user only, unless the file
// exists. It exists because SQLite would create the file with permissions that depend on the umask.
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

// admit checks an opened file and prepares it as the log of this run. In the result, clean reports
// whether the previous run had closed the log properly.
func (l *Log) admit(c *sqlite.Conn, inode int64, known *logRow) (row logRow, err error) {
	if err := set(c, "PRAGMA journal_mode = wal", "wal"); err != nil {
		return row, err
	}
	if err := limitWAL(c, l.opts.RetainBytes); err != nil {
		return row, err
	}
	if err := run(c, "PRAGMA synchronous = full"); err != nil { // readers will see events that the previous run may not have synced
		return row, err
	}
	if err := migrate(c, l.dir.recordsFile()); err != nil {
		return row, err
	}
	if err := new(statements).prepare(c); err != nil {
		return row, ours(err)
	}
	if row, err = readLog(c); err != nil {
		return row, ours(err)
	}
	if err := quickCheck(c, l.opts.check); err != nil {
		return row, ours(err)
	}
	end, err := number(c, "SELECT max(seq) FROM events") // 0 if there is none
	if err == nil && end > maxMark {
		err = fmt.Errorf("%w: an event has a wrong number", errDamaged)
	}
	if err != nil {
		return row, ours(err)
	}
	var seen mark // mark that the previous run left in the lock file
	if known == nil {
		seen = l.dir.seen
	}
	why := ""
	switch {
	case known != nil && known.epoch != "" && row.epoch != known.epoch:
		why = "the file was replaced"
	case end > row.last || end < row.last && row.first <= row.last:
		why = "the stored events do not end where the log ended"
		l.health.Damages.Add(1)
	case row.inode != 0 && inode != 0 && row.inode != inode:
		why = "the file is a copy or was restored"
	case seen.epoch == row.epoch && seen.last > row.last:
		why = "the lock file contains a later event than the log"
		l.health.Damages.Add(1)
	case seen.epoch != "" && seen.epoch != row.epoch:
		why = "the file was deleted or replaced"
		l.health.Damages.Add(1)
	case !row.clean && known == nil && row.durability != journal.Always && (row.boot == "" || row.boot != l.boot):
		why = "the machine stopped before all events were durable, so the last ones may be lost"
	}
	row.last = max(row.last, end, seen.last)
	if known != nil {
		row.last = max(row.last, known.last)
	}
	if end == 0 {
		row.first = row.last + 1
	}
	row.durability, row.boot, row.inode = l.opts.Durability, l.boot, inode
	err = transaction(c, func() error {
		if why != "" {
			row.epoch = journal.NewEpoch()
			if err := addEpoch(c, row, why); err != nil {
				return err
			}
		}
		if row.first <= row.last && end < row.last { // a row without an event in place of the lost last events, so that readers see a gap
			if err := run(c, "INSERT INTO events (seq, stored, server, uri, type, event) SELECT ?, stored, '', '', '', '' FROM events WHERE seq = ?", row.last, end); err != nil {
				return err
			}
		}
		now := row
		now.clean = false
		return writeLog(c, now)
	})
	if err == nil && why != "" {
		l.opts.Logger.Warn("the event log starts a new epoch because "+why, "last", row.last)
	}
	return row, err
}

// set executes a PRAGMA, and returns an error unless its result is want.
func set(c *sqlite.Conn, pragma, want string) error {
	got, err := firstText(c, pragma)
	if err == nil && got != want {
		err = fmt.Errorf("%s returned %q", pragma, got)
	}
	return err
}

// quickCheck runs PRAGMA quick_check for at most the duration limit, and returns an error if it
// finds damage.
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
			return fs.ErrNotExist // another process is just creating the log
		}
		if err == nil && (version < 1 || version > format) { // an older format lacks no column that is read
			return fmt.Errorf("the file has format %d, but this version of mcptrack reads formats up to %d", version, format)
		}
		if err == nil {
			row, err = readLog(c)
			err = ours(err)
		}
		return err
	}
	err = f.readers.use(ctx, read)
	if _, wal := os.Lstat(path + "-wal"); sqlite.ErrCode(err).ToPrimary() == sqlite.ResultCantOpen && errors.Is(wal, fs.ErrNotExist) {
		// There is no events.db-wal, so this is a copy, in a folder to which this process cannot
		// write. A writer would have created that file.
		f.readers.close()
		f.readers = newPool(immutable(path))
		err = f.readers.use(ctx, read)
	}
	if err != nil {
		f.readers.close()
		return nil, row, fmt.Errorf("event log: open %s: %w", path, plain(err))
	}
	f.epoch = row.epoch
	f.wal, _ = os.Lstat(path + "-wal")
	f.shm, _ = os.Lstat(path + "-shm")
	return f, row, nil
}
