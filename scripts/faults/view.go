//go:build linux

package main

import (
	"cmp"
	"maps"
	"strings"
)

// view is what a client knows from the events that it was sent: of every resource the version of
// its content, and of every item of a list whether it is there.
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

// take takes an event in. It returns how much of it is older than what was known, and how much
// says again what was known.
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

// gap notes that events are lost: what they said is known only when it is said again.
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
