package realtime

import (
	"strings"

	"github.com/coder/websocket"
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

// of returns the dialect for a running session with an id, or for one that is to begin.
// A new dialect is one file and one line here and above.
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

// dialectOfPath returns the dialect of a path that only one API has.
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
	// create returns the client event that adds the messages as one item. If the API has
	// ids of events, its id is itemEventPrefix and the item id without its prefix.
	create(id string, role Role, batch []*pending) ([]byte, error)
	// respond returns the client event that asks the model to respond, and its event id;
	// nil if the API has none.
	respond(id string) (frame []byte, eventID string)
	// decode parses a server event, or the beginning of one. It returns false for events
	// that do not matter here.
	decode(b []byte, whole bool) (serverEvent, bool)
}

// api is what is fixed about an API.
type api struct {
	home string // its URL, up to the version
	path string // of the WebSocket, after the version
	// keyVariable and keyHeader are those of the key.
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
	// refusal is the code of close frames that no other attempt would change, besides
	// those of 4000 and above; 0: there is none.
	refusal websocket.StatusCode
}

const itemPrefix = "mt_"

// batchID returns the id of the item for a batch.
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
