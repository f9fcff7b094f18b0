package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// EventWebhook is the URL to which the events of a subscription are sent.
type EventWebhook struct {
	URL    string
	Secret string        // whsec_…; Unsubscribe does not need it
	TTL    time.Duration // the requested lifetime without a refresh; the server decides
}

// EventSubscription is the answer to a subscription, or to its refresh.
type EventSubscription struct {
	ID        string
	Cursor    string    // "": the server gave none
	Until     time.Time // when the subscription ends without a refresh; zero: never
	Truncated bool      // events before the cursor are missing
}

// Subscribe makes or refreshes a subscription whose events are sent to a URL. The server sends
// a challenge to the URL before it answers.
func (e Events) Subscribe(ctx context.Context, q EventQuery, to EventWebhook) (EventSubscription, error) {
	params := q.params()
	params["delivery"] = map[string]any{"mode": mcp.DeliverWebhook, "url": to.URL, "secret": to.Secret}
	params["ttlMs"] = to.TTL.Milliseconds()
	raw, err := e.s.requests.request(ctx, mcp.MethodSubscribeEvents, params)
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

// Unsubscribe ends the subscription whose events are sent to a URL.
func (e Events) Unsubscribe(ctx context.Context, q EventQuery, to EventWebhook) error {
	params := map[string]any{"name": q.Name, "delivery": map[string]any{"url": to.URL}}
	if q.Arguments != nil {
		params["arguments"] = q.Arguments
	}
	if _, err := e.s.requests.request(ctx, mcp.MethodUnsubscribeEvents, params); err != nil {
		return fmt.Errorf("%s: %w", mcp.MethodUnsubscribeEvents, err)
	}
	return nil
}
