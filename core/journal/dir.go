package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// dir is the data directory of a log in this process: the lock, the mark and
// the store. One Journal owns it.
type dir struct {
	path string
	lock *os.File
	// markFile and marked, the mark last written to it, are used by the writer, and by Close
	// after the writer has ended.
	markFile *os.File
	marked   mark
}

// mark records how much of the log readers may have seen. Comparing it with the log shows
// whether the log was shortened or replaced.
type mark struct {
	Epoch string `json:"epoch"`
	Last  uint64 `json:"last"`
	// Durability is that of the run that wrote the mark; Boot identifies that run of the
	// operating system.
	Durability Durability `json:"durability"`
	Boot       string     `json:"boot,omitempty"`
	Clean      bool       `json:"clean"` // the run ended by Close
}

// openDir creates the directory, or, if existing is set, requires one with a store, and locks
// it.
func openDir(path string, existing bool) (*dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("journal: find the data directory: %w", err)
	}
	d := &dir{path: path}
	if existing {
		if _, err := os.Stat(d.store()); err != nil {
			return nil, fmt.Errorf("journal: look for stored events: %w", err)
		}
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("journal: create the data directory: %w", err)
	}
	if info, err := os.Lstat(path); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	} else if info.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("journal: the data directory %s is a symbolic link; specify the directory itself", path)
	} else if err := checkOwner(path, info); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if info, err := os.Lstat(d.store()); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("journal: %s is not a directory", d.store())
	} else if err == nil {
		if err := checkOwner(d.store(), info); err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
	}
	d.lock, err = lockFile(filepath.Join(path, "lock"))
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("journal: %w: another mcptrack uses %s; stop that process, or use another data directory", ErrLocked, path)
	} else if err != nil {
		return nil, fmt.Errorf("journal: lock %s: %w", path, err)
	}
	if err := os.MkdirAll(d.store(), 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: create the directory of the store: %w", err), d.close())
	}
	if d.markFile, err = openPrivate(filepath.Join(path, "mark")); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: open the file \"mark\" in the data directory: %w", err), d.close())
	}
	return d, nil
}

func (d *dir) store() string { return filepath.Join(d.path, "store") }

// close releases the lock.
func (d *dir) close() error {
	if d.markFile != nil {
		_ = d.markFile.Close()
	}
	return unlockFile(d.lock)
}

// readMark returns the zero mark when there is none that can be read.
func (d *dir) readMark() mark {
	var m mark
	b, err := io.ReadAll(io.NewSectionReader(d.markFile, 0, 16*markSize))
	if err != nil || json.Unmarshal(b, &m) != nil {
		return mark{}
	}
	return m
}

// markSize is the size of a mark, padded with spaces.
const markSize = 256

// writeMark overwrites the mark in place: it is written before every group of events becomes
// visible, which is too often to replace the file, and a write of less than a page is not torn
// if the process is killed. It is not synced: an old mark only means that less is compared.
func (d *dir) writeMark(m mark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	b = append(b, bytes.Repeat([]byte(" "), max(markSize-1-len(b), 0))...)
	if _, err := d.markFile.WriteAt(append(b, '\n'), 0); err != nil {
		return fmt.Errorf("journal: write the file \"mark\" in the data directory: %w", err)
	}
	return nil
}

// sync makes durable what a killed run left to the operating system, because this run shows it
// to readers at once.
func (d *dir) sync() error {
	return filepath.WalkDir(d.store(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// holds reports whether there is, or was, a log of that name in the store.
func (d *dir) holds(stream string) bool {
	found, err := filepath.Glob(filepath.Join(d.store(), "jetstream", "*", "streams", stream))
	return err == nil && len(found) > 0
}

// probe checks whether the disk accepts data, by writing as much as the store needs to start
// and store a little. The server is not restarted to find that out, because it leaves files
// behind every time its store fails.
func (d *dir) probe() error {
	f, err := os.CreateTemp(d.path, "probe-*")
	if err != nil {
		return fmt.Errorf("journal: cannot write to the data directory: %w", err)
	}
	_, err = f.Write(make([]byte, 256<<10))
	if err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("journal: cannot write to the data directory: %w", err)
	}
	return nil
}

// setAside moves a store that cannot be read out of the way, for somebody to
// examine, and returns where it is.
func (d *dir) setAside() (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.damaged-%d", d.store(), n)
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		return to, os.Rename(d.store(), to)
	}
}

// bootID returns an identifier of the current run of the operating system; "" if it has none.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func newEpoch() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}
