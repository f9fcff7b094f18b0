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

// dir is the data directory of a log. Only one Log at a time may own it.
type dir struct {
	path string
	lock *os.File // lock file; nil if the log is only read
	seen mark     // mark in the lock file when it was locked
}

// mark identifies the last event that was stored, and is written to the lock file. At the next
// start it reveals that a file has lost events although it looks intact, because its WAL was lost
// in a crash or an older copy replaced the file. The zero mark means that the last event is
// unknown.
type mark struct {
	epoch string
	last  int64
}

// openDir checks the data directory. Unless existing is set, it also creates the directory if
// necessary and locks it.
func openDir(path string, existing bool) (*dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("event log: resolve the path of the data directory: %w", err)
	}
	d := &dir{path: path}
	if existing {
		if _, err := os.Lstat(d.file()); err != nil {
			return nil, fmt.Errorf("event log: find events.db: %w", err)
		}
		return d, d.check()
	}
	return d, d.make()
}

// make creates the directory if necessary and locks it.
func (d *dir) make() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return fmt.Errorf("event log: create the data directory: %w", err)
	}
	if err := d.check(); err != nil {
		return err
	}
	return d.acquire()
}

// check returns an error unless the path is a directory to which only the current user may write.
func (d *dir) check() error {
	info, err := os.Lstat(d.path)
	switch {
	case err != nil:
		return fmt.Errorf("event log: find the data directory: %w", err)
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("event log: the data directory %s is a symbolic link; specify the directory to which it points", d.path)
	case !info.IsDir():
		return fmt.Errorf("event log: %s is not a directory", d.path)
	}
	if err := checkOwner(d.path, info); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}

// acquire locks the directory and reads the mark. It returns an error that matches
// [journal.ErrLocked] if another process holds the lock.
func (d *dir) acquire() error {
	lock, err := lockFile(d.lockPath())
	if errors.Is(err, journal.ErrLocked) { // InUse in another process may hold it briefly, so try again
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

// lockSize is the length of the lock file, in bytes. The file contains a line with the process id,
// which is used in error messages, a line with the id of the last event, and padding with spaces.
const lockSize = 64

// mark writes m to the lock file in a single write, so that a kill cannot leave a partial mark. The
// mark is not synced. After a power failure or a failed write, the lock file may therefore contain
// an older mark than the database; in that case it detects fewer losses, but causes no false alarm.
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

// readMark reads the mark from a lock file. It returns the zero mark if there is none.
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

// maxMark is the largest event number that is accepted as valid. A larger number must be the result
// of damage; if it were accepted, numbering would continue after it.
const maxMark = 1 << 53

// lookTime is longer than the time for which InUse holds the lock.
const lookTime = 50 * time.Millisecond

// InUse reports whether some process is writing to the log in the directory.
func InUse(path string) bool { return isLocked((&dir{path: path}).lockPath()) }

// locked reports whether the file that this process has locked is still the lock file in the
// directory.
func (d *dir) locked() bool {
	is, err := os.Lstat(d.lockPath())
	if err != nil {
		return !gone(err)
	}
	was, err := d.lock.Stat()
	return err == nil && os.SameFile(was, is)
}

// reacquire creates and locks the directory again if the directory or its lock file was deleted or
// replaced. Without that, another process could acquire the lock at the same time.
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

func (d *dir) file() string { return filepath.Join(d.path, "events.db") }

func (d *dir) recordsFile() string { return filepath.Join(d.path, "deliveries.json") }

func (d *dir) lockPath() string { return filepath.Join(d.path, "lock") }

// holder returns " (process N)" for the process that holds the lock, or an empty string if that is
// unknown.
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

func (d *dir) close() error {
	if d.lock == nil {
		return nil
	}
	return unlockFile(d.lock)
}

// sync makes the creation, renaming and removal of files in the directory durable.
func (d *dir) sync() error {
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	_ = f.Sync() // not every operating system can sync a directory
	return f.Close()
}

// checkFile returns an error unless the file is a regular file to which only the current user may
// write.
func checkFile(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("event log: %s is not a regular file", path)
	}
	if err := checkOwner(path, info); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}

// bootID returns an id of the current boot of the operating system, or an empty string if the
// system provides none.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
