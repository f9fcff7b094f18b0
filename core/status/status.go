// Package status has the values that say how servers are: what a tracker knows of them at one
// time, and what processes that share servers tell each other. They are copies: whoever has one
// may keep it, and must not change what it refers to.
package status

import (
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// StateMessage is the message of a tracker's log records for changes of a server's state, which
// correspond to server.state events.
const StateMessage = "server"

// Snapshot is the state of the tracker at one point in the order of events. It is immutable.
type Snapshot struct {
	Epoch   string
	Seq     uint64   // of the last event that the snapshot includes
	Servers []Server // sorted by ID
}

// Server finds the status of a server.
func (s *Snapshot) Server(id string) (Server, bool) {
	i, ok := slices.BinarySearchFunc(s.Servers, id, func(st Server, id string) int { return strings.Compare(st.ID, id) })
	if !ok {
		return Server{}, false
	}
	return s.Servers[i], true
}

// Server is what is known of one server.
type Server struct {
	ID        string
	Transport config.Transport
	State     event.State
	Since     time.Time // when State began
	Reason    string
	Error     string    // of the last failure, one printable line; "" once Ready
	Attempt   int       // failures in a row
	NextRetry time.Time // zero unless waiting for it

	// StillConnected says that the server is connected although it is Unapproved: as it was approved before.
	StillConnected bool

	// Info is the result of the last session's handshake; zero before the first.
	Info session.Info
	Mode event.Mode // how changes of resources are noticed; "" while they are not
	// Missing are the tracked URIs whose updates the server does not push.
	Missing []string
	// Lists are the last known lists. They outlive sessions.
	Lists map[catalog.Kind]catalog.List
	// Resources are the tracked ones, sorted by URI.
	Resources []Resource
	// EventCursors say where to resume the subscriptions to events of the server (MCP Events),
	// by the keys of the subscriptions. The map is replaced, never modified.
	EventCursors map[string]string
	Counts       Counts
}

// Connected reports whether the server is connected and followed, as far as it can be: it is Ready
// or Unsupported, or Unapproved and still connected with the entry that was approved before.
func (s *Server) Connected() bool {
	return s.State == event.Ready || s.State == event.Unsupported || s.StillConnected
}

// Resource is what is known of one tracked resource.
type Resource struct {
	URI      string
	Digest   catalog.Digest // of the content published last; zero: unknown
	Size     int64
	MimeType string
	Text     *string      // nil unless the tracker keeps texts and the content is text
	Gone     bool         // the server says that there is no such resource
	Last     *event.Event // the last event about it; nil before the first
}

// Counts are totals for one server since its worker started. Each of the Signals is also
// counted as Led, Folded or Unknown.
type Counts struct {
	Signals   uint64            // notifications about resources that were received
	Led       uint64            // signals that opened a window
	Folded    uint64            // signals that fell into a window or arrived together with others
	Unknown   uint64            // signals about resources that are not tracked
	Published uint64            // events about resource content
	Unchanged uint64            // reads that found the content published last
	Failed    uint64            // reads of resources that failed
	Failures  uint64            // attempts to connect or to list that failed
	Missed    uint64            // changes that the server should have announced and did not
	Dropped   map[string]uint64 // notifications that the session discarded, by reason
}
