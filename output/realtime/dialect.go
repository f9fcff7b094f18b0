package realtime

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Dialect is the name of an endpoint's API. The empty string means OpenAI.
type Dialect string

// The supported dialects.
const (
	OpenAI     Dialect = "openai"     // OpenAI Realtime API
	GPTLive    Dialect = "gpt-live"   // OpenAI's Live API
	ElevenLabs Dialect = "elevenlabs" // ElevenLabs agents
)

// Dialects returns the names of all dialects.
func Dialects() []string { return []string{string(OpenAI), string(GPTLive), string(ElevenLabs)} }

// Key returns the environment variable and the handshake header for the API key.
func (d Dialect) Key() (variable, header string) {
	lang, _ := d.of("x")
	if lang == nil {
		return "", ""
	}
	return lang.keyVariable, lang.keyHeader
}

// dialect is one way to add text to the conversations of an API. All ways have the same server events; see
// [decode].
type dialect struct {
	home string // base URL of the API, including the version
	path string // path of the WebSocket relative to home
	// keyVariable and keyHeader are the environment variable and the request header for the API
	// key.
	keyVariable, keyHeader string
	limits                 limits // limits for one item
	// create returns the client event that adds the messages as one item with the given ID. If the
	// API has event IDs, the event's ID is eventIDOf(id).
	create func(id string, role Role, batch []*pending) any
	// responds means that the API has an event that asks the model to respond. In the other APIs the model
	// decides.
	responds bool
	// opening is the type of the server event before which nothing may be sent; empty if there is none.
	opening string
	// unconfirmed means that the API does not acknowledge items. An item counts as delivered when
	// the endpoint has answered a ping that was sent after it.
	unconfirmed bool
	// refusal is a close code that is permanent, in addition to codes from 4000 on; 0 if there is
	// none.
	refusal websocket.StatusCode
}

// of returns the way to add text to the running session with the given ID or, if session is empty, to a session
// that the WebSocket itself is. It returns nil if the dialect is unknown, and false if it cannot attach to a
// session by its ID.
func (d Dialect) of(session string) (lang *dialect, ok bool) {
	switch d {
	case "", OpenAI:
		// See https://platform.openai.com/docs/guides/realtime (GA; the beta header is never sent).
		return &dialect{
			home: "wss://api.openai.com/v1", path: "realtime", keyVariable: "OPENAI_API_KEY", keyHeader: "Authorization",
			limits: limits{messages: 512, bytes: 64 << 10}, // well below the size that a session accepts in one event
			create: createItem, responds: true,
		}, session == ""
	case GPTLive:
		lang = &dialect{
			home: "wss://api.openai.com/v1", path: "live", keyVariable: "OPENAI_API_KEY", keyHeader: "Authorization",
			limits: limits{messages: 16, bytes: maxAppend}, create: appendThinking, opening: "session.started",
		}
		if session != "" {
			lang.path, lang.opening = "live/sessions/"+session+"/attach", ""
		}
		return lang, true
	case ElevenLabs:
		// See https://elevenlabs.io/docs/eleven-agents/api-reference/eleven-agents/websocket and
		// https://elevenlabs.io/docs/eleven-agents/guides/realtime-monitoring. The size limit of an update is
		// undocumented; ours is well below the size that agents accept as a prompt.
		lang = &dialect{
			home: "wss://api.elevenlabs.io/v1", path: "convai/conversation", keyVariable: "ELEVENLABS_API_KEY", keyHeader: "xi-api-key",
			limits: limits{messages: 64, bytes: 16 << 10}, create: updateContext, opening: "conversation_initiation_metadata",
			unconfirmed: true, refusal: websocket.StatusPolicyViolation,
		}
		if session != "" {
			lang.path, lang.opening, lang.create = "convai/conversations/"+session+"/monitor", "", commandMonitor
		}
		return lang, true
	}
	return nil, false
}

// Prefixes for the IDs of our items and client events. An error that contains such an ID is caused
// by our event.
const (
	itemPrefix        = "mt_"
	itemEventPrefix   = "evt_" + itemPrefix
	replyEventPrefix  = "evr_mt_"
	updateEventPrefix = "evu_mt_"
)

// eventIDOf returns the ID of the client event that creates an item.
func eventIDOf(itemID string) string { return "evt_" + itemID }

func encode(v any) ([]byte, error) {
	b, err := printable.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode client event: %w", err)
	}
	return b, nil
}

// itemCreate is OpenAI's client event that adds an item to the conversation.
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

func createItem(id string, role Role, batch []*pending) any {
	e := itemCreate{Type: "conversation.item.create", EventID: eventIDOf(id)}
	e.Item.ID, e.Item.Type, e.Item.Role = id, "message", cmp.Or(role, RoleUser)
	for _, p := range batch {
		e.Item.Content = append(e.Item.Content, p.Parts...)
	}
	return e
}

// responseCreate is OpenAI's client event that asks the model to respond.
type responseCreate struct {
	Type    string `json:"type"`
	EventID string `json:"event_id"`
}

// newResponseCreate returns the client event that asks the model to respond, and the event's ID, which contains
// id.
func newResponseCreate(id string) ([]byte, string) {
	e := responseCreate{Type: "response.create", EventID: replyEventPrefix + id}
	frame, _ := encode(e) // encoding strings cannot fail
	return frame, e.EventID
}

// maxAppend limits one append to a GPT-Live session in bytes. The API accepts 500 tokens, and every token has at
// least one byte.
const maxAppend = 500

// thinkingAppend is GPT-Live's client event that appends silent context for the whole session.
type thinkingAppend struct {
	Type         string  `json:"type"`
	EventID      string  `json:"event_id"`
	DelegationID *string `json:"delegation_id"` // null: applies to the session, not to a single task
	Content      string  `json:"content"`
}

// appendThinking omits the contents of resources, because they would exceed the size limit.
func appendThinking(id string, _ Role, batch []*pending) any {
	lines := make([]string, len(batch))
	for i, p := range batch {
		lines[i] = p.Parts[0].Text
	}
	if len(lines) == 1 && len(lines[0]) > maxAppend {
		p := batch[0]
		room := maxAppend - len(Text("", p.ServerID, p.Timestamp))
		lines[0] = Text(shorten(safe(encodeSpace(p.ResourceURI, maxURI), maxURI), max(room, 16), true), safe(p.ServerID, 64), p.Timestamp)
	}
	return thinkingAppend{Type: "session.thinking.append", EventID: eventIDOf(id), Content: strings.Join(lines, "\n")}
}

// contextualUpdate is the client event that adds text to a conversation with an ElevenLabs agent. It does not
// interrupt the agent.
type contextualUpdate struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// monitorCommand is the client event that does so over a connection that monitors the conversation.
type monitorCommand struct {
	CommandType string `json:"command_type"`
	Parameters  struct {
		ContextualUpdate string `json:"contextual_update"`
	} `json:"parameters"`
}

func updateContext(_ string, _ Role, batch []*pending) any {
	return contextualUpdate{Type: "contextual_update", Text: joined(batch)}
}

func commandMonitor(_ string, _ Role, batch []*pending) any {
	c := monitorCommand{CommandType: "contextual_update"}
	c.Parameters.ContextualUpdate = joined(batch)
	return c
}

// joined returns the messages as the lines of one text.
func joined(batch []*pending) string {
	var lines []string
	for _, p := range batch {
		for _, part := range p.Parts {
			lines = append(lines, part.Text)
		}
	}
	return strings.Join(lines, "\n")
}
