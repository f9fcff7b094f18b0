package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gofrs/flock"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
)

// maxState limits the size of a cursor's file: 64 MiB suffice for about 300,000 resources.
const maxState = 64 << 20

// Cursor records which changes were reported, in a file that outlives the process. It is safe for
// concurrent use. A nil Cursor records nothing.
type Cursor struct {
	slot *slot
	log  *slog.Logger

	mu    sync.Mutex // guards the fields below
	state cursorState
	dirty bool // state is newer than the file
	stuck bool // the last attempt to write the file failed
}

// cursorState is the content of a cursor's file.
type cursorState struct {
	Version int                     `json:"version"`
	Servers map[string]*serverState `json:"servers,omitempty"`
	LastID  string                  `json:"lastId,omitempty"` // id of the last reported event of a feed
}

// serverState records what was reported about one server.
type serverState struct {
	Down      bool                                       `json:"down,omitempty"`
	Resources map[string]catalog.Digest                  `json:"resources,omitempty"`
	Lists     map[catalog.Kind]map[string]catalog.Digest `json:"lists,omitempty"`
}

const stateVersion = 1

// ErrNoCursor is returned for a directory that cannot store a cursor.
var ErrNoCursor = errors.New("cannot store which changes were reported")

// OpenCursor opens the cursor for a key in a directory, which it creates if necessary. The key
// identifies what is followed, and from where. Each running process with the same key has its own
// cursor: the first one that no other process holds, so the changes that its last process did not
// report are reported. The others that no process holds are dropped.
func OpenCursor(dir, key string, log *slog.Logger) (*Cursor, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCursor, err)
	}
	own, free, used, err := lockSlots(dir, key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCursor, err)
	}
	c := &Cursor{slot: own, log: log, state: cursorState{Version: stateVersion}}
	files := []string{own.file}
	for _, s := range free {
		files = append(files, s.file)
	}
	for _, file := range append(files, used...) { // a new one begins with what another process reported
		if st, ok := c.read(file); ok {
			c.state, c.dirty = st, file != own.file
			break
		}
	}
	saved := c.Save() // it logs its error; the next one tries again
	for _, s := range free {
		if saved == nil {
			_ = os.Remove(s.file)
		}
		s.unlock()
	}
	return c, nil
}

// read reads a state from a file. ok is false if the file is missing or unusable.
func (c *Cursor) read(file string) (st cursorState, ok bool) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return cursorState{}, false
	}
	if err == nil && (info.Size() > maxState || !info.Mode().IsRegular()) {
		err = errors.New("the file was not written by mcptrack")
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(file)
	}
	if err == nil {
		err = json.Unmarshal(data, &st)
	}
	if err == nil && st.Version != stateVersion {
		err = fmt.Errorf("the file has the unsupported version %d", st.Version)
	}
	if err != nil {
		c.log.Warn("cannot read which changes earlier runs reported; some changes since then may not be reported", "file", file, "err", err)
		return cursorState{}, false
	}
	for id, s := range st.Servers {
		if s == nil {
			delete(st.Servers, id)
		}
	}
	return st, true
}

// Close frees the cursor for the next process. Unsaved changes are lost.
func (c *Cursor) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slot.unlock()
}

// Stored returns what was reported, for [tracker.Options].
func (c *Cursor) Stored() journal.States {
	out := journal.States{Resources: map[journal.ResourceID]journal.State{}, Lists: map[journal.ListName]catalog.List{}}
	if c == nil {
		return out
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.state.Servers {
		if s == nil {
			continue
		}
		for uri, d := range s.Resources {
			out.Resources[journal.ResourceID{ServerID: id, URI: uri}] = journal.State{Digest: d}
		}
		for kind, list := range s.Lists {
			if list == nil {
				continue
			}
			items := make([]catalog.Item, 0, len(list))
			for key, d := range list {
				items = append(items, catalog.Item{Key: key, Digest: d})
			}
			out.Lists[journal.ListName{ServerID: id, Kind: kind}] = catalog.NewList(items)
		}
	}
	return out
}

// Report records everything in a snapshot as reported. For data that the snapshot lacks, mainly of
// unreachable servers, the cursor does not change.
func (c *Cursor) Report(snap *status.Snapshot) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range snap.Servers {
		st := &snap.Servers[i]
		if len(st.Lists) > 0 || len(st.Resources) > 0 {
			c.reportLocked(c.serverLocked(st.ID), st)
		}
	}
}

func (c *Cursor) serverLocked(id string) *serverState {
	s := c.state.Servers[id]
	if s == nil {
		s = &serverState{}
		if c.state.Servers == nil {
			c.state.Servers = map[string]*serverState{}
		}
		c.state.Servers[id], c.dirty = s, true
	}
	return s
}

func (c *Cursor) reportLocked(s *serverState, st *status.ServerStatus) {
	for kind, list := range st.Lists {
		old, known := s.Lists[kind]
		same := known && len(old) == len(list)
		now := make(map[string]catalog.Digest, len(list))
		for _, it := range list {
			now[it.Key] = it.Digest
			same = same && old[it.Key] == it.Digest
		}
		if same {
			continue
		}
		if s.Lists == nil {
			s.Lists = map[catalog.Kind]map[string]catalog.Digest{}
		}
		s.Lists[kind], c.dirty = now, true
	}
	list, listed := st.Lists[catalog.Resources]
	if !listed {
		return
	}
	now := make(map[string]catalog.Digest, len(st.Resources))
	for _, r := range st.Resources {
		switch old, known := s.Resources[r.URI]; {
		case r.Gone:
			c.dirty = c.dirty || known
		case !r.Digest.IsZero():
			now[r.URI] = r.Digest
			c.dirty = c.dirty || old != r.Digest
		case known: // its content has not been read yet
			now[r.URI] = old
		}
	}
	for uri, old := range s.Resources { // keep resources that are listed but no longer followed
		if _, followed := slices.BinarySearchFunc(st.Resources, uri, func(r status.ResourceStatus, uri string) int { return strings.Compare(r.URI, uri) }); !followed {
			if _, ok := list.Get(uri); ok {
				now[uri] = old
			}
		}
	}
	c.dirty = c.dirty || len(now) != len(s.Resources)
	s.Resources = now
}

// down reports whether a server was reported as unreachable.
func (c *Cursor) down(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state.Servers[id]
	return s != nil && s.Down
}

func (c *Cursor) setDown(id string, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.serverLocked(id); s.Down != down {
		s.Down, c.dirty = down, true
	}
}

// LastID returns the id of the last reported event of a feed, or "" if there is none.
func (c *Cursor) LastID() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.LastID
}

// SetLastID records that the events of a feed up to id were reported.
func (c *Cursor) SetLastID(id string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id != c.state.LastID {
		c.state.LastID, c.dirty = id, true
	}
}

// Save writes the file if the state has changed. It logs the first of consecutive errors; the next
// Save retries.
func (c *Cursor) Save() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty {
		return nil
	}
	data, err := json.Marshal(c.state)
	if err == nil && len(data) > maxState {
		err = errors.New("there are too many resources")
	}
	if err == nil {
		err = atomicfile.Replace(c.slot.file, 0o600, data, []byte("\n"))
	}
	switch {
	case err != nil && !c.stuck:
		c.log.Warn("cannot store which changes were reported; the next run reports them again", "err", err)
	case err == nil && c.stuck:
		c.log.Warn("reported changes can be stored again")
	}
	c.stuck, c.dirty = err != nil, err != nil
	return err
}

// maxSlots limits concurrent processes with the same key.
const maxSlots = 16

// slot is the place for one cursor: its file, and the lock that the owning process holds.
type slot struct {
	file string
	lock *flock.Flock
}

// unlock frees the slot. It keeps the lock file: if it were removed, two processes could hold the
// lock.
func (s *slot) unlock() { _ = s.lock.Close() }

// lockSlots locks a slot for this process (own) and all other unlocked slots with a cursor (free).
// used has the files of slots that other processes hold.
func lockSlots(dir, key string) (own *slot, free []*slot, used []string, err error) {
	sum := sha256.Sum256([]byte(key))
	base := filepath.Join(dir, hex.EncodeToString(sum[:12]))
	for n := range maxSlots {
		s := &slot{file: fmt.Sprintf("%s.%d.json", base, n)}
		_, missing := os.Stat(s.file)
		if own != nil && missing != nil {
			continue
		}
		s.lock = flock.New(fmt.Sprintf("%s.%d.lock", base, n), flock.SetPermissions(0o600))
		locked, lockErr := s.lock.TryLock()
		switch {
		case lockErr != nil:
			_ = s.lock.Close()
			err = errors.Join(err, lockErr)
		case !locked:
			_ = s.lock.Close()
			used = append(used, s.file)
		case own == nil:
			own = s
		default:
			free = append(free, s)
		}
	}
	if own == nil {
		if err == nil {
			err = fmt.Errorf("%d processes already report the same changes", len(used))
		}
		return nil, nil, nil, err
	}
	return own, free, used, nil
}
