package wire

import "github.com/mcptrack/mcptrack/core/mcp"

// Bounds of what is remembered of one stream: as many bytes as a few messages of it.
const (
	maxSeen     = 128
	maxSeenSize = 512 // bytes of a message
)

// scratch is the memory in which one goroutine decodes messages.
type scratch struct {
	message
	// seen are notifications that say no more than that something changed, by the text of
	// their messages. A server that announces the same again and again sends the same
	// text, whose decoding would be most of what the notification costs.
	seen map[string]Notification
}

// remember keeps the notification that was decoded last, if it is one of those.
func (m *scratch) remember(data []byte) {
	switch m.Method {
	case mcp.NotificationResourceUpdated, mcp.NotificationResourcesChanged, mcp.NotificationToolsChanged, mcp.NotificationPromptsChanged:
	default:
		return
	}
	if len(data) > maxSeenSize || m.Params.Malformed {
		return
	}
	if m.seen == nil {
		m.seen = make(map[string]Notification)
	}
	if len(m.seen) >= maxSeen {
		for text := range m.seen { // any
			delete(m.seen, text)
			break
		}
	}
	m.seen[string(data)] = m.Params
}
