package realtime

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/printable"
)

// serverEvent contains the relevant parts of a server event of any dialect.
type serverEvent struct {
	Type          string `json:"type"`
	EventID       string `json:"event_id"`
	ClientEventID string `json:"client_event_id"` // of GPT-Live: our event, which this one answers
	Item          struct {
		ID     string `json:"id"`
		Type   string `json:"type"`
		CallID string `json:"call_id"`
	} `json:"item"`
	Response struct {
		ID string `json:"id"`
	} `json:"response"`
	Error struct {
		Type          string `json:"type"`
		Code          string `json:"code"`
		Message       string `json:"message"`
		EventID       string `json:"event_id"`
		ClientEventID string `json:"client_event_id"`
	} `json:"error"`
	// ErrorEvent is what ElevenLabs sends instead of Error.
	ErrorEvent *struct {
		Code    websocket.StatusCode `json:"code"`
		Type    string               `json:"error_type"`
		Message string               `json:"message"`
		Reason  string               `json:"reason"`
	} `json:"error_event"`
}

// peekSize is the number of bytes of a server event that are inspected. Events related to our items
// are much smaller; of larger events only the type is relevant.
const peekSize = 64 << 10

// decode parses a server event. If whole is false, b is only the beginning of the event. It returns false for
// irrelevant events.
func decode(b []byte, whole bool) (e serverEvent, relevant bool) {
	switch e.Type = eventType(b); e.Type {
	case "conversation.item.added", "conversation.item.done", "conversation.item.created",
		"response.created", "response.done", "response.output_item.done",
		"input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
		"input_audio_buffer.committed", "input_audio_buffer.cleared",
		"session.updated", "mcp_list_tools.completed", "mcp_list_tools.failed", // OpenAI
		"session.started", "session.thinking.appended", "session.closed", // GPT-Live
		"conversation_initiation_metadata", // ElevenLabs
		"error":
	default:
		return e, false
	}
	if whole && json.Unmarshal(b, &e) != nil {
		// On compatible endpoints the error code may have another JSON type. The members decoded
		// before it, and the event type, are still valid.
		e.Type = eventType(b)
	}
	e.Error.EventID = cmp.Or(e.Error.EventID, e.Error.ClientEventID, e.ClientEventID)
	if x := e.ErrorEvent; x != nil {
		e.Error.Type, e.Error.Code, e.Error.Message = "server_error", x.Type, cmp.Or(x.Message, x.Reason)
		if x.Code == websocket.StatusPolicyViolation || x.Code == websocket.StatusProtocolError {
			e.Error.Type = "invalid_request_error" // these close codes report an invalid request
		}
	}
	return e, true
}

// duplicate reports whether an error means that an item with this ID already exists.
func (e *serverEvent) duplicate() bool {
	return containsAny(strings.ToLower(e.Error.Code+" "+e.Error.Message), "already exist", "already_exist", "duplicate")
}

// temporary reports whether a retry may succeed after an error with this type and code, or a close frame with this
// reason.
func temporary(s string) bool {
	return containsAny(s, "rate_limit", "server_error", "overloaded", "service_unavailable")
}

// permanent reports whether another attempt would fail again after such an error.
func permanent(s string) bool {
	return containsAny(s, "invalid_request_error", "model_not_found", "authentication_error", "permission", "invalid_api_key")
}

func containsAny(s string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(s, part) })
}

// kind returns the type and the code of an error.
func (e *serverEvent) kind() string { return e.Error.Type + "." + e.Error.Code }

// reason describes an error on one line.
func (e *serverEvent) reason() string {
	parts := []string{}
	for _, s := range []string{e.Error.Type, e.Error.Code, e.Error.Message} {
		if s != "" {
			parts = append(parts, printable.Line(s, 300))
		}
	}
	return strings.Join(parts, ": ")
}

// eventType returns the member "type" of the outermost object. It identifies most irrelevant
// events, such as audio, from their first bytes.
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
