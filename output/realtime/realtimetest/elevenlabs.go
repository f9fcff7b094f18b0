package realtimetest

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// agent is the state of a [Conn] that is a conversation with an ElevenLabs agent or monitors one.
type agent struct {
	monitor bool           // whether the connection monitors a conversation
	begun   bool           // whether the client has sent its initiation data
	pings   map[int64]bool // IDs of unanswered pings
}

// receive handles one message from the client, as strictly as the published types require. A
// conversation starts when the client sends its initiation data; the endpoint responds with the
// conversation's metadata.
func (a *agent) receive(c *Conn, b []byte) {
	var ev struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		EventID int64  `json:"event_id"`

		CommandType string            `json:"command_type"`
		Parameters  map[string]string `json:"parameters"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if !bytes.Contains(b, []byte("conversation_initiation_client_data")) {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(&ev); err != nil {
		c.reject("invalid message: " + string(b))
		return
	}
	switch {
	case a.monitor && ev.CommandType == "contextual_update" && ev.Type == "":
		c.update(ev.Parameters["contextual_update"])
	case a.monitor, ev.CommandType != "":
		c.reject("invalid command: " + string(b))
	case ev.Type == "conversation_initiation_client_data" && !a.begun:
		a.begun = true
		c.Say(map[string]any{"type": "conversation_initiation_metadata", "conversation_initiation_metadata_event": map[string]any{
			"conversation_id": "conv_1", "agent_output_audio_format": "pcm_16000", "user_input_audio_format": "pcm_16000"}})
		if c.e.Greet != nil {
			c.e.Greet(c)
		}
	case !a.begun:
		c.reject("the conversation has not begun: " + string(b))
	case ev.Type == "contextual_update":
		c.update(ev.Text)
	case ev.Type == "pong" && a.take(c, ev.EventID):
	default:
		c.reject("invalid message: " + string(b))
	}
}

func (a *agent) take(c *Conn, id int64) (sent bool) {
	c.mu.Lock()
	sent = a.pings[id]
	delete(a.pings, id)
	c.mu.Unlock()
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.e.pongs++
	c.e.notify()
	return sent
}

// reject ends a conversation in the way that ElevenLabs does.
func (c *Conn) reject(why string) {
	c.e.problem("%s", why)
	_ = c.Close(websocket.StatusPolicyViolation, why[:min(len(why), 100)])
}

// update handles a contextual update, to which there is no response.
func (c *Conn) update(text string) {
	if text == "" {
		c.reject("an empty update")
		return
	}
	it := ReceivedItem{Conn: c.N, Texts: strings.Split(text, "\n"), At: time.Now()}
	c.e.mu.Lock()
	c.e.items = append(c.e.items, it)
	c.e.notify()
	c.e.mu.Unlock()
	if c.e.Create != nil {
		c.e.Create(c, it)
	}
}

// Probe sends an ElevenLabs ping event, which clients must answer.
func (c *Conn) Probe(id int64) {
	c.mu.Lock()
	if c.agent.pings == nil {
		c.agent.pings = map[int64]bool{}
	}
	c.agent.pings[id] = true
	c.mu.Unlock()
	c.Say(map[string]any{"type": "ping", "ping_event": map[string]any{"event_id": id, "ping_ms": nil}})
}

// Pongs returns the number of answers to [Conn.Probe].
func (e *Endpoint) Pongs() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pongs
}
