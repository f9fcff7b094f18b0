package status

import (
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// Summary is the state of a server, in the form in which processes on a cluster exchange
// it and clients get it. Times have [event.TimeFormat].
type Summary struct {
	ID        string      `json:"id"`
	Transport string      `json:"transport"`
	State     event.State `json:"state"`
	Since     string      `json:"since,omitempty"`
	Reason    string      `json:"reason,omitempty"`
	Error     string      `json:"error,omitempty"`
	Attempt   int         `json:"attempt,omitempty"`
	NextRetry string      `json:"nextRetry,omitempty"`
	// StillConnected is set if the server is Unapproved and connected, with the entry that was
	// approved before.
	StillConnected bool `json:"stillConnected,omitempty"`
	Info
	Mode event.Mode `json:"mode,omitempty"`
	Lists
	Signals  uint64 `json:"signals"`
	Updates  uint64 `json:"updates"`
	Failures uint64 `json:"failures"`
	// FollowedBy is the process that follows the server, where several share servers;
	// empty if none does.
	FollowedBy string `json:"followedBy,omitempty"`
}

// Info is what the last session learned about a server.
type Info struct {
	Era             string `json:"era,omitempty"`
	ProtocolVersion string `json:"protocolVersion,omitempty"`
	ServerName      string `json:"serverName,omitempty"`
	ServerVersion   string `json:"serverVersion,omitempty"`
}

// Lists counts what a server offers: Resources are the followed ones, Missing
// those of them that the server does not push.
type Lists struct {
	Resources int `json:"resources"`
	Missing   int `json:"missing"`
	Templates int `json:"templates"`
	Prompts   int `json:"prompts"`
	Tools     int `json:"tools"`
}

// Summarize summarizes the status of a server.
func Summarize(st *Server) Summary {
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
	// Unfollowed are the servers that no process follows, in order.
	Unfollowed []string
	// Waiting is why leases cannot be acquired or read, so that the other processes are
	// unknown.
	Waiting string
}

// Reloads counts the reloads of the config by their outcome.
type Reloads struct {
	Reloaded, Rejected uint64
	Good               bool // the config on disk is the one in use
}
