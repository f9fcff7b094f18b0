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

// Dialect is the name of an endpoint's API. The empty string means OpenAI.
type Dialect string

// The supported dialects.
const (
	OpenAI     Dialect = "openai"     // OpenAI Realtime API
	GPTLive    Dialect = "gpt-live"   // OpenAI's Live API
	ElevenLabs Dialect = "elevenlabs" // ElevenLabs agents
)

// Dialects returns the names of all dialects.
func Dialects() []Dialect { return []Dialect{OpenAI, GPTLive, ElevenLabs} }

// Key returns the environment variable and the handshake header for the API key.
func (d Dialect) Key() (variable, header string) {
	lang, ok := d.of("")
	if !ok {
		return "", ""
	}
	return lang.api().keyVariable, lang.api().keyHeader
}

// of returns the implementation of a dialect, for the running session with the given ID or, if
// session is empty, for a new session. It returns false if the dialect is unknown, or if session is
// set and the dialect cannot attach to a running session. A new dialect needs its own file, and one
// line here and above.
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

// dialect implements how one API adds text to a conversation and acknowledges it. Dialects are
// comparable and stateless.
type dialect interface {
	api() api
	// create returns the client event that adds the messages as one item with the given ID. If the
	// API has event IDs, the event's ID is eventIDOf(id).
	create(id string, role Role, batch []*pending) ([]byte, error)
	// respond returns the client event that asks the model to respond, and the event's ID, which
	// contains id. The frame is nil if the API has no such event.
	respond(id string) (frame []byte, eventID string)
	// decode parses a server event or, if whole is false, the beginning of one. It returns false
	// for irrelevant events.
	decode(b []byte, whole bool) (serverEvent, bool)
}

// api contains the constants of an API.
type api struct {
	home string // base URL of the API, including the version
	path string // path of the WebSocket relative to home
	// keyVariable and keyHeader are the environment variable and the request header for the API
	// key.
	keyVariable, keyHeader string
	limits                 limits // limits for one item
	// hello is the first client event in a session that this program opens; nil if there is none.
	hello []byte
	// opens means that nothing may be sent until a server event has opened the conversation.
	opens bool
	// unconfirmed means that the API does not acknowledge items. An item counts as delivered when
	// the endpoint has answered a ping that was sent after it.
	unconfirmed bool
	// refusal is a close code that is permanent, in addition to codes from 4000 on; 0 if there is
	// none.
	refusal websocket.StatusCode
}

// Prefixes for the IDs of our items and client events. An error that contains such an ID is caused
// by our event.
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

// serverEvent contains the relevant parts of a server event.
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

	// The fields below are set by the dialect.
	confirms string  // ID of the client event that this event acknowledges; empty if none
	opens    dialect // dialect of the conversation that this event opens; nil if none
	closed   bool    // whether this is the last event of the session
	answer   []byte  // client event that a Session must send in response; nil if none
}

// duplicate reports whether an error means that an item with this ID already exists.
func (e *serverEvent) duplicate() bool {
	text := strings.ToLower(e.Error.Code + " " + e.Error.Message)
	return strings.Contains(text, "already exist") || strings.Contains(text, "already_exist") || strings.Contains(text, "duplicate")
}

// temporary reports whether a retry may succeed after this error.
func (e *serverEvent) temporary() bool {
	return slices.ContainsFunc([]string{"rate_limit", "server_error", "overloaded", "service_unavailable"}, func(s string) bool {
		return strings.Contains(e.Error.Type, s) || strings.Contains(e.Error.Code, s)
	})
}

// permanent reports whether another attempt would fail again. s is the type and code of an error,
// or the reason in a close frame.
func permanent(s string) bool {
	return slices.ContainsFunc([]string{"invalid_request_error", "model_not_found", "authentication_error", "permission", "invalid_api_key"},
		func(part string) bool { return strings.Contains(s, part) })
}

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

// peekSize is the number of bytes of a server event that are inspected. Events related to our items
// are much smaller; of larger events only the type is relevant.
const peekSize = 64 << 10

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
