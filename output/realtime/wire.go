package realtime

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Prefixes of the ids of our client events: an error that names such an id is about our event.
const (
	itemEventPrefix  = "evt_mt_"
	replyEventPrefix = "evr_mt_"
)

func encode(v any) ([]byte, error) {
	b, err := printable.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode client event: %w", err)
	}
	return b, nil
}

// serverEvent is the part of a server event that matters here.
type serverEvent struct {
	Type    string `json:"type"`
	EventID string `json:"event_id"`
	ItemID  string `json:"item_id"`
	Item    struct {
		ID          string `json:"id"`
		Type        string `json:"type"`
		CallID      string `json:"call_id"`
		ServerLabel string `json:"server_label"`
	} `json:"item"`
	Response struct {
		ID string `json:"id"`
	} `json:"response"`
	Error struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
		EventID string `json:"event_id"`
	} `json:"error"`

	// What the dialect says about the event.
	confirms string  // the id of the client event that this event acknowledges; "": none
	opens    dialect // the dialect of the conversation that this event opens; nil: it opens none
	closed   bool    // it is the last event of the session
	answer   []byte  // the client event with which a Session has to answer it; nil: none
}

// peekSize is how many bytes of a server event are inspected. Events about our items are far
// smaller; of a larger event only the type matters.
const peekSize = 64 << 10

// eventType returns the member "type" of the outermost object. Most events that do not
// matter, such as audio, are recognised by their first bytes.
func eventType(b []byte) string {
	const first = `{"type":"`
	if bytes.HasPrefix(b, []byte(first)) {
		rest := b[len(first):]
		if end := bytes.IndexByte(rest[:min(len(rest), 128)], '"'); end >= 0 {
			return string(rest[:end])
		}
		return ""
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for {
		name, err := dec.Token()
		if err != nil {
			return ""
		}
		if name == "type" {
			t, _ := dec.Token()
			s, _ := t.(string)
			return s
		}
		var skipped json.RawMessage
		if dec.Decode(&skipped) != nil {
			return ""
		}
	}
}
