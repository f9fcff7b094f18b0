//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"
	"sync"
	"time"
)

// event is the part of an event that is looked at.
type event struct {
	ID, Type, ServerID, ResourceURI, Timestamp, Cause, Digest, Mode string
	Added, Removed, Changed                                         names  // of a list
	From, To, Reason                                                string // of a gap
}

// names are the names of list items. A resource has a truth value instead.
type names []string

func (n *names) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return nil
	}
	return json.Unmarshal(data, (*[]string)(n))
}

// feed reads /events of a tracker like a client. It resumes after every end, and keeps the last event
// of every resource.
type feed struct {
	t      *tracker
	oracle *oracle
	stop   context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex // guards what follows
	lastID string
	view   *view
	counts map[string]*counts
	modes  map[string]string // the last subscription.active of a server
	polls  map[string]int    // how many of them had mode poll
	seqs   map[update]uint64 // of the updates
	newest map[at]uint64     // the last of them
	hashes map[string]uint64 // of the line of each id
	seed   maphash.Seed
}

// update is an event about a resource as a message names it.
type update struct {
	at
	timestamp string
}

// counts are the errors in the events of one server.
type counts struct{ stale, duplicated, holes, reused, gaps int } // reused are ids

// follow begins to read from the newest event on. What the tracker knows of the servers is
// the baseline.
func follow(t *tracker, o *oracle) (*feed, error) {
	f := &feed{t: t, oracle: o, ended: make(chan struct{}), view: newView(o),
		counts: map[string]*counts{}, modes: map[string]string{}, polls: map[string]int{},
		seqs: map[update]uint64{}, newest: map[at]uint64{}, hashes: map[string]uint64{}, seed: maphash.MakeSeed()}
	var status struct {
		Epoch string
		Seq   uint64
	}
	if err := t.get("/api/status", &status); err != nil {
		return nil, err
	}
	f.lastID = fmt.Sprintf("%s-%d", status.Epoch, status.Seq)
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() {
		defer close(f.ended)
		for ctx.Err() == nil {
			f.read(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return f, nil
}

func (f *feed) close() {
	f.stop()
	<-f.ended
}

// read reads one answer to its end.
func (f *feed) read(ctx context.Context) {
	f.mu.Lock()
	last := f.lastID
	f.mu.Unlock()
	p, err := f.t.events(ctx, last)
	if err != nil {
		return
	}
	defer func() { _ = p.Body.Close() }()
	for data := range dataLines(p.Body) {
		var e event
		if json.Unmarshal([]byte(data), &e) == nil {
			f.note(e, data)
		}
	}
}

// note takes an event in.
func (f *feed) note(e event, line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.counts[e.ServerID]
	if c == nil {
		c = new(counts)
		f.counts[e.ServerID] = c
	}
	switch e.Type {
	case "checkpoint", "tracker_stopped":
		return
	case "gap":
		c.gaps++
		f.view.gap(e)
		if e.ID != "" {
			f.lastID = e.ID
		}
		return
	}
	hash := maphash.String(f.seed, line)
	if was, seen := f.hashes[e.ID]; seen && was != hash {
		c.reused++
	}
	f.hashes[e.ID] = hash
	epoch, seq := cutID(e.ID)
	if lastEpoch, last := cutID(f.lastID); epoch == lastEpoch {
		switch {
		case seq <= last:
			c.duplicated++
			return
		case seq > last+1:
			c.holes++
		}
	}
	f.lastID = e.ID
	switch e.Type {
	case "subscription.active":
		f.modes[e.ServerID] = e.Mode
		if e.Mode == "poll" {
			f.polls[e.ServerID]++
		}
	case "resource.updated":
		key := at{server: e.ServerID, uri: e.ResourceURI}
		f.seqs[update{key, e.Timestamp}], f.newest[key] = seq, seq
	}
	stale, again := f.view.take(e)
	c.stale += stale
	c.duplicated += again
}

func cutID(id string) (epoch string, seq uint64) {
	epoch, n, _ := strings.Cut(id, "-")
	seq, _ = strconv.ParseUint(n, 10, 64)
	return epoch, seq
}

// wrong returns of what belongs to a server, or to all (""), what the events do not say as it is.
func (f *feed) wrong(server string) []at {
	f.mu.Lock()
	v := f.view.clone()
	f.mu.Unlock()
	return v.wrong(server, func(id string) (map[at]int64, error) { return f.t.contents(id, f.oracle) })
}

// count returns what the events of a server did wrong so far.
func (f *feed) count(server string) counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.counts[server]; c != nil {
		return *c
	}
	return counts{}
}

// mode returns how the server's changes are noticed, and how often that became poll.
func (f *feed) mode(server string) (mode string, polls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.modes[server], f.polls[server]
}

// sum returns what all events did wrong so far.
func (f *feed) sum() (sum counts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.counts {
		sum.stale += c.stale
		sum.duplicated += c.duplicated
		sum.holes += c.holes
		sum.reused += c.reused
		sum.gaps += c.gaps
	}
	return sum
}
