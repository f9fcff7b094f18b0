package realtime

import (
	"encoding/json"
	"strings"
)

// gptLive implements OpenAI's Live API. Text is appended as silent context, and the endpoint
// acknowledges it with the ID of our event. It can only attach to a running session.
type gptLive struct{ session string }

// maxAppend limits one append in bytes. The API accepts 500 tokens, and every token has at least
// one byte.
const maxAppend = 500

func (d gptLive) api() api {
	return api{
		home: "wss://api.openai.com/v1", path: "live/sessions/" + d.session + "/attach",
		keyVariable: "OPENAI_API_KEY", keyHeader: "Authorization",
		limits: limits{messages: 16, bytes: maxAppend},
	}
}

// thinkingAppend is the client event that appends silent context for the whole session.
type thinkingAppend struct {
	Type         string  `json:"type"`
	EventID      string  `json:"event_id"`
	DelegationID *string `json:"delegation_id"` // null: applies to the session, not to a single task
	Content      string  `json:"content"`
}

// create omits the contents of resources, because they would exceed the size limit.
func (gptLive) create(id string, _ Role, batch []*pending) ([]byte, error) {
	lines := make([]string, len(batch))
	for i, p := range batch {
		lines[i] = p.Parts[0].Text
	}
	if len(lines) == 1 && len(lines[0]) > maxAppend {
		p := batch[0]
		room := maxAppend - len(Text("", p.ServerID, p.Timestamp))
		lines[0] = Text(shorten(safe(encodeSpace(p.ResourceURI, maxURI), maxURI), max(room, 16), true), safe(p.ServerID, 64), p.Timestamp)
	}
	return encode(thinkingAppend{Type: "session.thinking.append", EventID: eventIDOf(id), Content: strings.Join(lines, "\n")})
}

// respond returns nothing, because the model decides when to speak.
func (gptLive) respond(string) ([]byte, string) { return nil, "" }

func (gptLive) decode(b []byte, whole bool) (serverEvent, bool) {
	e := serverEvent{Type: eventType(b)}
	switch e.Type {
	case "session.thinking.appended", "session.closed", "error":
	default:
		return e, false
	}
	var in struct {
		ClientEventID string `json:"client_event_id"`
		Error         struct {
			Type          string `json:"type"`
			Code          string `json:"code"`
			Message       string `json:"message"`
			ClientEventID string `json:"client_event_id"`
		} `json:"error"`
	}
	if whole && json.Unmarshal(b, &in) != nil {
		return e, true
	}
	e.closed = e.Type == "session.closed"
	if e.Type == "session.thinking.appended" {
		e.confirms = in.ClientEventID
	}
	e.Error.Type, e.Error.Code, e.Error.Message, e.Error.EventID = in.Error.Type, in.Error.Code, in.Error.Message, in.Error.ClientEventID
	if e.Error.EventID == "" {
		e.Error.EventID = in.ClientEventID
	}
	return e, true
}
