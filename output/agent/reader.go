package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/mcptrack/mcptrack/core/atomicfile"
)

// Reader stores which events of a log were reported, in a file that outlives the process. It is not safe for
// concurrent use. A nil Reader stores nothing.
type Reader struct {
	file  string
	lock  *flock.Flock
	log   *slog.Logger
	state readerState
	dirty bool // state is newer than the file
	stuck bool // the last attempt to write the file failed
}

// readerState is the content of a reader's file.
type readerState struct {
	ID   string          `json:"id"`             // of the last reported event; empty if there is none
	Down map[string]bool `json:"down,omitempty"` // the servers that were reported as unreachable
}

// ErrNoReader is returned for a directory that cannot store a reader.
var ErrNoReader = errors.New("cannot store which changes were reported")

const (
	maxReaders = 16      // processes that follow one log at the same time
	maxState   = 1 << 20 // bytes of a reader's file
)

// OpenReader opens a reader in a directory, which it creates if necessary. Each running process has its own:
// the first one that no other process holds. It drops the others that no process holds. A new reader begins
// where another one is.
func OpenReader(dir string, log *slog.Logger) (*Reader, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoReader, err)
	}
	var own *Reader
	var free []*Reader
	var another readerState
	var failed error
	for n := range maxReaders {
		r := &Reader{file: filepath.Join(dir, fmt.Sprintf("reader-%d.json", n)), log: log}
		known := r.read()
		if own != nil && !known {
			continue
		}
		r.lock = flock.New(r.file+".lock", flock.SetPermissions(0o600))
		locked, err := r.lock.TryLock()
		switch failed = errors.Join(failed, err); {
		case locked && own == nil:
			own = r
			continue
		case locked:
			free = append(free, r)
		default:
			r.Close()
		}
		if another.ID == "" {
			another = r.state
		}
	}
	if own == nil {
		if failed == nil {
			failed = fmt.Errorf("%d processes already report the same changes", maxReaders)
		}
		return nil, fmt.Errorf("%w: %w", ErrNoReader, failed)
	}
	if own.state.ID == "" {
		own.state, own.dirty = another, another.ID != ""
	}
	own.save()
	for _, r := range free {
		if !own.stuck {
			_ = os.Remove(r.file)
		}
		r.Close()
	}
	return own, nil
}

// read reads the state from the file. It returns false if the file is missing or unusable.
func (r *Reader) read() bool {
	info, err := os.Stat(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err == nil && (info.Size() > maxState || !info.Mode().IsRegular()) {
		err = errors.New("the file was not written by mcptrack")
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(r.file)
	}
	if err == nil {
		err = json.Unmarshal(data, &r.state)
	}
	if err != nil {
		r.state = readerState{}
		r.log.Warn("cannot read which changes earlier runs reported; some changes since then may not be reported", "file", r.file, "err", err)
	}
	return err == nil
}

// Close frees the reader for the next process. It keeps the lock file: if it were removed, two processes could
// hold the lock.
func (r *Reader) Close() {
	if r != nil {
		_ = r.lock.Close()
	}
}

// ID returns the id of the last reported event, or "" if there is none.
func (r *Reader) ID() string {
	if r == nil {
		return ""
	}
	return r.state.ID
}

// reported records that the events up to id were reported, and which servers were reported as unreachable. If
// this cannot be stored, it logs the first of consecutive errors; the next call tries again.
func (r *Reader) reported(id string, down map[string]bool) {
	if r == nil {
		return
	}
	if id != "" && id != r.state.ID || !maps.Equal(down, r.state.Down) {
		r.state, r.dirty = readerState{cmp.Or(id, r.state.ID), maps.Clone(down)}, true
	}
	r.save()
}

func (r *Reader) save() {
	if !r.dirty {
		return
	}
	data, err := json.Marshal(r.state)
	if err == nil {
		err = atomicfile.Replace(r.file, 0o600, data, []byte("\n"))
	}
	switch {
	case err != nil && !r.stuck:
		r.log.Warn("cannot store which changes were reported; the next run reports them again", "err", err)
	case err == nil && r.stuck:
		r.log.Warn("reported changes can be stored again")
	}
	r.stuck, r.dirty = err != nil, err != nil
}
