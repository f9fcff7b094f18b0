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

// subscription follows the events of one type. Its goroutine owns it.
type subscription struct {
	src  *Source
	plan plan
	key  string
	mode mcp.DeliveryMode

	query session.EventQuery // its Cursor is how far events were handled
	seen  seen

	// For webhooks:
	slot   *standardwebhooks.Slot // nil: it was not opened
	slotID string                 // the server's id of the subscription, "" before it has one
	// mayExist means that the subscription was requested and the server did not refuse it.
	mayExist bool
}

// run follows the events until ctx ends, or the server refuses for good.
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
		if retry.Failures() > 0 { // a subscription that has ended can usually be resumed at once
			u.src.pending.stands(u.key, Coverage{})
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

// errorText returns the text of an error for logs, without the secret, which the server may
// repeat.
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

// close cleans up after follow has returned for the last time.
func (u *subscription) close(ctx context.Context) {
	if u.slot == nil {
		return
	}
	if u.mayExist {
		u.unsubscribe(context.WithoutCancel(ctx), u.query)
	}
	u.slot.Close()
}

// survives handles an error, and reports whether to try again.
func (u *subscription) survives(err error) bool {
	failure := session.EventFailure(err)
	refused, answered := errors.AsType[*session.RPCError](err)
	switch {
	case u.query.Cursor != "" && answered && refusesCursor(refused, failure):
		u.gap("the server does not know the cursor any more")
		u.advance("")
		return true
	case errors.Is(err, session.ErrUnsupported):
		return false // the server has no such method; the next session tries again
	case failure == mcp.EventForbidden:
		u.src.pending.change(func(b *Batch) { b.Forbidden = append(b.Forbidden, u.plan.name) })
		return false
	case failure == mcp.EventNotFound, failure == mcp.EventUnsupported:
		u.src.askAgain()
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
		u.src.opts.Logger.Warn("the server refuses a subscription to events", "event", printable.Line(u.plan.name, 200), "err", u.errorText(err))
		return false
	}
	return true
}

// refusesCursor reports whether the server refuses a request because of its cursor. The
// specification has no error for that, as servers should go on with what they have.
func refusesCursor(e *session.RPCError, failure mcp.EventFailure) bool {
	var data struct {
		Kind string `json:"kind"`
	}
	_ = json.Unmarshal(e.Data, &data) // data in any other form says nothing
	return failure == mcp.EventNotFound && data.Kind == "cursor" || e.Code == mcp.CodeInvalidParams ||
		strings.Contains(strings.ToLower(e.Message), "cursor")
}

// gap says that events are missing.
func (u *subscription) gap(reason string) {
	u.src.pending.change(func(b *Batch) { b.gap("events of " + printable.Line(u.plan.name, 200) + ": " + reason) })
}

// advance records up to which cursor events were handled.
func (u *subscription) advance(cursor string) {
	u.query.Cursor = cursor
	u.src.pending.change(func(b *Batch) { b.cursor(u.key, cursor) })
}

// stands records that events are delivered from now on. fresh means that there was no cursor.
func (u *subscription) stands(fresh bool) {
	covers := u.plan.coverage()
	if fresh {
		u.src.pending.change(func(b *Batch) {
			b.Began = b.Began || covers.Resources
			if covers.Lists {
				b.list(catalog.Kinds()...)
			}
		})
	}
	u.src.pending.stands(u.key, covers)
}

// take handles events, and the cursor after them ("" if unknown).
func (u *subscription) take(events []mcp.EventOccurrence, cursor string) {
	now := time.Now()
	if cursor != "" {
		u.query.Cursor = cursor
	}
	u.src.pending.change(func(b *Batch) {
		for _, o := range events {
			if o.Name == u.plan.name && !u.seen.add(o.EventID) {
				u.fold(b, o, now)
			}
		}
		if cursor != "" {
			b.cursor(u.key, cursor)
		}
	})
}

// fold adds one event to the batch.
func (u *subscription) fold(b *Batch, o mcp.EventOccurrence, now time.Time) {
	var data struct {
		URI  string `json:"uri"`
		List string `json:"list"`
	}
	switch u.plan.about {
	case aboutResource:
		_ = json.Unmarshal(o.Data, &data) // a hint of another form names nothing
		b.mark(data.URI, now)
	case aboutList:
		_ = json.Unmarshal(o.Data, &data)
		switch k := catalog.Kind(data.List); k {
		case catalog.Resources, catalog.Templates, catalog.Prompts, catalog.Tools:
			b.list(k)
		}
	case aboutMapped:
		for _, uri := range locate(o.Data, u.plan.uri) {
			b.mark(uri, now)
		}
	default:
		b.keep(Occurrence{Name: o.Name, ID: o.EventID, Size: len(o.Data)})
	}
}

// locate returns the resources that an event is about, as the config says.
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
