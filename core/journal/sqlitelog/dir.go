package sqlitelog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// dir is the data directory of a log. One Log owns it.
type dir struct {
	path string
	lock *os.File // nil if the log is only read
	seen mark     // the mark when the lock was acquired
}

// mark names the last event that a run has stored. It is in the lock file, and shows that a file
// has come back shorter although nothing in it is wrong: its WAL was lost after a crash, or an
// older copy was written over it. The zero mark means that the lock does not say.
type mark struct {
	epoch string
	last  int64
}

// openDir checks the directory. Unless existing is set, it creates and locks it.
func openDir(path string, existing bool) (*dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("event log: find the data directory: %w", err)
	}
	d := &dir{path: path}
	if existing {
		if _, err := os.Lstat(d.file()); err != nil {
			return nil, fmt.Errorf("event log: find the stored events: %w", err)
		}
		return d, d.check()
	}
	return d, d.make()
}

// make creates the directory if necessary, and locks it.
func (d *dir) make() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return fmt.Errorf("event log: create the data directory: %w", err)
	}
	if err := d.check(); err != nil {
		return err
	}
	return d.acquire()
}

// check returns an error unless the path is a directory that only this user may write to.
func (d *dir) check() error {
	info, err := os.Lstat(d.path)
	switch {
	case err != nil:
		return fmt.Errorf("event log: find the stored events: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("event log: the data directory %s is a symbolic link; specify the directory itself", d.path)
	case !info.IsDir():
		return fmt.Errorf("event log: %s is not a directory", d.path)
	}
	if err := checkOwner(d.path, info); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}

// acquire locks the directory.
func (d *dir) acquire() error {
	lock, err := lockFile(d.lockPath())
	if errors.Is(err, journal.ErrLocked) { // perhaps by InUse in another process
		time.Sleep(lookTime)
		lock, err = lockFile(d.lockPath())
	}
	if errors.Is(err, journal.ErrLocked) {
		return fmt.Errorf("event log: %w: another mcptrack%s uses %s; stop that process, or use another data directory", journal.ErrLocked, d.holder(), d.path)
	} else if err != nil {
		return fmt.Errorf("event log: lock %s: %w", d.path, err)
	}
	d.lock, d.seen = lock, readMark(lock)
	d.mark(d.seen)
	return nil
}

// lockSize is the length of the lock file: a line with the process, for people and the message
// above, a line with the id of an event, and spaces.
const lockSize = 64

// mark writes a mark into the lock file, in one write that a kill cannot tear. The mark is not
// synced: after a power cut it may be older than the file, which proves less but nothing wrong. The
// same is true of the previous mark after a failed write.
func (d *dir) mark(m mark) {
	b := fmt.Appendf(make([]byte, 0, lockSize), "%d\n", os.Getpid())
	if m.epoch != "" {
		b = fmt.Appendln(b, event.FormatID(m.epoch, uint64(m.last)))
	}
	for len(b) < lockSize {
		b = append(b, ' ')
	}
	_, _ = d.lock.WriteAt(b[:lockSize], 0)
}

// readMark returns the mark in a lock, the zero mark if it has none.
func readMark(lock *os.File) mark {
	b := make([]byte, lockSize)
	n, _ := lock.ReadAt(b, 0)
	_, id, _ := strings.Cut(string(b[:n]), "\n")
	epoch, seq, err := event.ParseID(strings.TrimSpace(id))
	if err != nil || seq > maxMark {
		return mark{}
	}
	return mark{epoch, int64(seq)}
}

// maxMark is the largest number that is believed, because numbers continue after it.
const maxMark = 1 << 53

// lookTime is longer than InUse holds the lock.
const lookTime = 50 * time.Millisecond

// InUse reports whether a process is writing the log in the directory.
func InUse(path string) bool { return isLocked((&dir{path: path}).lockPath()) }

// locked reports whether the lock of this process is still the lock file of the directory.
func (d *dir) locked() bool {
	is, err := os.Lstat(d.lockPath())
	if err != nil {
		return !gone(err)
	}
	was, err := d.lock.Stat()
	return err == nil && os.SameFile(was, is)
}

// reacquire creates and locks the directory again if the directory or its lock file was deleted or
// replaced. Otherwise another process would get the lock.
func (d *dir) reacquire() error {
	if d.locked() {
		return nil
	}
	old := d.lock
	if err := d.make(); err != nil {
		return err
	}
	return unlockFile(old)
}

// file returns the path of the SQLite file.
func (d *dir) file() string { return filepath.Join(d.path, "events.db") }

func (d *dir) lockPath() string { return filepath.Join(d.path, "lock") }

// holder returns " (process N)", or "" if the holder of the lock is unknown.
func (d *dir) holder() string {
	f, err := os.Open(d.lockPath())
	if err != nil {
		return ""
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, 32))
	line, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.ParseUint(line, 10, 32)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (process %d)", pid)
}

// close releases the lock.
func (d *dir) close() error {
	if d.lock == nil {
		return nil
	}
	return unlockFile(d.lock)
}

// sync makes the names in the directory durable.
func (d *dir) sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	_ = f.Sync() // not every system can
	return f.Close()
}

// checkFile returns an error unless the file is a regular one that only this user may write to.
func checkFile(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("event log: %s is not a regular file", path)
	}
	if err := checkOwner(path, info); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}

// bootID identifies the current boot of the operating system; "" if it has no identifier.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
