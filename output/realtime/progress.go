package realtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/event"
)

// Progress describes which part of a log a session has handled, so that the next run of the program
// can resume: all events up to Cursor, and the later updates in Newest. A message that was rejected or
// abandoned counts as handled.
type Progress struct {
	Cursor string `json:"cursor"`
	// Newest maps each resource with handled updates after the cursor to the number of its newest
	// handled update, which covers older ones. The keys are hashes of server and URI.
	Newest map[string]uint64 `json:"newest,omitempty"`
}

// maxNewest limits the number of entries in Progress.Newest.
const maxNewest = 4096

// handledUpdates records which updates were handled, for one epoch of the log (see
// [event.ParseID]). The zero value is ready to use. The owner's lock must be held.
type handledUpdates struct {
	epoch  string
	newest map[string]uint64
}

func newHandledUpdates(p Progress) handledUpdates {
	epoch, _, err := event.ParseID(p.Cursor)
	if err != nil {
		return handledUpdates{}
	}
	return handledUpdates{epoch, maps.Clone(p.Newest)}
}

func (k key) hash() string { return strings.TrimPrefix(hashID(k.server, k.uri), itemPrefix) }

// covers reports whether a message, or a newer one for its resource, was handled.
func (p *handledUpdates) covers(m *Message) bool {
	if len(p.newest) == 0 {
		return false
	}
	epoch, seq, err := event.ParseID(m.EventID)
	if err != nil || epoch != p.epoch {
		return false
	}
	newest, ok := p.newest[m.key().hash()]
	return ok && seq <= newest
}

func (p *handledUpdates) add(m *Message) {
	epoch, seq, err := event.ParseID(m.EventID)
	if err != nil {
		return
	}
	if epoch != p.epoch || p.newest == nil {
		p.epoch, p.newest = epoch, map[string]uint64{}
	}
	h := m.key().hash()
	p.newest[h] = max(p.newest[h], seq)
}

// upTo removes the updates that the cursor covers, and returns the progress.
func (p *handledUpdates) upTo(cursor string) Progress {
	epoch, last, err := event.ParseID(cursor)
	if err != nil {
		clear(p.newest)
		return Progress{}
	}
	maps.DeleteFunc(p.newest, func(_ string, seq uint64) bool { return epoch != p.epoch || seq <= last })
	for h := range p.newest { // any, because this is rare: the next run then repeats it
		if len(p.newest) <= maxNewest {
			break
		}
		delete(p.newest, h)
	}
	return Progress{Cursor: cursor, Newest: maps.Clone(p.newest)}
}

// maxProgress limits the size of a progress file in bytes.
const maxProgress = 1 << 20

// ProgressFile stores the [Progress] of a session for the next run of the program. The zero value
// stores nothing. Save is safe for concurrent use.
type ProgressFile struct {
	Begin Progress // of the last run; the zero value if there was none

	path  string
	mu    sync.Mutex // guards the fields below, and serializes writes
	saved []byte     // current content of the file
	last  time.Time  // when the file was last known to be up to date
}

// OpenProgress reads the progress file of the last run, if it exists.
func OpenProgress(path string) (*ProgressFile, error) {
	f := &ProgressFile{path: path}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxProgress) {
		return nil, fmt.Errorf("%s is not a progress file", path)
	}
	if err == nil {
		f.saved, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the progress of the last run: %w", err)
	}
	if err := json.Unmarshal(f.saved, &f.Begin); err != nil {
		return nil, fmt.Errorf("%s is damaged; remove the file to start with new updates", path)
	}
	return f, nil
}

// Save writes the progress to the file, with mode 0600. It does nothing if less than every has
// passed since the last write, or if nothing was handled yet.
func (f *ProgressFile) Save(progress func() Progress, every time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" || time.Since(f.last) < every {
		return nil
	}
	p := progress()
	if p.Cursor == "" {
		return nil
	}
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	f.last = time.Now()
	if bytes.Equal(data, f.saved) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(f.path, 0o600, data); err != nil {
		return err
	}
	f.saved = data
	return nil
}
