package serve

import (
	"encoding/json"
	"errors"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// listen is one subscriptions/listen of the modern era.
type listen struct {
	sub *subscriptions.Subscriber
	ack []byte // the first message
	end json.RawMessage
	// empty means that nothing of what was requested is honoured.
	empty bool
}

// listen subscribes as the message requests. The caller must close the subscriber.
func (s *Server) listen(m *message) (*listen, *Error) {
	want, err := parseFilter(m.fields["notifications"])
	if err != nil {
		return nil, err
	}
	has := s.opts.listsOffered()
	honoured := mcp.SubscriptionFilter{
		Tools:     want.Tools && has.Tools,
		Prompts:   want.Prompts && has.Prompts,
		Resources: want.Resources && has.Resources,
		Events:    want.Events && has.Events,
	}
	lists := subscriptions.Lists{Tools: honoured.Tools, Prompts: honoured.Prompts, Resources: honoured.Resources, Events: honoured.Events}
	sub, failed := s.subs.Open(lists)
	if failed != nil {
		return nil, errorf(mcp.CodeInternal, "%s", failed)
	}
	if has.Resources {
		honoured.URIs = subscribeAll(sub, want.URIs)
	}
	meta := map[string]json.RawMessage{mcp.MetaSubscriptionID: m.id}
	return &listen{
		sub: sub,
		ack: notification(mcp.NotificationAcknowledged, struct {
			Meta     map[string]json.RawMessage `json:"_meta"`
			Honoured mcp.SubscriptionFilter     `json:"notifications"`
		}{meta, honoured}),
		end: encode(struct {
			Type string                     `json:"resultType"`
			Meta map[string]json.RawMessage `json:"_meta"`
		}{"complete", meta}),
		empty: !lists.Any() && len(honoured.URIs) == 0,
	}, nil
}

// subscribeAll subscribes to URIs and returns those that succeeded, without duplicates.
// Others, including those beyond a limit, are left out: the client sees that in the
// acknowledgement and can retry.
func subscribeAll(sub *subscriptions.Subscriber, uris []string) (honoured []string) {
	seen := make(map[string]bool)
	for _, uri := range uris {
		if seen[uri] {
			continue
		}
		switch err := sub.Add(uri); {
		case err == nil:
			seen[uri] = true
			honoured = append(honoured, uri)
		case errors.Is(err, subscriptions.ErrTooMany):
			return honoured
		}
	}
	return honoured
}

// parseFilter decodes the parameter "notifications". Unknown members are ignored.
func parseFilter(raw json.RawMessage) (f mcp.SubscriptionFilter, err *Error) {
	fields, failed := object(raw)
	if failed != nil {
		return f, errorf(mcp.CodeInvalidParams, `"notifications" must be an object`)
	}
	for name, into := range map[string]any{
		"toolsListChanged":      &f.Tools,
		"promptsListChanged":    &f.Prompts,
		"resourcesListChanged":  &f.Resources,
		"eventsListChanged":     &f.Events,
		"resourceSubscriptions": &f.URIs,
	} {
		if value := fields[name]; value != nil && json.Unmarshal(value, into) != nil {
			return f, errorf(mcp.CodeInvalidParams, "notifications.%s has the wrong type", name)
		}
	}
	return f, nil
}

// subscribeError converts the error of a resources/subscribe.
func subscribeError(err error) *Error {
	if errors.Is(err, subscriptions.ErrTooMany) || errors.Is(err, subscriptions.ErrClosed) {
		return errorf(mcp.CodeInternal, "%s", err)
	}
	return errorf(mcp.CodeInvalidParams, "%s", err)
}
