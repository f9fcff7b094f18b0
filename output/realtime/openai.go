package realtime

import (
	"cmp"
	"encoding/json"
)

// openAI implements the GA version of the Realtime API. Text is added as conversation items, and
// the endpoint acknowledges each item with its ID.
type openAI struct{}

func (openAI) api() api {
	return api{
		home: "wss://api.openai.com/v1", path: "realtime", keyVariable: "OPENAI_API_KEY", keyHeader: "Authorization",
		limits: limits{messages: 512, bytes: 64 << 10}, // well below the size that a session accepts in one event
	}
}

// itemCreate is the client event that adds an item to the conversation.
type itemCreate struct {
	Type    string `json:"type"`
	EventID string `json:"event_id"`
	Item    struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Role    Role   `json:"role"`
		Content []Part `json:"content"`
	} `json:"item"`
}

// Part is one content part of an item.
type Part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// responseCreate is the client event that asks the model to respond.
type responseCreate struct {
	Type    string `json:"type"`
	EventID string `json:"event_id"`
}

func (openAI) create(id string, role Role, batch []*pending) ([]byte, error) {
	e := itemCreate{Type: "conversation.item.create", EventID: eventIDOf(id)}
	e.Item.ID, e.Item.Type, e.Item.Role = id, "message", cmp.Or(role, RoleUser)
	for _, p := range batch {
		e.Item.Content = append(e.Item.Content, p.Parts...)
	}
	return encode(e)
}

func (openAI) respond(id string) ([]byte, string) {
	e := responseCreate{Type: "response.create", EventID: replyEventPrefix + id}
	frame, _ := encode(e) // encoding strings cannot fail
	return frame, e.EventID
}

func (openAI) decode(b []byte, whole bool) (serverEvent, bool) {
	e := serverEvent{Type: eventType(b)}
	switch e.Type {
	case "conversation.item.added", "conversation.item.done", "conversation.item.created",
		"response.created", "response.done", "response.output_item.done",
		"input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
		"input_audio_buffer.committed", "input_audio_buffer.cleared",
		"session.started", "session.updated", "mcp_list_tools.completed", "mcp_list_tools.failed", "error":
	default:
		return e, false
	}
	if whole && json.Unmarshal(b, &e) != nil {
		// On compatible endpoints the error code may have another JSON type. The members decoded
		// before it, and the event type, are still valid.
		e.Type = eventType(b)
	}
	if e.Type == "session.started" {
		e.opens = gptLive{} // an application has opened a GPT-Live session through a proxy
	}
	return e, true
}
