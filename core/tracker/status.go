package tracker

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// Snapshot is what the tracker knew at one point in the order of events. It does not
// change any more.
type Snapshot struct {
	Epoch   string
	Seq     uint64         // of the last event that is part of it
	Servers []ServerStatus // sorted by ID
}

// Server finds the status of a server.
func (s *Snapshot) Server(id string) (ServerStatus, bool) {
	i, ok := slices.BinarySearchFunc(s.Servers, id, func(st ServerStatus, id string) int { return strings.Compare(st.ID, id) })
	if !ok {
		return ServerStatus{}, false
	}
	return s.Servers[i], true
}

// LastAfter returns the last event of every resource that had one after the given
// number, oldest first: what a consumer that was cut off goes on with.
func (s *Snapshot) LastAfter(seq uint64) []*event.Event {
	var last []*event.Event
	for _, srv := range s.Servers {
		for _, r := range srv.Resources {
			if r.Last != nil && r.Last.Seq > seq {
				last = append(last, r.Last)
			}
		}
	}
	slices.SortFunc(last, func(a, b *event.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return last
}

// ServerStatus is what is known of one server.
type ServerStatus struct {
	ID        string
	Transport config.Transport
	State     event.State
	Since     time.Time // when State began
	Reason    string
	Error     string    // of the last failure, one printable line; "" once Ready
	Attempt   int       // failures in a row
	NextRetry time.Time // zero unless waiting for it

	// Info is what the last session said of the server; zero before the first.
	Info session.Info
	Mode event.Mode // how changes of resources are noticed; "" while they are not
	// Missing are the tracked URIs whose updates the server does not push.
	Missing []string
	// Lists are the last known lists. They outlive sessions.
	Lists map[catalog.Kind]catalog.List
	// Resources are the tracked ones, sorted by URI.
	Resources []ResourceStatus
	// EventCursors say where the subscriptions to events of the server (MCP Events) go on,
	// by their keys. The map is replaced, not changed.
	EventCursors map[string]string
	Counts       Counts
}

// ResourceStatus is what is known of one tracked resource.
type ResourceStatus struct {
	URI      string
	Digest   catalog.Digest // of the content published last; zero if not known
	Size     int64
	MimeType string
	Text     *string      // nil unless Options.Texts is set and the content is text
	Gone     bool         // the server says that there is no such resource
	Last     *event.Event // the last event about it; nil before the first
}

// Counts are sums over the life of the worker. Each of the Signals is counted once more, as
// Led, Folded or Unknown.
type Counts struct {
	Signals   uint64            // notifications about resources that were received
	Led       uint64            // that opened a window
	Folded    uint64            // that fell into a window or came together with others
	Unknown   uint64            // about resources that are not tracked
	Published uint64            // events about resource content
	Unchanged uint64            // reads that found the content published last
	Failed    uint64            // reads of resources that failed
	Failures  uint64            // attempts to connect or to list that failed
	Missed    uint64            // changes that the server should have announced and did not
	Dropped   map[string]uint64 // notifications that the session discarded, by reason
}
