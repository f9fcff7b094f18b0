package realtime

import (
	"encoding/json"
)

// openAI is the Realtime API in its GA form: text is added as items of the conversation,
// and the endpoint acknowledges each item with its id.
type openAI struct{}

func (openAI) api() api {
	return api{
		home: "wss://api.openai.com/v1", path: "realtime", keyVariable: "OPENAI_API_KEY", keyHeader: "Authorization",
		limits: limits{messages: 512, bytes: 64 << 10}, // well below what a session accepts at once
	}
}

// itemCreate is the client event that adds an item to the conversation.
type itemCreate struct {
	Type    string `json:"type"`
	EventID string `json:"event_id"`
	Item    Item   `json:"item"`
}

// Item is a message in the conversation.
type Item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Role    Role   `json:"role"`
	Content []Part `json:"content"`
}

// Part is one part of the content of an item.
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
	var parts []Part
	for _, p := range batch {
		parts = append(parts, p.Parts...)
	}
	if role == "" {
		role = RoleUser
	}
	return encode(itemCreate{
		Type: "conversation.item.create", EventID: eventIDOf(id),
		Item: Item{ID: id, Type: "message", Role: role, Content: parts},
	})
}

func (openAI) respond(id string) ([]byte, string) {
	e := responseCreate{Type: "response.create", EventID: replyEventPrefix + id}
	frame, _ := encode(e) // strings always encode
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
		// Compatible endpoints may have an error code of another type; what was decoded
		// before it, and the type, still count.
		e.Type = eventType(b)
	}
	if e.Type == "session.started" {
		e.opens = gptLive{} // an application has begun a GPT-Live session through a proxy
	}
	return e, true
}
