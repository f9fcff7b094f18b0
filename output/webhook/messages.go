package webhook

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"

	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

const headerSubscription = "X-MCP-Subscription-Id"

// eventMessage is the POST of an event to a subscriber. If own is set, it has an id of its own,
// which is the same in every attempt and process; otherwise that of the event.
func (r *record) eventMessage(o *mcpevents.Occurrence, cursor string, own bool) *Message {
	id := o.ID
	if own {
		sum := sha256.Sum256([]byte(r.ID + " " + o.ID))
		id = "msg_event_" + hex.EncodeToString(sum[:12])
	}
	return r.message(id, o.Body(cursor))
}

// control returns a POST that is not an event: a body with a type.
func (r *record) control(kind string, members map[string]any) *Message {
	body := map[string]any{"type": kind}
	maps.Copy(body, members)
	data, _ := json.Marshal(body) // strings and numbers always encode
	return r.message("msg_"+kind+"_"+rand.Text(), data)
}

func (r *record) message(id string, body []byte) *Message {
	return &Message{URL: r.URL, ID: id, Body: body, Header: http.Header{headerSubscription: {r.ID}}}
}

// terminated returns the message that the subscription has ended before its time, and why.
func (r *record) terminated(why mcpevents.Failure, reason string) *Message {
	return r.control("terminated", map[string]any{"error": map[string]any{
		"code": r.Numbering.Code(why), "message": why, "data": map[string]any{"reason": reason},
	}})
}

// delivery is the parameter "delivery" of a request.
type delivery struct {
	Mode, URL, Secret *string
}

func parseDelivery(raw json.RawMessage) (d delivery, err error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return d, mcpevents.Invalid("delivery must be an object")
	}
	for name, into := range map[string]**string{"mode": &d.Mode, "url": &d.URL, "secret": &d.Secret} {
		if value, ok := members[name]; ok && json.Unmarshal(value, into) != nil {
			return d, mcpevents.Invalid("delivery." + name + " must be a string")
		}
	}
	if d.URL == nil {
		return d, mcpevents.Invalid("delivery.url is missing")
	}
	return d, nil
}

// checkMode rejects any delivery mode but webhook.
func (d *delivery) checkMode(r *mcpserver.Request) error {
	if d.Mode != nil && *d.Mode != string(mcpevents.Webhook) {
		return mcpevents.Fail(r, mcpevents.Unsupported, map[string]any{"feature": "deliveryMode", "value": bounded(*d.Mode)})
	}
	return nil
}
