package hook

import (
	"crypto/sha256"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

const (
	// atLeast is how long every message is remembered: one whose time is at the end of the tolerance
	// is valid for twice as long.
	atLeast = 2 * standardwebhooks.Tolerance
	// unsignedTime is how long messages of GitHub, which signs no time, are remembered if there is room.
	// Messages of hmac are not: unlike messages of GitHub, two of them may be equal.
	unsignedTime = 24 * time.Hour
	// maxRemembered is the maximum number of keys; a message has up to two.
	maxRemembered = 40_000
)

// A key identifies a message: the hash of its id, or of what was signed.
type key [sha256.Size]byte

// keysOf returns the keys of a message.
func keysOf(c *claim, id string, body []byte) []key {
	h := sha256.New()
	_, _ = h.Write([]byte("signed\x00" + c.prefix)) // never fails
	_, _ = h.Write(body)
	keys := []key{key(h.Sum(nil))}
	if id != "" {
		keys = append(keys, sha256.Sum256([]byte("id\x00"+id)))
	}
	return keys
}

// memory remembers the messages that were accepted. It is not safe for concurrent use.
type memory struct {
	known map[key]struct{}
	order []remembered // oldest first
}

type remembered struct {
	key   key
	since time.Time
	until time.Time // when it is forgotten although there is room
}

// knows reports whether a message with one of the keys was accepted.
func (m *memory) knows(keys []key, now time.Time) bool {
	m.forget(now, 0)
	for _, k := range keys {
		if _, ok := m.known[k]; ok {
			return true
		}
	}
	return false
}

// add remembers a message. It returns false if there is no room.
func (m *memory) add(keys []key, v config.HookScheme, now time.Time) bool {
	if m.forget(now, len(keys)); len(m.order)+len(keys) > maxRemembered {
		return false
	}
	until := now.Add(atLeast)
	if v == config.HookGitHub {
		until = now.Add(unsignedTime)
	}
	if m.known == nil {
		m.known = map[key]struct{}{}
	}
	for _, k := range keys {
		m.known[k] = struct{}{}
		m.order = append(m.order, remembered{k, now, until})
	}
	return true
}

// forget forgets the messages that need not be remembered, and others, as far as allowed, to make room.
func (m *memory) forget(now time.Time, room int) {
	n := 0
	for _, r := range m.order {
		full := len(m.order)-n+room > maxRemembered
		if now.Before(r.until) && !(full && now.Sub(r.since) >= atLeast) {
			break
		}
		delete(m.known, r.key)
		n++
	}
	m.order = m.order[n:]
}

// wait returns how long it takes until there is room.
func (m *memory) wait(now time.Time) time.Duration {
	if len(m.order) == 0 {
		return 0
	}
	return m.order[0].since.Add(atLeast).Sub(now)
}
