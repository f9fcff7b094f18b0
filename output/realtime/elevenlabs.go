package realtime

import (
	"encoding/json"
	"strings"

	"github.com/coder/websocket"
)

// elevenLabs implements the WebSocket API of ElevenLabs agents or, with a session ID, the WebSocket
// API that monitors a running conversation. Text is added as a contextual update, which does not
// interrupt the agent and is not acknowledged. See
// https://elevenlabs.io/docs/eleven-agents/api-reference/eleven-agents/websocket and
// https://elevenlabs.io/docs/eleven-agents/guides/realtime-monitoring. The size limit of an update
// is undocumented; ours is well below the size that agents accept as a prompt.
type elevenLabs struct{ session string }

func (d elevenLabs) api() api {
	a := api{
		home: "wss://api.elevenlabs.io/v1", path: "convai/conversation",
		keyVariable: "ELEVENLABS_API_KEY", keyHeader: "xi-api-key",
		limits: limits{messages: 64, bytes: 16 << 10}, unconfirmed: true, refusal: websocket.StatusPolicyViolation,
	}
	if d.session != "" {
		a.path = "convai/conversations/" + d.session + "/monitor"
		return a
	}
	a.hello, a.opens = []byte(`{"type":"conversation_initiation_client_data"}`), true
	return a
}

// contextualUpdate is the client event that adds text in a conversation.
type contextualUpdate struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// monitorCommand is the client event that adds text over a monitoring connection.
type monitorCommand struct {
	CommandType string `json:"command_type"`
	Parameters  struct {
		ContextualUpdate string `json:"contextual_update"`
	} `json:"parameters"`
}

func (d elevenLabs) create(_ string, _ Role, batch []*pending) ([]byte, error) {
	var lines []string
	for _, p := range batch {
		for _, part := range p.Parts {
			lines = append(lines, part.Text)
		}
	}
	text := strings.Join(lines, "\n")
	if d.session == "" {
		return encode(contextualUpdate{Type: "contextual_update", Text: text})
	}
	c := monitorCommand{CommandType: "contextual_update"}
	c.Parameters.ContextualUpdate = text
	return encode(c)
}

// respond returns nothing, because the agent responds on its next turn.
func (elevenLabs) respond(string) ([]byte, string) { return nil, "" }

func (d elevenLabs) decode(b []byte, whole bool) (serverEvent, bool) {
	e := serverEvent{Type: eventType(b)}
	switch e.Type {
	case "conversation_initiation_metadata":
		e.opens = d
	case "ping":
		var in struct {
			Event struct {
				ID int64 `json:"event_id"`
			} `json:"ping_event"`
		}
		if !whole || json.Unmarshal(b, &in) != nil {
			return e, false
		}
		e.answer, _ = encode(map[string]any{"type": "pong", "event_id": in.Event.ID}) // encoding numbers cannot fail
	case "error":
		var in struct {
			Event struct {
				Code    int    `json:"code"`
				Type    string `json:"error_type"`
				Message string `json:"message"`
				Reason  string `json:"reason"`
			} `json:"error_event"`
		}
		if whole && json.Unmarshal(b, &in) == nil {
			e.Error.Type, e.Error.Code, e.Error.Message = "server_error", in.Event.Type, in.Event.Message
			if in.Event.Code == int(websocket.StatusPolicyViolation) || in.Event.Code == int(websocket.StatusProtocolError) {
				e.Error.Type = "invalid_request_error" // these close codes report an invalid request
			}
			if e.Error.Message == "" {
				e.Error.Message = in.Event.Reason
			}
		}
	default:
		return e, false
	}
	return e, true
}
