package journal

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// dir is the data directory of a log in this process: the lock, the mark and
// the store. It belongs to one Journal.
type dir struct {
	path string
	lock *os.File
	// marked is what was written last; the keeper's, and Close's after it.
	marked mark
}

// mark is what was true of the log when somebody last wrote it down. It is how
// a log is recognised that came back shorter, or not at all.
type mark struct {
	Epoch string `json:"epoch"`
	Last  uint64 `json:"last"` // was shown to readers
	// Durability is that of the run which wrote it, Boot the operating system's.
	Durability Durability `json:"durability"`
	Boot       string     `json:"boot,omitempty"`
	Clean      bool       `json:"clean"` // the run ended by Close
}

// openDir makes the directory, unless one with a store has to be there already, and
// locks it.
func openDir(path string, existing bool) (*dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	d := &dir{path: path}
	if existing {
		if _, err := os.Stat(d.store()); err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("journal: make the data directory: %w", err)
	}
	if info, err := os.Lstat(path); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	} else if info.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("journal: the data directory %s is a symbolic link; name the directory itself", path)
	}
	if info, err := os.Lstat(d.store()); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("journal: %s is no directory", d.store())
	}
	d.lock, err = lockFile(filepath.Join(path, "lock"))
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("journal: %w: another mcptrack has %s; stop it, or use another data directory", ErrLocked, path)
	} else if err != nil {
		return nil, fmt.Errorf("journal: lock %s: %w", path, err)
	}
	if err := os.MkdirAll(d.store(), 0o700); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: make the store: %w", err), d.close())
	}
	return d, nil
}

func (d *dir) store() string { return filepath.Join(d.path, "store") }

// close gives the lock back.
func (d *dir) close() error { return unlockFile(d.lock) }

// readMark returns the zero mark when there is none that can be read.
func (d *dir) readMark() mark {
	var m mark
	b, err := os.ReadFile(filepath.Join(d.path, "mark"))
	if err != nil || json.Unmarshal(b, &m) != nil {
		return mark{}
	}
	return m
}

// writeMark replaces the mark as one step. It is only as durable as the system
// makes it: a lost mark means less to compare with, not a wrong answer.
func (d *dir) writeMark(m mark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	tmp := filepath.Join(d.path, "mark.new")
	if err := os.WriteFile(tmp, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("journal: write the mark: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(d.path, "mark")); err != nil {
		return fmt.Errorf("journal: write the mark: %w", err)
	}
	return nil
}

// sync makes durable what a run that was killed left to the operating system:
// the next run shows it to readers at once.
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

// probe finds out whether the disk takes data, with as much as starting the
// store and storing a little needs. The server leaves something behind every
// time its store fails, so it is not restarted to find out.
func (d *dir) probe() error {
	f, err := os.CreateTemp(d.path, "probe-*")
	if err != nil {
		return fmt.Errorf("journal: the disk takes no data: %w", err)
	}
	_, err = f.Write(make([]byte, 256<<10))
	if err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
		return fmt.Errorf("journal: the disk takes no data: %w", err)
	}
	return nil
}

// setAside moves a store that cannot be read out of the way, for somebody to
// look into, and returns where it is.
func (d *dir) setAside() (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.damaged-%d", d.store(), n)
		if _, err := os.Lstat(to); err == nil {
			continue
		}
		return to, os.Rename(d.store(), to)
	}
}

// bootID names the run of the operating system; "" where it has no name.
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
