package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// Bounds of the event types that one server offers.
const (
	maxEventTypes = 1000
	maxEventName  = 256     // bytes
	maxCursor     = 2 << 10 // bytes; also bounds the id of an event
)

// Events makes the requests of MCP Events (SEP-3415) in a session, in both eras. It is
// stateless: any number of them may use one session.
type Events struct{ s *Session }

// NewEvents returns an Events for the session.
func NewEvents(s *Session) Events { return Events{s} }

// Offered reports whether the server declares the extension.
func (e Events) Offered() bool { return e.s.Info().Capabilities.Events }

// Changed returns a channel that receives when the server announces that its event types
// changed. Its capacity is one and it is never closed.
func (e Events) Changed() <-chan struct{} { return e.s.events.changed }

// EventQuery is a subscription to events of one type.
type EventQuery struct {
	Name      string
	Arguments json.RawMessage // a JSON object; nil: none
	Cursor    string          // where to continue; "": from now on
}

func (q EventQuery) params() map[string]any {
	p := map[string]any{"name": q.Name, "cursor": nil}
	if q.Cursor != "" {
		p["cursor"] = q.Cursor
	}
	if q.Arguments != nil {
		p["arguments"] = q.Arguments
	}
	return p
}

// EventPage is the answer to a poll.
type EventPage struct {
	Events    []json.RawMessage // see [DecodeEvent]
	Cursor    string            // "": the server gave none
	Truncated bool              // events before these are missing
	HasMore   bool
	NextPoll  time.Duration // 0: the server did not say
}

// List fetches the types of events, within one request timeout. Entries without a name or a
// known mode are left out, and so are those after the first 1,000. If the list does not end
// within the pages and bytes of [Limits], the error is a [*LimitError].
func (e Events) List(ctx context.Context) ([]mcp.EventType, error) {
	requests, limits := &e.s.requests, e.s.opts.Limits
	limit := requests.requestTimeout()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: %w (%s for all pages)", mcp.MethodListEvents, errDeadline, limit))
	defer cancel()
	var types []mcp.EventType
	var params map[string]any // nil: the first page
	seen := map[string]struct{}{}
	size, entries := int64(0), 0
	for range limits.MaxPages {
		raw, err := requests.request(ctx, mcp.MethodListEvents, params)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mcp.MethodListEvents, err)
		}
		if size += int64(len(raw)); size > limits.MaxList {
			return nil, &LimitError{mcp.MethodListEvents, fmt.Sprintf("%d bytes", limits.MaxList)}
		}
		var page struct {
			Events []json.RawMessage `json:"events"`
			Next   *string           `json:"nextCursor"`
		}
		if json.Unmarshal(raw, &page) != nil {
			return nil, errors.New(mcp.MethodListEvents + ": malformed result")
		}
		page.Events = page.Events[:min(len(page.Events), maxEventTypes-entries)]
		entries += len(page.Events)
		for _, entry := range page.Events {
			if t, ok := decodeEventType(entry); ok {
				types = append(types, t)
			}
		}
		if page.Next == nil || entries == maxEventTypes {
			return types, nil
		}
		if _, again := seen[*page.Next]; again {
			return nil, &LimitError{mcp.MethodListEvents, "repeated cursor"}
		}
		seen[*page.Next] = struct{}{}
		params = map[string]any{"cursor": *page.Next}
	}
	return nil, &LimitError{mcp.MethodListEvents, fmt.Sprintf("%d pages", limits.MaxPages)}
}

// decodeEventType reads one entry of a list, ignoring members of the wrong type.
func decodeEventType(raw json.RawMessage) (mcp.EventType, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return mcp.EventType{}, false
	}
	t := mcp.EventType{InputSchema: members["inputSchema"], PayloadSchema: members["payloadSchema"]}
	var delivery []mcp.DeliveryMode
	if json.Unmarshal(members["name"], &t.Name) != nil || t.Name == "" || len(t.Name) > maxEventName || json.Unmarshal(members["delivery"], &delivery) != nil {
		return mcp.EventType{}, false
	}
	_ = json.Unmarshal(members["description"], &t.Description) // a description that is not a string is ignored
	for _, mode := range delivery {
		switch mode {
		case mcp.DeliverPoll, mcp.DeliverPush, mcp.DeliverWebhook:
			t.Delivery = append(t.Delivery, mode)
		}
	}
	return t, len(t.Delivery) > 0
}

// Poll asks for the events after the cursor, at most 100.
func (e Events) Poll(ctx context.Context, q EventQuery) (EventPage, error) {
	params := q.params()
	params["maxEvents"] = 100
	raw, err := e.s.requests.request(ctx, mcp.MethodPollEvents, params)
	if err != nil {
		return EventPage{}, fmt.Errorf("%s: %w", mcp.MethodPollEvents, err)
	}
	var page struct {
		Events    []json.RawMessage `json:"events"`
		Cursor    *string           `json:"cursor"`
		Truncated bool              `json:"truncated"`
		HasMore   bool              `json:"hasMore"`
		NextPoll  float64           `json:"nextPollMs"`
	}
	if json.Unmarshal(raw, &page) != nil {
		return EventPage{}, errors.New(mcp.MethodPollEvents + ": malformed result")
	}
	out := EventPage{Events: page.Events, Truncated: page.Truncated, HasMore: page.HasMore}
	if page.Cursor != nil && len(*page.Cursor) <= maxCursor {
		out.Cursor = *page.Cursor
	}
	if page.NextPoll > 0 {
		out.NextPoll = time.Duration(min(page.NextPoll, float64(maxNextPoll/time.Millisecond))) * time.Millisecond
	}
	return out, nil
}

// maxNextPoll is the longest wait that a server can ask for.
const maxNextPoll = time.Hour

// DecodeEvent reads one event. It fails if the id, the name, or data that is an object is
// missing.
func DecodeEvent(raw json.RawMessage) (mcp.EventOccurrence, error) {
	var members map[string]json.RawMessage
	var o mcp.EventOccurrence
	if json.Unmarshal(raw, &members) != nil {
		return o, errors.New("the event is not an object")
	}
	if json.Unmarshal(members["eventId"], &o.EventID) != nil || o.EventID == "" || len(o.EventID) > maxCursor {
		return o, errors.New("the event has no usable eventId")
	}
	if json.Unmarshal(members["name"], &o.Name) != nil || o.Name == "" || len(o.Name) > maxEventName {
		return o, errors.New("the event has no usable name")
	}
	if o.Data = members["data"]; len(o.Data) == 0 || o.Data[0] != '{' {
		return o, errors.New("the data of the event is not an object")
	}
	_ = json.Unmarshal(members["timestamp"], &o.Timestamp) // a timestamp of the wrong type is ignored
	o.Cursor = decodeCursor(members["cursor"])
	return o, nil
}

func decodeCursor(raw json.RawMessage) (cursor string) {
	if json.Unmarshal(raw, &cursor) != nil || len(cursor) > maxCursor {
		return ""
	}
	return cursor
}

// EventFailure returns which failure defined by the extension an error is, in either of its
// numberings; "" if it is none of them.
func EventFailure(err error) mcp.EventFailure {
	if e, ok := errors.AsType[*RPCError](err); ok {
		return mcp.EventFailureOf(e.Code, e.Message)
	}
	return ""
}

// clientCapabilities returns the capabilities declared to servers if there is no client behind
// the session.
func clientCapabilities(srv config.Server) any {
	if srv.Events.Off {
		return struct{}{}
	}
	return map[string]any{"extensions": map[string]any{mcp.ExtensionEvents: struct{}{}}}
}
