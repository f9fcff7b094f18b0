package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// maxSlots bounds the cursors of processes that run at the same time with the same key.
const maxSlots = 16

// slot is one place for a cursor: its file, and the lock that its process holds.
type slot struct {
	file string
	lock *flock.Flock
}

// unlock frees the slot. It keeps the lock file: after removing it, two processes could hold
// the lock.
func (s *slot) unlock() { _ = s.lock.Close() }

// lockSlots locks the first free slot of a key for this process (own), and all other free slots
// that have a cursor. used are the files of slots that other processes hold.
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
			err = fmt.Errorf("%d other processes already report the same changes", len(used))
		}
		return nil, nil, nil, err
	}
	return own, free, used, nil
}

// differs returns the digest for items on which cursors disagree: no content has it, so the
// item will be reported as changed.
func differs() (d catalog.Digest) {
	for i := range d {
		d[i] = 0xff
	}
	return d
}

// merge merges at least one state: the result records as reported only what all of them do.
func merge(states []state) state {
	out := states[0]
	for _, st := range states[1:] {
		if out.LastID != st.LastID {
			out.LastID = earlier(out.LastID, st.LastID)
		}
		for id, s := range st.Servers {
			if out.Servers == nil {
				out.Servers = map[string]*server{}
			}
			if mine := out.Servers[id]; mine != nil {
				mine.merge(s)
			} else {
				out.Servers[id] = s
			}
		}
	}
	return out
}

func (s *server) merge(other *server) {
	s.Down = s.Down && other.Down
	s.Resources = mergeDigests(s.Resources, other.Resources, false)
	for kind, list := range other.Lists {
		if mine, known := s.Lists[kind]; known {
			s.Lists[kind] = mergeDigests(mine, list, true)
			continue
		}
		if s.Lists == nil {
			s.Lists = map[catalog.Kind]map[string]catalog.Digest{}
		}
		s.Lists[kind] = list
	}
}

// mergeDigests merges the digests of two cursors. In a list, an item that only one of them has
// was added or removed without a report by the other.
func mergeDigests(a, b map[string]catalog.Digest, isList bool) map[string]catalog.Digest {
	out := make(map[string]catalog.Digest, len(a))
	for key, d := range a {
		if other, both := b[key]; both && other != d || !both && isList {
			d = differs()
		}
		out[key] = d
	}
	for key, d := range b {
		if _, both := a[key]; both {
			continue
		}
		if isList {
			d = differs()
		}
		out[key] = d
	}
	return out
}

// earlier returns that of two ids which comes first in the feed.
func earlier(a, b string) string {
	epochA, seqA, errA := event.ParseID(a)
	epochB, seqB, errB := event.ParseID(b)
	if errA != nil || errB == nil && epochA == epochB && seqB < seqA {
		return b
	}
	return a
}
