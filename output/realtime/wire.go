package realtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	typeItemCreate     = "conversation.item.create"
	typeResponseCreate = "response.create"
)

// The ids of our events begin so: an error that names one is about us.
const (
	itemEventPrefix  = "evt_mt_"
	replyEventPrefix = "evr_mt_"
)

// ItemCreate is the client event that adds an item to the conversation.
type ItemCreate struct {
	Type    string `json:"type"`
	EventID string `json:"event_id"`
	Item    Item   `json:"item"`
}

// Item is a message in the conversation.
type Item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Role    Role   `json:"role"`
	Content []Part `json:"content"`
}

// Part is a piece of a message.
type Part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// ResponseCreate is the client event that lets the model answer.
type ResponseCreate struct {
	Type    string `json:"type"`
	EventID string `json:"event_id"`
}

// encode gives one line of JSON without a line feed.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode client event: %w", err)
	}
	return printable.JSON(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

// serverEvent is what we need of a server event.
type serverEvent struct {
	Type    string `json:"type"`
	EventID string `json:"event_id"`
	Item    struct {
		ID string `json:"id"`
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
}

// peekSize is how much of a server event is looked at. Events about our items
// are far smaller; of larger ones only the type matters.
const peekSize = 64 << 10

// decodeServer reads a server event, or the beginning of a large one. It returns
// false for events that mean nothing to us, most of which (audio) are recognised
// by their first bytes.
func decodeServer(b []byte, whole bool) (serverEvent, bool) {
	var e serverEvent
	e.Type = eventType(b)
	switch e.Type {
	case "conversation.item.added", "conversation.item.done", "conversation.item.created",
		"response.created", "response.done", "error":
	default:
		return e, false
	}
	if whole && json.Unmarshal(b, &e) != nil {
		// An error's code may be of another type at compatible endpoints; what was
		// decoded up to there, and the type, still count.
		e.Type = eventType(b)
	}
	return e, true
}

// eventType finds the member "type" of the outermost object.
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

// DryRun writes the client events that would be sent as NDJSON, without merging
// them or holding them back. It belongs to one goroutine.
type DryRun struct {
	W       io.Writer
	Message MessageOptions
	Respond bool // a response.create after each message

	queue *queue // of which only what is known of resources matters
}

// Write writes the client events of one event, with one call of W.Write, and
// reports whether there were any: there are none if it is no update, or one that
// is not newer than what is known.
func (d *DryRun) Write(e *event.Event) (bool, error) {
	m, err := NewMessage(e, d.Message)
	if err != nil {
		return false, nil
	}
	if d.queue == nil {
		d.queue = newQueue(QueueOptions{Window: -1, Every: -1})
		d.queue.hasten = true // nothing waits
	}
	now := time.Now()
	if !d.queue.offer(m, now) {
		return false, nil
	}
	d.queue.take(now)
	out, err := encode(m.Create)
	if err != nil {
		return false, err
	}
	out = append(out, '\n')
	if d.Respond {
		r, err := encode(responseCreate(strings.TrimPrefix(m.ItemID, "mt_")))
		if err != nil {
			return false, err
		}
		out = append(append(out, r...), '\n')
	}
	if _, err := d.W.Write(out); err != nil {
		return false, fmt.Errorf("write client event: %w", err)
	}
	return true, nil
}

func responseCreate(id string) ResponseCreate {
	return ResponseCreate{Type: typeResponseCreate, EventID: replyEventPrefix + id}
}
