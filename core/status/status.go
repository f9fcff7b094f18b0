// Package status describes servers by values: what a tracker knows of them at one time, and what
// processes that share servers announce to each other. The values are copies: a caller may keep
// them, but must not modify what they refer to.
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
	Seq     uint64         // of the last event that the snapshot includes
	Servers []ServerStatus // sorted by ID
}

// Server returns the status of a server, false if it is not in the snapshot.
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
	Attempt   int       // consecutive failures
	NextRetry time.Time // zero unless waiting for it

	// StillConnected says that the server is Unapproved, but still connected with the entry that
	// was approved before.
	StillConnected bool

	// Info is the result of the last session's handshake; zero before the first.
	Info session.Info
	Mode event.UpdateMode // how changes of resources are noticed; "" while they are not
	// Missing are the tracked URIs whose updates the server does not push.
	Missing []string
	// Lists are the last known lists. They outlive sessions.
	Lists map[catalog.Kind]catalog.List
	// Resources are the tracked resources, sorted by URI.
	Resources []ResourceStatus
	// EventCursors say where to resume the subscriptions to events of the server (MCP Events),
	// by the keys of the subscriptions. The map is replaced, never modified.
	EventCursors map[string]string
	Counts       Counts
}

// Connected reports whether the server is connected, and followed as far as it supports that: it
// is Ready or Unsupported, or StillConnected.
func (s *ServerStatus) Connected() bool {
	return s.State == event.Ready || s.State == event.Unsupported || s.StillConnected
}

// ResourceStatus is what is known of one tracked resource.
type ResourceStatus struct {
	URI      string
	Digest   catalog.Digest // of the content published last; zero: unknown
	Size     int64
	MimeType string
	Text     *string      // nil unless the tracker keeps texts and the content is text
	Gone     bool         // the server says that there is no such resource
	Last     *event.Event // the last event about it; nil before the first
}

// Counts are totals for one server since its worker started. Each signal is also
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

// Summary is the state of a server as processes on a cluster exchange it and clients receive it.
// Times have [event.TimeFormat].
type Summary struct {
	ID        string      `json:"id"`
	Transport string      `json:"transport"`
	State     event.State `json:"state"`
	Since     string      `json:"since,omitempty"`
	Reason    string      `json:"reason,omitempty"`
	Error     string      `json:"error,omitempty"`
	Attempt   int         `json:"attempt,omitempty"`
	NextRetry string      `json:"nextRetry,omitempty"`
	// StillConnected is as in ServerStatus.
	StillConnected bool `json:"stillConnected,omitempty"`
	Info
	Mode event.UpdateMode `json:"mode,omitempty"`
	Lists
	Signals  uint64 `json:"signals"`
	Updates  uint64 `json:"updates"`
	Failures uint64 `json:"failures"`
	// FollowedBy is the process that follows the server, if several processes share servers;
	// "" if none does.
	FollowedBy string `json:"followedBy,omitempty"`
}

// Info is what the last session learned about a server.
type Info struct {
	Era             string `json:"era,omitempty"`
	ProtocolVersion string `json:"protocolVersion,omitempty"`
	ServerName      string `json:"serverName,omitempty"`
	ServerVersion   string `json:"serverVersion,omitempty"`
}

// Lists counts what a server offers.
type Lists struct {
	Resources int `json:"resources"` // followed
	Missing   int `json:"missing"`   // followed, but not pushed by the server
	Templates int `json:"templates"`
	Prompts   int `json:"prompts"`
	Tools     int `json:"tools"`
}

// Summarize summarizes the status of a server.
func Summarize(st *ServerStatus) Summary {
	transport := st.Info.Transport
	if transport == "" {
		transport = st.Transport
	}
	return Summary{
		ID: st.ID, Transport: string(transport), State: st.State, Since: stamp(st.Since), Reason: st.Reason, Error: st.Error,
		Attempt: st.Attempt, NextRetry: stamp(st.NextRetry), StillConnected: st.StillConnected, Mode: st.Mode,
		Info: Info{Era: string(st.Info.Era), ProtocolVersion: st.Info.ProtocolVersion,
			ServerName: st.Info.ServerName, ServerVersion: st.Info.ServerVersion},
		Lists: Lists{Resources: len(st.Resources), Missing: len(st.Missing), Templates: len(st.Lists[catalog.Templates]),
			Prompts: len(st.Lists[catalog.Prompts]), Tools: len(st.Lists[catalog.Tools])},
		Signals: st.Counts.Signals, Updates: st.Counts.Published, Failures: st.Counts.Failures,
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(event.TimeFormat)
}

// Cluster is what a process knows of the processes that share the servers.
type Cluster struct {
	Process   string // this process
	Processes int    // number of processes that share the servers
	// Unfollowed are the servers that no process follows, sorted.
	Unfollowed []string
	// Waiting is why leases cannot be acquired or read; then the other processes are unknown.
	Waiting string
}

// Reloads counts the reloads of the config by outcome.
type Reloads struct {
	Reloaded, Rejected uint64
	Good               bool // the config on disk is the one in use
}
