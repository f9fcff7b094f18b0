package serve

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// retold is how far back a client that opens another stream and does not say what
// it got last is told again: about as long as it may take to notice that the stream
// before was dead.
const retold = time.Minute

// told knows in which event of its GET streams a session was last told of each
// thing, so that a client whose stream broke off is told again what it may not have
// got. It holds one entry for each list and URI, and no events.
type told struct {
	mu   sync.Mutex
	last uint64 // number of the last event
	in   map[topic]telling
}

// topic is one thing to be told of: one list, or one URI.
type topic struct {
	lists subscriptions.Lists
	uri   string
}

type telling struct {
	number uint64
	at     time.Time
}

// next is the id of the event that tells of one thing.
func (t *told) next(what subscriptions.Batch) string {
	key := topic{lists: what.Lists}
	if len(what.URIs) > 0 {
		key.uri = what.URIs[0]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.in == nil {
		t.in = make(map[topic]telling)
	}
	t.last++
	t.in[key] = telling{t.last, time.Now()}
	return strconv.FormatUint(t.last, 10)
}

// begin is the id of an event that tells of nothing: what comes after it is newer
// than all that was told.
func (t *told) begin() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	return strconv.FormatUint(t.last, 10)
}

// forget is for a URI that is not subscribed any more.
func (t *told) forget(uri string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.in, topic{uri: uri})
}

// after is what was told after the event of the id, in that order; for an id that is
// not one of ours, what was told not long ago.
func (t *told) after(id string) (b subscriptions.Batch) {
	from, err := strconv.ParseUint(id, 10, 64)
	t.mu.Lock()
	defer t.mu.Unlock()
	known := err == nil && from <= t.last
	var again []topic
	for what, e := range t.in {
		if known && e.number > from || !known && time.Since(e.at) < retold {
			again = append(again, what)
		}
	}
	slices.SortFunc(again, func(a, b topic) int { return cmp.Compare(t.in[a].number, t.in[b].number) })
	for _, what := range again {
		if what.uri != "" {
			b.URIs = append(b.URIs, what.uri)
			continue
		}
		b.Lists.Tools = b.Lists.Tools || what.lists.Tools
		b.Lists.Prompts = b.Lists.Prompts || what.lists.Prompts
		b.Lists.Resources = b.Lists.Resources || what.lists.Resources
	}
	return b
}
