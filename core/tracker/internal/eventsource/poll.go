package eventsource

import (
	"context"
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	// minPoll is the least time between two polls, even if the server asks for more.
	minPoll = time.Second
	// maxPages bounds the pages that are requested without a pause.
	maxPages = 100
)

var errNoCursor = errors.New("the server sends no cursor, so events may be missed")

// poll follows the events by polling, until a poll fails.
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
		u.stands(fresh)
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

// ask waits for a slot and makes one poll.
func (u *subscription) ask(ctx context.Context) (session.EventPage, error) {
	select {
	case u.src.polls <- struct{}{}:
	case <-ctx.Done():
		return session.EventPage{}, context.Cause(ctx)
	}
	defer func() { <-u.src.polls }()
	return u.src.opts.Session.PollEvents(ctx, u.query)
}
