package eventsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// subscription receives the events of one type: by push (stream.go), poll or webhook (webhook.go).
// It is owned by its goroutine.
type subscription struct {
	src  *Subscriber
	plan plan
	key  string
	mode mcp.DeliveryMode

	query session.EventQuery // its Cursor is that of the last handled events
	seen  seen

	// Used only for webhooks:
	slot   *standardwebhooks.Slot // slot of the webhook receiver; nil if not opened
	slotID string                 // subscription id assigned by the server; empty if none
	// mayExist is true if the subscription was requested and the server did not reject it.
	mayExist bool
}

// run receives events until ctx ends or a permanent error occurs.
func (u *subscription) run(ctx context.Context) {
	retry := backoff.New(time.Second, u.src.opts.MaxBackoff)
	defer u.close(ctx)
	for ctx.Err() == nil {
		began := time.Now()
		err := u.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > u.src.opts.MaxBackoff {
			retry.Reset()
		}
		if retry.Failures() > 0 { // after the first failure, an immediate resumption usually succeeds
			u.src.pending.cover(u.key, Coverage{})
		}
		u.src.opts.Logger.Debug("events ended", "event", printable.Line(u.plan.name, 200), "mode", string(u.mode), "err", u.errorText(err))
		if !u.survives(err) {
			return
		}
		least := time.Duration(0)
		if wait, ok := errors.AsType[*session.RetryAfter](err); ok {
			least = wait.Wait
		}
		backoff.Sleep(ctx, retry.NextAfter(least))
	}
}

// errorText returns the text of an error for logs. It redacts the webhook secret, which the server
// may include in the error.
func (u *subscription) errorText(err error) string {
	switch {
	case err == nil:
		return "the server ended the stream"
	case u.slot != nil:
		return u.slot.Redact(printable.Reason(err, 500))
	}
	return printable.Reason(err, 500)
}

func (u *subscription) follow(ctx context.Context) (err error) {
	switch u.mode {
	case mcp.DeliverPoll:
		return u.poll(ctx)
	case mcp.DeliverWebhook:
		if u.slot == nil {
			if u.slot, err = u.src.opts.Webhooks.Open(ctx, u.src.opts.Server, u.key); err != nil {
				return err
			}
		}
		return u.webhook(ctx)
	}
	return u.stream(ctx)
}

// close unsubscribes and frees the webhook slot. It is called after follow has returned for the
// last time.
func (u *subscription) close(ctx context.Context) {
	if u.slot == nil {
		return
	}
	if u.mayExist {
		u.unsubscribe(context.WithoutCancel(ctx), u.query)
	}
	u.slot.Close()
}

// survives handles an error and reports whether to retry.
func (u *subscription) survives(err error) bool {
	failure := session.EventFailure(err)
	refused, answered := errors.AsType[*session.RPCError](err)
	switch {
	case u.query.Cursor != "" && answered && refusesCursor(refused, failure):
		u.gap("the server no longer recognises the cursor")
		u.advance("")
		return true
	case errors.Is(err, session.ErrUnsupported):
		return false // the server does not support the method; the next session will try again
	case failure == mcp.EventForbidden:
		u.src.pending.change(func(r *Report) { r.Forbidden = append(r.Forbidden, u.plan.name) })
		return false
	case failure == mcp.EventNotFound, failure == mcp.EventUnsupported:
		u.src.relist.Send()
		return false
	case failure == mcp.EventCallbackEndpointError:
		u.src.warnEndpoint(u.plan.name, u.errorText(err))
		if other := u.plan.mode("", 0, false); other != "" {
			u.mode = other
		}
		return true
	case failure == mcp.EventResourceExhausted && u.mode == mcp.DeliverPush && u.plan.mode("", 0, false) == mcp.DeliverPoll:
		u.mode = mcp.DeliverPoll
		return true
	case answered && refused.Code == mcp.CodeInvalidParams:
		u.src.opts.Logger.Warn("the server rejected a subscription to events", "event", printable.Line(u.plan.name, 200), "err", u.errorText(err))
		return false
	}
	return true
}

// refusesCursor reports whether the server rejected a request because of its cursor. The
// specification does not define an error for this, because servers are expected to continue with
// the events that they still have.
func refusesCursor(e *session.RPCError, failure mcp.EventFailure) bool {
	var data struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(e.Data, &data) // data of any other form is ignored
	return failure == mcp.EventNotFound && data.Kind == "cursor" || e.Code == mcp.CodeInvalidParams ||
		strings.Contains(strings.ToLower(e.Message), "cursor")
}

func (u *subscription) gap(reason string) {
	u.src.pending.change(func(r *Report) { r.gap("events of " + printable.Line(u.plan.name, 200) + ": " + reason) })
}

// advance records the cursor of the last handled events.
func (u *subscription) advance(cursor string) {
	u.query.Cursor = cursor
	u.src.pending.change(func(r *Report) { r.cursor(u.key, cursor) })
}

// active records that the server now delivers events. fresh is true if the subscription started
// without a cursor.
func (u *subscription) active(fresh bool) {
	covers := u.plan.coverage()
	if fresh {
		u.src.pending.change(func(r *Report) {
			r.Began = r.Began || covers.Resources
			if covers.Lists {
				r.list(catalog.Kinds()...)
			}
		})
	}
	u.src.pending.cover(u.key, covers)
}

// take handles events and records the cursor after them; the cursor is empty if unknown.
func (u *subscription) take(events []mcp.EventOccurrence, cursor string) {
	now := time.Now()
	if cursor != "" {
		u.query.Cursor = cursor
	}
	u.src.pending.change(func(r *Report) {
		for _, o := range events {
			if o.Name == u.plan.name && !u.seen.add(o.EventID) {
				u.fold(r, o, now)
			}
		}
		if cursor != "" {
			r.cursor(u.key, cursor)
		}
	})
}

func (u *subscription) fold(r *Report, o mcp.EventOccurrence, now time.Time) {
	var data struct {
		URI  string `json:"uri"`
		List string `json:"list"`
	}
	switch u.plan.about {
	case aboutResource:
		_ = json.Unmarshal(o.Data, &data) // data of any other form does not name a resource
		r.mark(data.URI, now)
	case aboutList:
		_ = json.Unmarshal(o.Data, &data)
		switch k := catalog.Kind(data.List); k {
		case catalog.Resources, catalog.Templates, catalog.Prompts, catalog.Tools:
			r.list(k)
		}
	case aboutMapped:
		for _, uri := range locate(o.Data, u.plan.uri) {
			r.mark(uri, now)
		}
	default:
		r.keep(Occurrence{Name: o.Name, ID: o.EventID, Size: len(o.Data)})
	}
}

// locate returns the resources that an event concerns. where is a JSON Pointer or a URI template
// from the config.
func locate(data json.RawMessage, where string) []string {
	if strings.HasPrefix(where, "/") {
		return pointer(data, where)
	}
	var members map[string]any
	if json.Unmarshal(data, &members) != nil {
		return nil
	}
	params := map[string]string{}
	for name, value := range members {
		switch value.(type) {
		case string, float64, bool:
			params[name] = fmt.Sprint(value)
		}
	}
	names, err := uritemplate.Variables(where)
	if err != nil {
		return nil
	}
	maps.DeleteFunc(params, func(name, _ string) bool { return !slices.Contains(names, name) })
	uri, err := uritemplate.Expand(where, params)
	if err != nil || len(params) == 0 {
		return nil
	}
	return []string{uri}
}

const (
	// minPoll is the minimum time between two polls, even if the server requests a shorter
	// interval.
	minPoll = time.Second
	// maxPages limits the number of pages requested without a pause.
	maxPages = 100
)

var errNoCursor = errors.New("the server sends no cursor, so events may be missed")

// poll receives events by polling, until a poll fails.
func (u *subscription) poll(ctx context.Context) error {
	for pages := 1; ; pages++ {
		page, err := u.ask(ctx)
		if err != nil {
			return err
		}
		fresh, before := u.query.Cursor == "", u.query.Cursor
		if page.Truncated {
			u.gap("the server no longer stores all of them")
		}
		var events []mcp.EventOccurrence
		for _, raw := range page.Events {
			if o, err := session.DecodeEvent(raw); err == nil {
				events = append(events, o)
			}
		}
		u.take(events, page.Cursor)
		if u.query.Cursor == "" {
			return errNoCursor
		}
		u.active(fresh)
		if page.HasMore && u.query.Cursor != before && pages < maxPages {
			continue
		}
		pages = 0
		wait := page.NextPoll
		if wait == 0 {
			wait = u.src.opts.Poll
		}
		if page.HasMore {
			wait = minPoll
		}
		if !backoff.Sleep(ctx, max(minPoll, backoff.Spread(wait))) {
			return context.Cause(ctx)
		}
	}
}

// ask performs one poll. It waits while maxPolls polls are in flight.
func (u *subscription) ask(ctx context.Context) (session.EventPage, error) {
	select {
	case u.src.polls <- struct{}{}:
	case <-ctx.Done():
		return session.EventPage{}, context.Cause(ctx)
	}
	defer func() { <-u.src.polls }()
	return u.src.opts.Session.PollEvents(ctx, u.query)
}
