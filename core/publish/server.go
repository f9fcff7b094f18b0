package publish

import (
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// Server is the state of a server, in the form in which processes on a cluster exchange
// it and clients get it. Times have [event.TimeFormat].
type Server struct {
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
	ServerInfo
	Mode event.Mode `json:"mode,omitempty"`
	ServerLists
	Signals  uint64 `json:"signals"`
	Updates  uint64 `json:"updates"`
	Failures uint64 `json:"failures"`
	// FollowedBy is the process that follows the server, where several share servers;
	// empty if none does.
	FollowedBy string `json:"followedBy,omitempty"`
}

// ServerInfo is what the last session learned about a server.
type ServerInfo struct {
	Era             string `json:"era,omitempty"`
	ProtocolVersion string `json:"protocolVersion,omitempty"`
	ServerName      string `json:"serverName,omitempty"`
	ServerVersion   string `json:"serverVersion,omitempty"`
}

// ServerLists counts what a server offers: Resources are the followed ones, Missing
// those of them that the server does not push.
type ServerLists struct {
	Resources int `json:"resources"`
	Missing   int `json:"missing"`
	Templates int `json:"templates"`
	Prompts   int `json:"prompts"`
	Tools     int `json:"tools"`
}

// NewServer summarizes the status of a server.
func NewServer(st *tracker.ServerStatus) Server {
	transport := st.Info.Transport
	if transport == "" {
		transport = st.Transport
	}
	return Server{
		ID: st.ID, Transport: string(transport), State: st.State, Since: stamp(st.Since), Reason: st.Reason, Error: st.Error,
		Attempt: st.Attempt, NextRetry: stamp(st.NextRetry), StillConnected: st.StillConnected, Mode: st.Mode,
		ServerInfo: ServerInfo{Era: string(st.Info.Era), ProtocolVersion: st.Info.ProtocolVersion,
			ServerName: st.Info.ServerName, ServerVersion: st.Info.ServerVersion},
		ServerLists: ServerLists{Resources: len(st.Resources), Missing: len(st.Missing), Templates: len(st.Lists[catalog.Templates]),
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
