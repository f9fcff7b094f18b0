//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What stands for the version of a resource: removed, new (no event says its content),
// updated by an event that another one with the digest has to follow, and lost in a gap.
const (
	unknown    = 0
	gone       = -1
	undigested = -2
	unsure     = -3
)

// at is the content of one resource of one server, or one item of one of its lists: of its
// resources by the URI, of its tools, prompts and templates by their key.
type at struct{ server, uri, list string }

func (a at) String() string { return strings.TrimPrefix(a.list+" ", " ") + a.server + " " + a.uri }

// oracle knows every version that a resource ever had, and what the lists are.
type oracle struct {
	serial atomic.Int64

	mu       sync.Mutex // guards what follows
	truth    map[at]int64
	defined  map[at]string    // since when items of lists are described as they are, as events say it
	versions map[string]int64 // by digest
}

func newOracle() *oracle {
	return &oracle{truth: map[at]int64{}, defined: map[at]string{}, versions: map[string]int64{}}
}

// next makes the next version of a resource, or of an item of a list, and returns its text. It
// is true from here on.
func (o *oracle) next(key at) string {
	v := o.serial.Add(1)
	text := fmt.Sprintf("version %d", v)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.truth[key] = v
	if key.list != "" {
		o.defined[key] = now()
		return text
	}
	o.versions[digest(key.uri, text)] = v
	key.list = "resources"
	if o.truth[key] <= 0 { // as before, if it was there
		o.truth[key] = v
	}
	return text
}

// remove notes that a resource, or an item of a list, is gone.
func (o *oracle) remove(key at) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.truth[key] = gone
	if key.list == "" {
		key.list = "resources"
		o.truth[key] = gone
	}
}

// now returns the time as events say it.
func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }

// isDefined returns since when an item of a list is described as it is.
func (o *oracle) isDefined(key at) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.defined[key]
}

// version returns the version that a digest belongs to, unknown if to none.
func (o *oracle) version(digest string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.versions[digest]
}

// of returns what is true of one server, or of all (""), by resource.
func (o *oracle) of(server string) map[at]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := map[at]int64{}
	for key, v := range o.truth {
		if server == "" || key.server == server {
			out[key] = v
		}
	}
	return out
}

// digest computes what events give as the digest of a text. It repeats the definition
// instead of calling it: what is tested does not say what is right.
func digest(uri, text string) string {
	h := sha256.New()
	for _, field := range []struct{ name, value string }{{"uri", uri}, {"mimeType", "text/plain"}, {"text", text}, {"rest", ""}} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(field.value)))
		h.Write([]byte(field.name))
		h.Write(n[:])
		h.Write([]byte(field.value))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
