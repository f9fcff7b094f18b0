package eventsource

import (
	"context"
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

const (
	// webhookTTL is the requested lifetime of a subscription that is not refreshed. It also limits
	// how long it can take to detect that the server has lost a subscription.
	webhookTTL = time.Hour
	minRefresh = 30 * time.Second
	// answerWait limits how long to wait at the end for a subscribe request in flight: a server
	// that receives the unsubscribe request before it has answered would keep the subscription.
	answerWait = 500 * time.Millisecond
	// unsubscribeWait is the timeout for the final unsubscribe request.
	unsubscribeWait = time.Second
)

// webhook receives events that the server sends to u.slot, until a subscribe request fails or the
// server ends the subscription.
func (u *subscription) webhook(ctx context.Context) error {
	answers := make(chan answer, 1) // receives one value from each call to ask below
	var asked context.CancelFunc
	ask := func() {
		var asking context.Context
		asking, asked = context.WithCancel(context.WithoutCancel(ctx))
		query, anew := u.query, !u.mayExist && u.query.Cursor != ""
		u.mayExist = true
		go func() {
			if anew {
				u.unsubscribe(asking, query)
			}
			sub, err := u.src.opts.Session.SubscribeEvents(asking, query, u.target())
			answers <- answer{sub, err}
		}()
	}
	ask()
	waiting := true // a subscribe request is in flight
	defer func() {
		u.slot.Activate("")
		if waiting {
			u.awaitAnswer(answers, asked)
		}
		asked()
	}()
	refresh := time.NewTimer(time.Hour)
	defer refresh.Stop()
	for {
		select {
		case a := <-answers:
			waiting = false
			asked()
			if a.err != nil {
				u.refused(a.err)
				return a.err
			}
			u.subscribed(a.sub)
			refresh.Reset(refreshIn(a.sub.Until))
		case <-refresh.C:
			if !waiting {
				waiting = true
				ask()
			}
		case m := <-u.slot.Messages():
			valid, err := u.receive(m)
			m.Done(valid)
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// awaitAnswer cancels the request in flight and waits for its result.
func (u *subscription) awaitAnswer(answers <-chan answer, asked context.CancelFunc) {
	late := time.AfterFunc(answerWait, asked)
	defer late.Stop()
	if a := <-answers; a.err != nil { // arrives as soon as the request's context ends
		u.refused(a.err)
	}
}

// refused handles a failed subscribe request. Only if the server answered the request, and there
// was no subscription before, is it certain that there is no subscription.
func (u *subscription) refused(err error) {
	if _, answered := errors.AsType[*session.RPCError](err); answered && u.slotID == "" {
		u.mayExist = false
	}
}

// answer holds the outcome of a subscribe request.
type answer struct {
	sub session.EventSubscription
	err error
}

// refreshIn returns how long to wait before refreshing the subscription: half of its remaining
// lifetime.
func refreshIn(until time.Time) time.Duration {
	left := webhookTTL
	if !until.IsZero() {
		left = min(left, time.Until(until))
	}
	return max(minRefresh, backoff.Spread(left/2))
}

func (u *subscription) target() session.EventWebhook {
	return session.EventWebhook{URL: u.slot.URL(), Secret: u.slot.Secret(), TTL: webhookTTL}
}

// subscribed handles the answer to a subscribe request that made or refreshed the subscription.
func (u *subscription) subscribed(s session.EventSubscription) {
	fresh := u.query.Cursor == "" && u.slotID == ""
	refreshed := u.slotID == s.ID
	u.slotID = s.ID
	if s.Truncated {
		u.gap("the server no longer stores all of them")
	}
	// The cursor of a refresh may be before events that have arrived, or after events that have not.
	if s.Cursor != "" && (!refreshed || s.Truncated || u.query.Cursor == "") {
		u.advance(s.Cursor)
	}
	u.active(fresh)
	u.slot.Activate(s.ID)
}

// receive handles a webhook message. valid is false if the message has an unknown form; an error
// ends the subscription.
func (u *subscription) receive(m *standardwebhooks.Message) (valid bool, err error) {
	if m.Type == "" {
		o, err := session.DecodeEvent(m.Body)
		if err != nil {
			return false, nil
		}
		u.take([]mcp.EventOccurrence{o}, o.Cursor)
		return true, nil
	}
	method := mcp.NotificationEventsActive // a gap message has the same members
	if m.Type == "terminated" {
		method = mcp.NotificationEventsTerminated
	}
	news, err := session.EventMessage{Method: method, Params: m.Body}.Decode()
	switch {
	case err != nil:
		return false, nil
	case u.seen.add("message " + m.ID): // a duplicate; event ids never have this form
		return true, nil
	case news.Err != nil:
		return true, &session.RPCError{Code: news.Err.Code, Message: u.src.opts.Session.Redact(news.Err.Message), Data: news.Err.Data}
	}
	u.gap("the server could not deliver all of them")
	if news.Cursor != "" {
		u.advance(news.Cursor)
	}
	return true, nil
}

// unsubscribe ends the subscription on the server. If the server cannot be reached, the
// subscription expires there. It is also called before the first subscribe request if an earlier
// session or run stored a cursor: if that subscription were only refreshed, the server would resume
// after the last event it delivered, instead of after the last event that was stored.
func (u *subscription) unsubscribe(ctx context.Context, query session.EventQuery) {
	ctx, cancel := context.WithTimeout(ctx, unsubscribeWait)
	defer cancel()
	if err := u.src.opts.Session.UnsubscribeEvents(ctx, query, u.target()); err != nil {
		u.src.opts.Logger.Debug("cannot unsubscribe from events", "err", u.errorText(err))
	}
}
