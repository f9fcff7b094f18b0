package wire

import "github.com/mcptrack/mcptrack/core/mcp"

// Bounds of scratch.seen, so that its texts take 64 KiB at most.
const (
	maxSeen     = 128 // messages
	maxSeenSize = 512 // bytes of a message
)

// scratch is the memory in which one goroutine decodes messages.
type scratch struct {
	message
	// seen holds decoded notifications that say no more than that something changed, by
	// the text of their messages. A server that announces the same change again and again
	// sends the same text, and decoding it would be most of the work.
	seen map[string]Notification
}

// remember adds the notification that was decoded last, from data, to seen if it belongs
// there.
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
