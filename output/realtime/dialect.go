package realtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Dialect names the API of an endpoint. "" is OpenAI.
type Dialect string

// The dialects.
const (
	OpenAI     Dialect = "openai"     // the Realtime API
	GPTLive    Dialect = "gpt-live"   // OpenAI's Live API
	ElevenLabs Dialect = "elevenlabs" // ElevenLabs agents
)

// Dialects returns the names of all dialects.
func Dialects() []Dialect { return []Dialect{OpenAI, GPTLive, ElevenLabs} }

// Key returns where the key of the API is expected: the environment variable, and the
// header of the handshake.
func (d Dialect) Key() (variable, header string) {
	lang, ok := d.of("")
	if !ok {
		return "", ""
	}
	return lang.api().keyVariable, lang.api().keyHeader
}

// of returns the implementation of a dialect for the running session with an id, or, if
// session is "", for one that is to begin. It returns false for an unknown dialect and for an
// id with a dialect that has none. A new dialect is one file, and one line here and above.
func (d Dialect) of(session string) (dialect, bool) {
	switch d {
	case "", OpenAI:
		return openAI{}, session == ""
	case GPTLive:
		return gptLive{session: session}, true
	case ElevenLabs:
		return elevenLabs{session: session}, true
	}
	return nil, false
}

// dialectOfPath returns the dialect that the path of a URL tells, and false if several APIs
// may have the path.
func dialectOfPath(path string) (dialect, bool) {
	if strings.Contains(path, "/convai/") {
		return elevenLabs{}, true
	}
	return nil, false
}

// A dialect is how one API adds text to a conversation and acknowledges it. Dialects
// are comparable and have no state.
type dialect interface {
	api() api
	// create returns the client event that adds the messages as one item with this id. If the
	// API has ids of events, the id of the event is eventIDOf(id).
	create(id string, role Role, batch []*pending) ([]byte, error)
	// respond returns the client event that asks the model to respond, and the id of that
	// event, which is made from id; nil if the API has no such event.
	respond(id string) (frame []byte, eventID string)
	// decode parses a server event or, if whole is false, the beginning of one. It returns
	// false for events that do not matter here.
	decode(b []byte, whole bool) (serverEvent, bool)
}

// api holds the constants of an API.
type api struct {
	home string // the URL of the API, up to the version
	path string // of the WebSocket, after the version
	// keyVariable and keyHeader are the environment variable and the header of the API key.
	keyVariable, keyHeader string
	// limits bound one item.
	limits limits
	// hello is the first client event of a session of our own; nil: there is none.
	hello []byte
	// opens says that nothing may be sent before an event that opens the conversation.
	opens bool
	// unconfirmed says that items are not acknowledged: one counts as delivered when the
	// endpoint has answered a ping that was sent after it.
	unconfirmed bool
	// refusal is a code of close frames after which another attempt would fail, too,
	// besides those of 4000 and above; 0: there is none.
	refusal websocket.StatusCode
}

const itemPrefix = "mt_"

// batchID returns the id of the item that has the messages of a batch.
func batchID(batch []*pending) string {
	if len(batch) == 1 {
		return batch[0].ItemID
	}
	ids := make([]string, len(batch))
	for i, p := range batch {
		ids[i] = p.ItemID
	}
	return hashID(ids...)
}

// eventIDOf returns the id of the client event that creates an item.
func eventIDOf(itemID string) string { return "evt_" + itemID }

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
