package serve

import (
	"encoding/json"
	"errors"

	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// listen is one subscriptions/listen of the modern era.
type listen struct {
	sub *subscriptions.Subscriber
	ack []byte // the first message
	end json.RawMessage
	// empty says that nothing is left of what was asked for.
	empty bool
}

// filter is what a listen asks for, or what is honoured.
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}

// listen subscribes as the message asks. Whoever calls it closes the subscriber.
func (s *Server) listen(m *message) (*listen, *Error) {
	want, err := parseFilter(m.fields["notifications"])
	if err != nil {
		return nil, err
	}
	has := s.listsOffered()
	honoured := filter{
		Tools:     want.Tools && has.Tools,
		Prompts:   want.Prompts && has.Prompts,
		Resources: want.Resources && has.Resources,
	}
	sub, failed := s.subs.Open(subscriptions.Lists{Tools: honoured.Tools, Prompts: honoured.Prompts, Resources: honoured.Resources})
	if failed != nil {
		return nil, refuse(CodeInternal, "%s", failed)
	}
	if has.Resources {
		honoured.URIs = subscribeAll(sub, want.URIs)
	}
	meta := map[string]json.RawMessage{metaSubscription: m.id}
	return &listen{
		sub: sub,
		ack: notification(noteAcknowledged, struct {
			Meta     map[string]json.RawMessage `json:"_meta"`
			Honoured filter                     `json:"notifications"`
		}{meta, honoured}),
		end: encode(struct {
			Type string                     `json:"resultType"`
			Meta map[string]json.RawMessage `json:"_meta"`
		}{"complete", meta}),
		empty: !honoured.Tools && !honoured.Prompts && !honoured.Resources && len(honoured.URIs) == 0,
	}, nil
}

// subscribeAll returns the URIs that could be subscribed, none twice. What cannot
// be, also for want of room, is left out: the client sees it and can ask again.
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

// parseFilter reads the parameter "notifications". What it asks for and we do not
// know is not honoured.
func parseFilter(raw json.RawMessage) (f filter, err *Error) {
	fields, failed := object(raw)
	if failed != nil {
		return f, refuse(CodeInvalidParams, `"notifications" must be an object`)
	}
	for name, into := range map[string]any{
		"toolsListChanged":      &f.Tools,
		"promptsListChanged":    &f.Prompts,
		"resourcesListChanged":  &f.Resources,
		"resourceSubscriptions": &f.URIs,
	} {
		if value := fields[name]; value != nil && json.Unmarshal(value, into) != nil {
			return f, refuse(CodeInvalidParams, "notifications.%s has the wrong type", name)
		}
	}
	return f, nil
}

// subscribeError is the refusal of a resources/subscribe.
func subscribeError(err error) *Error {
	if errors.Is(err, subscriptions.ErrTooMany) || errors.Is(err, subscriptions.ErrClosed) {
		return refuse(CodeInternal, "%s", err)
	}
	return refuse(CodeInvalidParams, "%s", err)
}
