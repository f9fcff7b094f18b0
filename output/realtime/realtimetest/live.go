package realtimetest

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
)

// maxTokens is how many tokens the content of an append may have.
const maxTokens = 500

// appendThinking handles an append of a GPT-Live session. The event must have all required
// members and no others. As no token is shorter than a byte, text of at most maxTokens bytes
// never has too many tokens. The item gets the event's id.
func (c *Conn) appendThinking(b []byte) {
	var ev struct {
		Type         string          `json:"type"`
		EventID      string          `json:"event_id"`
		DelegationID json.RawMessage `json:"delegation_id"`
		Content      string          `json:"content"`
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&ev); err != nil || ev.EventID == "" || string(ev.DelegationID) != "null" || ev.Content == "" || len(ev.Content) > maxTokens {
		c.e.problem("invalid append (%v): %s", err, b)
	}
	it := Item{Conn: c.N, EventID: ev.EventID, ID: ev.EventID, Texts: strings.Split(ev.Content, "\n"), At: time.Now()}
	c.e.mu.Lock()
	c.e.items = append(c.e.items, it)
	c.e.notify()
	c.e.mu.Unlock()
	if c.e.Create != nil {
		c.e.Create(c, it)
		return
	}
	c.Appended(it)
}

// Appended acknowledges an append.
func (c *Conn) Appended(it Item) {
	c.Say(map[string]any{"type": "session.thinking.appended", "event_id": "event_a", "client_event_id": it.EventID, "start_ms": 1, "end_ms": 2})
}

// FailLive reports an error about an event of a GPT-Live session.
func (c *Conn) FailLive(eventID, typ, code string) {
	c.Say(map[string]any{"type": "error", "event_id": "event_e",
		"error": map[string]any{"type": typ, "code": code, "message": "refused by the test", "client_event_id": eventID}})
}
