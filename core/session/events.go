package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// Limits for the event types that a server offers.
const (
	maxEventTypes = 1000
	maxEventName  = 256     // in bytes
	maxCursor     = 2 << 10 // in bytes; also limits an event's id
)

// EventTypesChanged returns a channel that receives a value when the server announces that its
// event types have changed. It has capacity 1 and is never closed.
func (s *Session) EventTypesChanged() <-chan struct{} { return s.eventTypesChanged }

// EventQuery selects events of one type.
type EventQuery struct {
	Name      string
	Arguments json.RawMessage // a JSON object; nil if there are none
	Cursor    string          // position from which to resume; empty means from now on
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

// EventPage is the response to a poll.
type EventPage struct {
	Events    []json.RawMessage // see [DecodeEvent]
	Cursor    string            // empty if the server sent none
	Truncated bool              // earlier events are missing
	HasMore   bool
	NextPoll  time.Duration // 0 if the server did not specify it
}

// ListEventTypes fetches the event types within one request timeout. It omits entries without a
// name or a known delivery mode, and all entries after the first 1,000. The [Limits] hold as in
// [Session.List].
func (s *Session) ListEventTypes(ctx context.Context) ([]mcp.EventType, error) {
	var types []mcp.EventType
	entries := 0
	err := s.pages(ctx, mcp.MethodListEvents, "events", func(_ json.RawMessage, page []json.RawMessage) {
		page = page[:min(len(page), maxEventTypes-entries)]
		entries += len(page)
		for _, entry := range page {
			if t, ok := decodeEventType(entry); ok {
				types = append(types, t)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return types, nil
}

// decodeEventType decodes one entry of a list. It ignores members that have the wrong type.
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

// PollEvents requests at most 100 events after the cursor.
func (s *Session) PollEvents(ctx context.Context, q EventQuery) (EventPage, error) {
	params := q.params()
	params["maxEvents"] = 100
	raw, err := s.request(ctx, mcp.MethodPollEvents, params)
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

// maxNextPoll is the longest wait that a server can request.
const maxNextPoll = time.Hour

// DecodeEvent decodes one event. It returns an error if the id or name is missing, or if data is
// not an object.
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
	_ = json.Unmarshal(members["timestamp"], &o.Timestamp) // a timestamp that has the wrong type is ignored
	o.Cursor = decodeCursor(members["cursor"])
	return o, nil
}

func decodeCursor(raw json.RawMessage) (cursor string) {
	if json.Unmarshal(raw, &cursor) != nil || len(cursor) > maxCursor {
		return ""
	}
	return cursor
}

// EventFailure returns the failure of MCP Events that err represents, in either numbering. It
// returns an empty string if err is not such a failure.
func EventFailure(err error) mcp.EventFailure {
	if e, ok := errors.AsType[*RPCError](err); ok {
		return mcp.EventFailureOf(e.Code, e.Message)
	}
	return ""
}

// EventMessage is an undecoded message on an event stream.
type EventMessage struct {
	Method string
	Params json.RawMessage
}

// EventNews is a decoded message. Event is set for an event, Err for an error or the end of the
// subscription; neither is set for other messages.
type EventNews struct {
	Event     *mcp.EventOccurrence
	Cursor    string // the server's position in the event log; empty if not sent
	Truncated bool   // with an "active" message: events before the cursor are missing
	Err       *RPCError
}

// Decode decodes the message. If it returns an error, the message can be ignored.
func (m EventMessage) Decode() (EventNews, error) {
	if m.Method == mcp.NotificationEventsEvent {
		o, err := DecodeEvent(m.Params)
		return EventNews{Event: &o, Cursor: o.Cursor}, err
	}
	var p struct {
		Cursor    json.RawMessage `json:"cursor"`
		Truncated bool            `json:"truncated"`
		Error     struct {
			Code    int             `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"error"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return EventNews{}, fmt.Errorf("malformed %s", m.Method)
	}
	n := EventNews{Cursor: decodeCursor(p.Cursor), Truncated: p.Truncated}
	switch m.Method {
	case mcp.NotificationEventsError, mcp.NotificationEventsTerminated:
		n.Err = &RPCError{Code: p.Error.Code, Message: p.Error.Message, Data: p.Error.Data}
	}
	return n, nil
}

// StreamEvents asks the server to push events and returns when the stream ends. It returns nil if
// the server ended the stream, the cause of ctx if ctx is done, and otherwise the error. receive is
// called for each message by the goroutine that reads from the server, but never after StreamEvents
// has returned. It must not block or use the session.
func (s *Session) StreamEvents(ctx context.Context, q EventQuery, receive func(EventMessage)) error {
	id := s.nextID()
	defer s.events.add(id, receive)()
	_, err := s.send(ctx, s.conn, s.Info().ProtocolVersion, id, mcp.MethodStreamEvents, q.params())
	if err != nil {
		return fmt.Errorf("%s: %w", mcp.MethodStreamEvents, err)
	}
	return nil
}

// notifyEvents handles a notification of MCP Events. Messages on unknown streams are dropped,
// because events are only hints and resources are compared after a loss.
func (s *Session) notifyEvents(n *wire.Notification) {
	if n.Method != mcp.NotificationEventsChanged {
		s.events.call(n.Meta.Subscription.ID, EventMessage{n.Method, n.Raw})
		return
	}
	s.eventTypesChanged.Send()
}

// EventWebhook is the URL that receives the events of a subscription.
type EventWebhook struct {
	URL    string
	Secret string        // starts with whsec_; not needed by UnsubscribeEvents
	TTL    time.Duration // requested lifetime without a refresh; the server may change it
}

// EventSubscription is the response to a subscription or its refresh.
type EventSubscription struct {
	ID        string
	Cursor    string    // empty if the server sent none
	Until     time.Time // when it expires without a refresh; zero if it never expires
	Truncated bool      // events before the cursor are missing
}

// SubscribeEvents creates or refreshes a subscription whose events are sent to a URL. The server
// sends a challenge to the URL before it responds.
func (s *Session) SubscribeEvents(ctx context.Context, q EventQuery, to EventWebhook) (EventSubscription, error) {
	params := q.params()
	params["delivery"] = map[string]any{"mode": mcp.DeliverWebhook, "url": to.URL, "secret": to.Secret}
	params["ttlMs"] = to.TTL.Milliseconds()
	raw, err := s.request(ctx, mcp.MethodSubscribeEvents, params)
	if err != nil {
		return EventSubscription{}, fmt.Errorf("%s: %w", mcp.MethodSubscribeEvents, err)
	}
	var result struct {
		ID        string          `json:"id"`
		Cursor    json.RawMessage `json:"cursor"`
		Until     *time.Time      `json:"refreshBefore"`
		Truncated bool            `json:"truncated"`
	}
	if json.Unmarshal(raw, &result) != nil || result.ID == "" || len(result.ID) > maxCursor {
		return EventSubscription{}, errors.New(mcp.MethodSubscribeEvents + ": malformed result")
	}
	out := EventSubscription{ID: result.ID, Cursor: decodeCursor(result.Cursor), Truncated: result.Truncated}
	if result.Until != nil {
		out.Until = *result.Until
	}
	return out, nil
}

// UnsubscribeEvents ends a subscription whose events are sent to a URL.
func (s *Session) UnsubscribeEvents(ctx context.Context, q EventQuery, to EventWebhook) error {
	params := map[string]any{"name": q.Name, "delivery": map[string]any{"url": to.URL}}
	if q.Arguments != nil {
		params["arguments"] = q.Arguments
	}
	if _, err := s.request(ctx, mcp.MethodUnsubscribeEvents, params); err != nil {
		return fmt.Errorf("%s: %w", mcp.MethodUnsubscribeEvents, err)
	}
	return nil
}
