//go:build linux

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
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

// oracle knows every version of every resource, and the current lists.
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

// view is what a client knows from the events it received: the version of every resource, and
// whether every list item exists.
type view struct {
	oracle *oracle
	last   map[at]int64  // what the last event says
	named  map[at]string // the timestamp of the last event that named an item of a list
	began  string        // what was so then is known without an event
	before string        // events with an older timestamp are sent again
}

// newView returns the view of a client that knows all that is true now.
func newView(o *oracle) *view {
	return &view{oracle: o, last: o.of(""), named: map[at]string{}, began: now()}
}

func (v *view) clone() *view {
	c := *v
	c.last, c.named = maps.Clone(v.last), maps.Clone(v.named)
	return &c
}

// take applies an event. It returns how many of its facts are older than the view, and how many
// repeat it.
func (v *view) take(e event) (stale, again int) {
	key := at{server: e.ServerID, uri: e.ResourceURI}
	was, seen := v.last[key]
	switch list, isList := strings.CutSuffix(e.Type, ".list_changed"); {
	case isList:
		for _, name := range e.Added {
			again += v.item(at{e.ServerID, name, list}, unknown, e)
		}
		for _, name := range e.Removed {
			again += v.item(at{e.ServerID, name, list}, gone, e)
		}
		for _, name := range e.Changed {
			v.item(at{e.ServerID, name, list}, unknown, e)
		}
	case e.Type == "resource.updated":
		now := v.oracle.version(e.Digest)
		switch {
		case e.Digest == "":
			now = undigested // another event follows
		case now == unknown, e.Timestamp < v.before:
		case was > now:
			stale++
		case was == now && e.Cause != "notify" && e.Cause != "trailing":
			again++
		}
		v.last[key] = now
	case e.Type == "resource.removed":
		if was == gone && e.Timestamp >= v.before {
			again++
		}
		v.last[key] = gone
	case e.Type == "resource.added":
		if seen && was != gone && e.Timestamp >= v.before {
			again++
		}
		if !seen || was <= gone {
			v.last[key] = unknown
		}
	}
	return stale, again
}

// item notes that an item of a list is gone or there, and reports whether that was known.
func (v *view) item(key at, now int64, e event) (again int) {
	was, seen := v.last[key]
	if seen && was != unsure && (was == gone) == (now == gone) && e.Timestamp >= v.before {
		again = 1
	}
	v.last[key], v.named[key] = now, e.Timestamp
	return again
}

// gap forgets what the view knew: it must be sent again.
func (v *view) gap(e event) {
	clear(v.last)
	for key := range v.oracle.of("") {
		if key.list != "" {
			v.last[key] = unsure
		}
	}
	if e.Reason == "epoch" || e.Reason == "ahead" {
		v.before = now() // that log is sent from its beginning
	}
}

// wrong returns of what belongs to a server, or to all (""), what the view does not show as it is.
// What no event says the content of (a new resource) is what the tracker answers.
func (v *view) wrong(server string, contents func(server string) (map[at]int64, error)) (out []at) {
	known := map[string]map[at]int64{} // by server
	for key, want := range v.oracle.of(server) {
		got, seen := v.last[key]
		if key.list != "" {
			if got == unsure || !seen && want == gone { // it came and went between two lists
				continue
			}
			if !seen || (got == gone) != (want == gone) || want != gone && cmp.Or(v.named[key], v.began) < v.oracle.isDefined(key) {
				out = append(out, key)
			}
			continue
		}
		if got == unknown {
			if known[key.server] == nil {
				known[key.server], _ = contents(key.server)
			}
			version, listed := known[key.server][key]
			if got = version; !listed && !seen && known[key.server] != nil {
				got = gone // as above
			}
		}
		if got != want {
			out = append(out, key)
		}
	}
	return out
}
