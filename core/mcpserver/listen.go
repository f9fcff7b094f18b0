package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// listen is one subscriptions/listen request of the modern era.
type listen struct {
	sub *subscriptions.Subscriber
	ack []byte          // the acknowledgement, sent first
	end json.RawMessage // result to send when the server ends the listen
	// empty is true if the server honours none of the requested subscriptions.
	empty    bool
	lists    subscriptions.Lists // those whose changes are sent
	messages *mailbox            // task notifications; nil if none were requested
}

// maxTaskNotes limits the number of tasks for which a notification to a slow client can be pending.
const maxTaskNotes = 256

// listen opens the subscriptions that the message requests. Task notifications stop when ctx is
// done. The caller must close the subscriber.
func (s *Server) listen(ctx context.Context, m *message, principal string) (*listen, *Error) {
	want, tasks, err := parseFilter(m.fields["notifications"])
	if err != nil {
		return nil, err
	}
	if about := s.about.Load(); about.WatchTasks == nil || about.Extensions[mcp.ExtensionTasks] == nil {
		tasks = nil
	}
	if len(tasks) > 0 && !hasTasks(m.meta[mcp.MetaClientCapabilities]) {
		return nil, missingTasks()
	}
	has := s.opts.listsOffered()
	lists := has.And(subscriptions.Lists{Tools: want.Tools, Prompts: want.Prompts, Resources: want.Resources, Events: want.Events})
	honoured := mcp.SubscriptionFilter{Tools: lists.Tools, Prompts: lists.Prompts, Resources: lists.Resources, Events: lists.Events}
	sub, failed := s.subs.Open(principal, lists)
	if failed != nil {
		return nil, errorf(mcp.CodeInternal, "%s", failed)
	}
	if has.Resources {
		honoured.URIs = subscribeAll(sub, want.URIs)
	}
	meta := map[string]json.RawMessage{mcp.MetaSubscriptionID: m.id}
	var messages *mailbox
	if len(tasks) > 0 {
		messages = newMailbox(maxTaskNotes)
		tasks = s.about.Load().WatchTasks(ctx, TaskWatch{tasks, principal, m.meta[mcp.MetaClientCapabilities], func(params json.RawMessage) {
			fields, failed := object(params)
			params, err := with(params, []member{{"_meta", encode(meta)}})
			if failed == nil && err == nil { // a task's latest state replaces an earlier one
				messages.put(notification(mcp.NotificationTask, params), text(fields["taskId"]))
			}
		}})
	}
	return &listen{
		sub: sub,
		ack: notification(mcp.NotificationAcknowledged, struct {
			Meta     map[string]json.RawMessage `json:"_meta"`
			Honoured honouredFilter             `json:"notifications"`
		}{meta, honouredFilter{honoured, tasks}}),
		end: encode(struct {
			Type string                     `json:"resultType"`
			Meta map[string]json.RawMessage `json:"_meta"`
		}{"complete", meta}),
		lists:    lists,
		empty:    !lists.Any() && len(honoured.URIs) == 0 && len(tasks) == 0,
		messages: messages,
	}, nil
}

type honouredFilter struct {
	mcp.SubscriptionFilter
	TaskIDs []string `json:"taskIds,omitempty"`
}

func hasTasks(capabilities json.RawMessage) bool {
	caps, _ := object(capabilities)
	extensions, _ := object(caps["extensions"])
	return extensions[mcp.ExtensionTasks] != nil
}

func missingTasks() *Error {
	return &Error{Code: mcp.CodeMissingCapability, Message: "missing required client capability", Data: map[string]any{
		"requiredCapabilities": map[string]any{"extensions": map[string]any{mcp.ExtensionTasks: struct{}{}}},
	}}
}

// subscribeAll subscribes to the URIs and returns, without duplicates, those for which it
// succeeded. The acknowledgement omits URIs that were refused or exceed a limit, so that the client
// can retry them.
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

// parseFilter decodes the "notifications" parameter. Unknown members are ignored.
func parseFilter(raw json.RawMessage) (f mcp.SubscriptionFilter, tasks []string, err *Error) {
	fields, failed := object(raw)
	if failed != nil {
		return f, nil, errorf(mcp.CodeInvalidParams, `"notifications" must be an object`)
	}
	for name, into := range map[string]any{
		"toolsListChanged":      &f.Tools,
		"promptsListChanged":    &f.Prompts,
		"resourcesListChanged":  &f.Resources,
		"eventsListChanged":     &f.Events,
		"resourceSubscriptions": &f.URIs,
		"taskIds":               &tasks,
	} {
		if value := fields[name]; value != nil && json.Unmarshal(value, into) != nil {
			return f, nil, errorf(mcp.CodeInvalidParams, "notifications.%s has the wrong type", name)
		}
	}
	return f, tasks, nil
}

// subscribeError converts a subscription error to the JSON-RPC error for resources/subscribe.
func subscribeError(err error) *Error {
	if errors.Is(err, subscriptions.ErrTooMany) || errors.Is(err, subscriptions.ErrClosed) {
		return errorf(mcp.CodeInternal, "%s", err)
	}
	return errorf(mcp.CodeInvalidParams, "%s", err)
}

// listen serves a subscriptions/listen request. It sends the result if the server closes, and ends
// without a result if the client disconnects.
func (x *exchange) listen() {
	if !x.acceptsEvents() {
		return
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	l, failed := x.srv.listen(ctx, x.m, x.principal)
	if failed != nil {
		status := http.StatusBadRequest
		if failed.Code == mcp.CodeInternal { // a limit was reached
			status = http.StatusServiceUnavailable
			x.w.Header().Set("Retry-After", "1")
		}
		x.fail(status, failed)
		return
	}
	defer l.sub.Close()
	stream := x.srv.newEventStream(x.w)
	if stream.start() != nil || stream.send("", l.ack) != nil {
		return
	}
	if !l.empty {
		p := stream.pusher(l.sub, nil)
		p.tag, p.messages = x.m.id, l.messages
		if p.run(x.r.Context(), x.srv.ctx.Done()) != nil {
			return
		}
	}
	_ = stream.send("", answer(x.m.id, l.end, nil)) // fails only if the client has disconnected
}

// listen serves a subscriptions/listen request. At the end it sends the result, unless the client
// cancelled the request.
func (c *stdioConn) listen(m *message) {
	ctx, end, ok := c.begin(m)
	if !ok {
		return
	}
	if c.listens.Add(1) > maxListens {
		c.listens.Add(-1)
		end()
		c.fail(m.id, errorf(mcp.CodeInternal, "a client may have at most %d open subscriptions/listen requests", maxListens))
		return
	}
	c.wg.Go(func() {
		defer c.listens.Add(-1)
		defer end()
		l, failed := c.srv.listen(ctx, m, "")
		if failed != nil {
			end()
			c.fail(m.id, failed)
			return
		}
		defer l.sub.Close()
		l.sub.Restore(subscriptions.Batch{Lists: c.missed().Lists.And(l.lists)})
		if c.out.write(ctx, l.ack) != nil {
			return
		}
		if !l.empty {
			_ = (&pusher{sub: l.sub, tag: m.id, send: c.push, messages: l.messages}).run(ctx, c.ending)
		}
		cancelled := wasCancelled(ctx)
		end()
		if !cancelled {
			_ = c.out.write(context.Background(), answer(m.id, l.end, nil))
		}
	})
}
