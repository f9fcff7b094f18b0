// Package status describes the state of servers as plain values: what a tracker knows about them at
// one point in time, and what processes that share servers announce to each other. The values are
// copies: a caller may keep them, but must not modify the maps, slices and pointers in them.
package status

import (
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// StateMessage is the message of the log records that a tracker writes when a server's state
// changes. They correspond to server.state events.
const StateMessage = "server"

// Snapshot is the state of the tracker at one point in the order of events. It is immutable.
type Snapshot struct {
	Epoch   string
	Seq     uint64         // sequence number of the last event included in the snapshot
	Servers []ServerStatus // sorted by ID
}

// Server returns the status of a server, or false if it is not in the snapshot.
func (s *Snapshot) Server(id string) (ServerStatus, bool) {
	i, ok := slices.BinarySearchFunc(s.Servers, id, func(st ServerStatus, id string) int { return strings.Compare(st.ID, id) })
	if !ok {
		return ServerStatus{}, false
	}
	return s.Servers[i], true
}

// Renamed returns a snapshot of the servers whose ids are keys of names, under the values.
func (s *Snapshot) Renamed(names map[string]string) *Snapshot {
	out := &Snapshot{Epoch: s.Epoch, Seq: s.Seq}
	for _, st := range s.Servers {
		name, ok := names[st.ID]
		if !ok {
			continue
		}
		st.Error = strings.ReplaceAll(st.Error, st.ID, name) // such as in a command to run
		st.ID, st.Resources = name, slices.Clone(st.Resources)
		for i, r := range st.Resources {
			if r.Last != nil {
				last := *r.Last
				last.ServerID = name
				st.Resources[i].Last = &last
			}
		}
		out.Servers = append(out.Servers, st)
	}
	sort.Slice(out.Servers, func(i, j int) bool { return out.Servers[i].ID < out.Servers[j].ID })
	return out
}

// ServerStatus describes the state of one server.
type ServerStatus struct {
	ID        string
	Transport config.Transport
	State     event.State
	Since     time.Time // when the server entered State
	Reason    string
	Error     string    // last failure as one printable line; empty once Ready
	Attempt   int       // number of consecutive failures
	NextRetry time.Time // zero unless a retry is scheduled

	// StillConnected is true if the server is Unapproved, but still connected using the previously
	// approved entry.
	StillConnected bool

	// Info is the handshake result of the latest session; zero before the first session.
	Info session.Info
	Mode event.UpdateMode // how resource changes are detected; empty if they are not
	// Missing lists the tracked URIs for which the server does not push updates.
	Missing []string
	// Lists holds the last known version of each list. They are kept when a session ends.
	Lists map[catalog.Kind]catalog.List
	// Resources lists the tracked resources, sorted by URI.
	Resources []ResourceStatus
	Counts    Counts
}

// Connected reports whether the server is connected, and followed to the extent that it supports
// this: it is Ready, Unsupported or StillConnected.
func (s *ServerStatus) Connected() bool {
	return s.State == event.Ready || s.State == event.Unsupported || s.StillConnected
}

// Dormant reports whether the server is asleep, or has been woken and is not yet connected. Its
// lists are those of its last session.
func (s *ServerStatus) Dormant() bool {
	return s.State.Dormant(s.Reason)
}

// ResourceStatus describes the state of one tracked resource.
type ResourceStatus struct {
	URI      string
	Digest   catalog.Digest // digest of the last published content; zero if unknown
	Size     int64
	MimeType string
	Text     *string      // nil unless the tracker keeps texts and the content is text
	Gone     bool         // the server reported that the resource does not exist
	Last     *event.Event // the last event about the resource; nil if there was none
}

// Counts holds totals for one server since its worker started. Signals that are neither
// in Folded nor in Unknown opened a debounce window.
type Counts struct {
	Signals   uint64            // update notifications received
	Folded    uint64            // signals received within a window or together with others
	Unknown   uint64            // signals about resources that are not tracked
	Published uint64            // events about resource content
	Unchanged uint64            // reads that returned the last published content
	Failed    uint64            // reads of resources that failed
	Failures  uint64            // failed attempts to connect or to load lists
	Missed    uint64            // changes that the server failed to announce
	Dropped   map[string]uint64 // notifications discarded by the session, by reason
}

// Summary describes the state of a server as it is exchanged between processes on a cluster and
// sent to clients. Times are formatted using [event.TimeFormat].
type Summary struct {
	ID        string      `json:"id"`
	Transport string      `json:"transport"`
	State     event.State `json:"state"`
	Since     string      `json:"since,omitempty"`
	Reason    string      `json:"reason,omitempty"`
	Error     string      `json:"error,omitempty"`
	Attempt   int         `json:"attempt,omitempty"`
	NextRetry string      `json:"nextRetry,omitempty"`
	// StillConnected has the same meaning as in ServerStatus.
	StillConnected bool `json:"stillConnected,omitempty"`
	Info
	Mode event.UpdateMode `json:"mode,omitempty"`
	Lists
	Signals  uint64 `json:"signals"`
	Updates  uint64 `json:"updates"`
	Failures uint64 `json:"failures"`
	// FollowedBy is the process that follows the server, if several processes share servers; empty
	// if no process follows it.
	FollowedBy string `json:"followedBy,omitempty"`
}

// Info describes a server as reported in the handshake of the last session.
type Info struct {
	Era             string `json:"era,omitempty"`
	ProtocolVersion string `json:"protocolVersion,omitempty"`
	ServerName      string `json:"serverName,omitempty"`
	ServerVersion   string `json:"serverVersion,omitempty"`
}

// Lists holds the number of items of each kind that a server offers.
type Lists struct {
	Resources int `json:"resources"` // number of resources that are followed
	Missing   int `json:"missing"`   // number of followed resources whose updates are not pushed
	Templates int `json:"templates"`
	Prompts   int `json:"prompts"`
	Tools     int `json:"tools"`
	Skills    int `json:"skills"`
}

// Summarize converts the status of a server to a Summary.
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
			Prompts: len(st.Lists[catalog.Prompts]), Tools: len(st.Lists[catalog.Tools]), Skills: len(st.Lists[catalog.Skills])},
		Signals: st.Counts.Signals, Updates: st.Counts.Published, Failures: st.Counts.Failures,
	}
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(event.TimeFormat)
}

// Cluster describes the processes that share servers, as seen by one of them.
type Cluster struct {
	Process   string // name of this process
	Processes int    // number of processes that share the servers
	// Unfollowed lists the servers that no process follows, sorted by id.
	Unfollowed []string
	// Waiting explains why leases cannot be acquired or read; in that case the other processes are
	// unknown.
	Waiting string
}

// Reloads counts the reloads of the config by outcome.
type Reloads struct {
	Reloaded, Rejected uint64
	Good               bool // true if the config on disk is the one in use
}
