package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/status"
)

// maxState bounds the file of a cursor, in bytes: about 300,000 resources.
const maxState = 64 << 20

// Cursor records what has been reported, in a file that is kept from run to run. Its methods
// are safe for concurrent use. With a nil Cursor nothing is recorded.
type Cursor struct {
	slot *slot
	log  *slog.Logger

	mu    sync.Mutex // guards all below
	state state
	dirty bool // the file is not up to date
	stuck bool // the last attempt to write the file failed
	// merged are the slots of processes that have ended, whose cursors were merged into state:
	// they are freed once state is stored.
	merged []*slot
}

// state is the content of the file.
type state struct {
	Version int                `json:"version"`
	Servers map[string]*server `json:"servers,omitempty"`
	// LastID is that of the last event of a feed.
	LastID string `json:"lastId,omitempty"`
}

// server is what has been reported about one server.
type server struct {
	Down      bool                                       `json:"down,omitempty"`
	Resources map[string]catalog.Digest                  `json:"resources,omitempty"`
	Lists     map[catalog.Kind]map[string]catalog.Digest `json:"lists,omitempty"`
}

const stateVersion = 1

// ErrNoCursor is the error for a folder that cannot hold a cursor.
var ErrNoCursor = errors.New("cannot store which changes were reported")

// OpenCursor opens the cursor for a key, which identifies what is followed and from where, in a
// directory that is created if necessary. Other running processes with the same key have
// cursors of their own; changes that processes which have ended did not report are reported
// from this cursor.
func OpenCursor(dir, key string, log *slog.Logger) (*Cursor, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCursor, err)
	}
	own, free, used, err := lockSlots(dir, key)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoCursor, err)
	}
	c := &Cursor{slot: own, log: log, state: state{Version: stateVersion}, merged: free}
	var states []state
	for _, s := range append([]*slot{own}, free...) {
		if st, ok := c.read(s.file); ok {
			states = append(states, st)
		}
	}
	if len(states) == 0 {
		for _, s := range used { // begin with a copy of their cursors
			if st, ok := c.read(s); ok {
				states, c.dirty = append(states, st), true
				break
			}
		}
	}
	if len(states) > 0 {
		c.state = merge(states)
	}
	c.dirty = c.dirty || len(free) > 0
	_ = c.Save() // Save logs its error and tries again later
	return c, nil
}

// read reads a state from a file; ok is false if there is no usable file.
func (c *Cursor) read(file string) (st state, ok bool) {
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, false
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
		c.log.Warn("cannot read which changes were reported before; some changes since the last run may not be reported", "file", file, "err", err)
		return state{}, false
	}
	for id, s := range st.Servers {
		if s == nil {
			delete(st.Servers, id)
		}
	}
	return st, true
}

// Close releases the cursor for the next process. What was not saved is lost.
func (c *Cursor) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range append(c.merged, c.slot) {
		s.unlock()
	}
	c.merged = nil
}

// Baseline returns the reported digest of a resource, for [tracker.Options].
func (c *Cursor) Baseline(id, uri string) catalog.Digest {
	if c == nil {
		return catalog.Digest{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.state.Servers[id]; s != nil {
		return s.Resources[uri]
	}
	return catalog.Digest{}
}

// BaselineList returns a reported list, for [tracker.Options].
func (c *Cursor) BaselineList(id string, k catalog.Kind) (catalog.List, bool) {
	if c == nil {
		return nil, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state.Servers[id]
	if s == nil || s.Lists[k] == nil {
		return nil, false
	}
	items := make([]catalog.Item, 0, len(s.Lists[k]))
	for key, d := range s.Lists[k] {
		items = append(items, catalog.Item{Key: key, Digest: d})
	}
	return catalog.NewList(items), true
}

// Report records everything in a snapshot as reported. Where the snapshot has no data, mainly
// for servers that were not reached, the cursor stays as it was.
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

func (c *Cursor) serverLocked(id string) *server {
	s := c.state.Servers[id]
	if s == nil {
		s = &server{}
		if c.state.Servers == nil {
			c.state.Servers = map[string]*server{}
		}
		c.state.Servers[id], c.dirty = s, true
	}
	return s
}

func (c *Cursor) reportLocked(s *server, st *status.ServerStatus) {
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
	for uri, old := range s.Resources { // keep resources that are listed but not followed now
		if _, followed := slices.BinarySearchFunc(st.Resources, uri, byURI); !followed {
			if _, ok := list.Get(uri); ok {
				now[uri] = old
			}
		}
	}
	c.dirty = c.dirty || len(now) != len(s.Resources)
	s.Resources = now
}

func byURI(r status.ResourceStatus, uri string) int { return strings.Compare(r.URI, uri) }

// down reports whether it was reported that a server cannot be reached.
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

// LastID returns the id of the last event of a feed that was reported, "" if there is none.
func (c *Cursor) LastID() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.LastID
}

// SetLastID records that a feed was reported up to the event with the id.
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

// Save writes the file if the state has changed. An error is logged when failures begin; the
// next Save tries again.
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
		c.log.Warn("reported changes are stored again")
	}
	c.stuck, c.dirty = err != nil, err != nil
	for ; err == nil && len(c.merged) > 0; c.merged = c.merged[1:] {
		_ = os.Remove(c.merged[0].file)
		c.merged[0].unlock()
	}
	return err
}
