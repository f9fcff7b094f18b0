package tracker

import (
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// Snapshot is what the tracker knew at one place in the order of events. It is
// the caller's to keep; nothing in it changes any more.
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
	Restarts  int       // sessions that ended without being asked to

	// Info is what the last session said of the server; zero before the first.
	Info session.Info
	Mode event.Mode // how changes of resources are noticed; "" while they are not
	// Missing are the followed URIs that the server does not push.
	Missing []string
	// Lists are the last known lists. They outlive sessions: a server that is
	// away keeps its catalog.
	Lists map[catalog.Kind]catalog.List
	// Resources are the followed ones, sorted by URI.
	Resources []ResourceStatus
	Counts    Counts
}

// ResourceStatus is what is known of one followed resource.
type ResourceStatus struct {
	URI      string
	Digest   catalog.Digest // of the content told last; zero if not known
	Size     int64
	MimeType string
	Text     *string      // where Options.Texts is set and the content is text
	Gone     bool         // the server says that there is no such resource
	Last     *event.Event // the last event about it; nil before the first
}

// Counts are sums over the life of the worker. Signals = Led + Folded + Unknown.
type Counts struct {
	Signals   uint64            // notifications about resources that were received
	Led       uint64            // that opened a window
	Folded    uint64            // that fell into a window or came together with others
	Unknown   uint64            // about resources that are not followed
	Told      uint64            // events about resource content
	Unchanged uint64            // reads that found what was told already
	Failed    uint64            // reads that failed
	Failures  uint64            // connections and lists that failed
	Dropped   map[string]uint64 // notifications that the session set aside, by reason
}
