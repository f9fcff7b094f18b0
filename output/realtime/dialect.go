package realtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
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

// Key returns the environment variable and the handshake header of the API key.
func (d Dialect) Key() (variable, header string) {
	lang, ok := d.of("")
	if !ok {
		return "", ""
	}
	return lang.api().keyVariable, lang.api().keyHeader
}

// of returns the implementation of a dialect, for the running session with this ID, or for a new one
// if session is "". It returns false for an unknown dialect, and for a session ID if the dialect has
// none. A new dialect is one file, and one line here and above.
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

// A dialect is how one API adds text to a conversation and acknowledges it. Dialects are comparable
// and stateless.
type dialect interface {
	api() api
	// create returns the client event that adds the messages as one item with this ID. If the
	// API has event IDs, the ID of the event is eventIDOf(id).
	create(id string, role Role, batch []*pending) ([]byte, error)
	// respond returns the client event that asks the model to respond, and the ID of that event,
	// which contains id; nil if the API has no such event.
	respond(id string) (frame []byte, eventID string)
	// decode parses a server event or, if whole is false, the beginning of one. It returns false
	// for irrelevant events.
	decode(b []byte, whole bool) (serverEvent, bool)
}

// api holds the constants of an API.
type api struct {
	home string // the URL of the API, up to the version
	path string // of the WebSocket, after the version
	// keyVariable and keyHeader are the environment variable and the header of the API key.
	keyVariable, keyHeader string
	limits                 limits // of one item
	// hello is the first client event of a session that we open; nil: there is none.
	hello []byte
	// opens means that nothing may be sent before the event that opens the conversation.
	opens bool
	// unconfirmed means that items are not acknowledged: an item counts as delivered when the
	// endpoint has answered a ping that was sent after it.
	unconfirmed bool
	// refusal is a close code that is permanent, in addition to those from 4000 on; 0: none.
	refusal websocket.StatusCode
}

// Prefixes of the IDs of our items and client events. An error that names such an ID is about our
// event.
const (
	itemPrefix       = "mt_"
	itemEventPrefix  = "evt_" + itemPrefix
	replyEventPrefix = "evr_mt_"
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

// serverEvent is the relevant part of a server event.
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

	// Set by the dialect.
	confirms string  // the ID of the client event that this event acknowledges; "": none
	opens    dialect // the dialect of the conversation that this event opens; nil: it opens none
	closed   bool    // it is the last event of the session
	answer   []byte  // the client event with which a Session must answer it; nil: none
}

// duplicate reports whether an error means that an item with this ID already exists.
func (e *serverEvent) duplicate() bool {
	text := strings.ToLower(e.Error.Code + " " + e.Error.Message)
	return strings.Contains(text, "already exist") || strings.Contains(text, "already_exist") || strings.Contains(text, "duplicate")
}

// temporary reports whether a retry after this error can succeed.
func (e *serverEvent) temporary() bool {
	return slices.ContainsFunc([]string{"rate_limit", "server_error", "overloaded", "service_unavailable"}, func(s string) bool {
		return strings.Contains(e.Error.Type, s) || strings.Contains(e.Error.Code, s)
	})
}

// permanent reports whether s, the type and code of an error or the reason of a close frame, means
// that another attempt would fail.
func permanent(s string) bool {
	return slices.ContainsFunc([]string{"invalid_request_error", "model_not_found", "authentication_error", "permission", "invalid_api_key"},
		func(part string) bool { return strings.Contains(s, part) })
}

// reason describes an error in one line.
func (e *serverEvent) reason() string {
	parts := []string{}
	for _, s := range []string{e.Error.Type, e.Error.Code, e.Error.Message} {
		if s != "" {
			parts = append(parts, printable.Line(s, 300))
		}
	}
	return strings.Join(parts, ": ")
}

// peekSize is how many bytes of a server event are inspected. Events about our items are much
// smaller; of larger events only the type is relevant.
const peekSize = 64 << 10

// eventType returns the member "type" of the outermost object. It recognizes most irrelevant events,
// such as audio, by their first bytes.
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
