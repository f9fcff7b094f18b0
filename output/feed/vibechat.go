package feed

import (
	"cmp"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Message types of the VibeChat feed.
const (
	vibeHandshake = "handshake"
	vibeUpdate    = "resource_update"
	vibeError     = "resource_error"
	vibeStopped   = "tracker_stopped"
	vibeGap       = "gap" // our extension: VibeChat's clients ignore unknown types
)

// vibeChat is a message of the VibeChat feed. It has no event name, and its times are in
// milliseconds since 1970.
type vibeChat struct {
	Type        string `json:"type"`
	Status      string `json:"status,omitempty"`
	ServerID    string `json:"serverId,omitempty"`
	ResourceURI string `json:"resourceUri,omitempty"`
	From        string `json:"from,omitempty"`
	To          string `json:"to,omitempty"`
	Timestamp   int64  `json:"timestamp"`
	Reason      string `json:"reason,omitempty"`
	Error       string `json:"error,omitempty"`
}

func appendVibeChat(b []byte, id string, m vibeChat) []byte {
	data, _ := printable.Marshal(m) // encoding strings and a number cannot fail
	return eventstream.Append(b, id, "", data)
}

func appendHandshake(b []byte, now time.Time) []byte {
	return appendVibeChat(b, "", vibeChat{Type: vibeHandshake, Status: "ready", Timestamp: now.UnixMilli()})
}

// feedFrame returns a log entry encoded as a VibeChat message, or nil if the feed omits it.
func feedFrame(e *journal.Entry, f *frame, at time.Time) []byte {
	m := vibeChat{ServerID: f.server, ResourceURI: f.uri, Timestamp: at.UnixMilli()}
	switch f.kind {
	case event.TypeResourceUpdated:
		if m.Type = vibeUpdate; m.ServerID == "" || m.ResourceURI == "" {
			return nil
		}
		return appendVibeChat(nil, e.ID, m)
	case event.TypeServerState, event.TypeResourcesListChanged:
		ev, err := e.Event()
		if err != nil || m.ServerID == "" {
			return nil
		}
		m.Type = vibeError
		if m.Reason, m.Error = failure(ev.Payload); m.Error == "" {
			return nil
		}
		return appendVibeChat(nil, "", m) // clients expect no ID here
	case event.TypeGap:
		ev, err := e.Event()
		g, ok := ev.Payload.(event.Gap)
		if err != nil || !ok {
			return nil
		}
		m.Type, m.From, m.To, m.Reason = vibeGap, g.From, g.To, g.Reason
		return appendVibeChat(nil, e.ID, m)
	}
	return nil
}

// failure returns why a server's resources cannot be followed or listed. text is empty if the
// payload reports no failure.
func failure(p event.Payload) (reason, text string) {
	switch p := p.(type) {
	case event.ListChanged:
		return "refresh", p.Error
	case event.ServerState:
		if p.StillConnected {
			return "", ""
		}
		switch p.State {
		case event.Unsupported:
			return "unsupported", cmp.Or(p.Error, p.Reason, "server does not support resources")
		case event.Ready: // other lists of the server are followed
			if p.Reason == event.NoResources {
				return "unsupported", p.Reason
			}
		case event.Backoff, event.NeedsAuth, event.Unconfigured, event.Unapproved:
			return "refresh", p.Error
		}
	}
	return "", ""
}
