package eventsource

import (
	"context"
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
)

// minSilence is the minimum time without a message after which a stream is considered dead. Servers
// are expected to send a message every 30 s; for a slower server, the limit is twice its longest
// pause.
const minSilence = time.Minute

var (
	errNoBeginning = errors.New("the event stream did not start in time")
	errSilent      = errors.New("the event stream was silent for too long")
)

// stream receives events by push until the stream ends. It returns nil if the server ended the
// stream without an error.
func (u *subscription) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in := newInbox()
	ended := make(chan error, 1) // receives one value from the goroutine below
	go func() { ended <- u.src.opts.Session.StreamEvents(ctx, u.query, in.put) }()
	st := pushed{u: u, fresh: u.query.Cursor == "", last: time.Now(), patience: minSilence}
	timer := time.NewTimer(u.src.opts.Timeout)
	defer timer.Stop()
	for {
		select {
		case <-in.wake:
			if err := st.receive(in); err != nil {
				cancel(err)
				<-ended
				return err
			}
			if st.active {
				timer.Reset(st.patience)
			}
		case <-timer.C:
			err := errSilent
			if !st.active {
				err = errNoBeginning
			}
			cancel(err)
			<-ended // the request ends as soon as its context ends
			return err
		case err := <-ended:
			if failed := st.receive(in); failed != nil {
				return failed
			}
			return err
		}
	}
}

// pushed holds the state of one stream.
type pushed struct {
	u        *subscription
	fresh    bool // the stream started without a cursor
	active   bool
	last     time.Time     // when the last message arrived
	patience time.Duration // time after last at which the stream is considered dead
}

// receive handles the buffered messages. If it returns an error, the stream must be closed.
func (p *pushed) receive(in *inbox) error {
	messages, lost := in.take()
	if lost {
		p.u.gap("events arrived faster than mcptrack could process them")
	}
	var events []mcp.EventOccurrence
	cursor := ""
	flush := func() {
		if len(events) > 0 || cursor != "" {
			p.u.take(events, cursor)
			events, cursor = nil, ""
		}
	}
	for _, m := range messages {
		now := time.Now()
		p.patience, p.last = max(p.patience, 2*now.Sub(p.last)), now
		news, err := m.Decode()
		if err != nil {
			continue
		}
		switch {
		case news.Event != nil:
			events = append(events, *news.Event)
			if news.Cursor != "" {
				cursor = news.Cursor
			}
		case m.Method == mcp.NotificationEventsTerminated:
			flush()
			return &session.RPCError{Code: news.Err.Code, Message: p.u.src.opts.Session.Redact(news.Err.Message), Data: news.Err.Data}
		case m.Method == mcp.NotificationEventsActive:
			flush()
			p.begin(news)
		case news.Cursor != "": // the message is a heartbeat
			cursor = news.Cursor
		}
	}
	flush()
	return nil
}

// begin handles the "active" message, which precedes the events after its cursor.
func (p *pushed) begin(news session.EventNews) {
	if news.Truncated {
		p.u.gap("the server no longer stores all of them")
	}
	if news.Cursor != "" {
		p.u.advance(news.Cursor)
	}
	if !p.active {
		p.active = true
		p.u.active(p.fresh)
	}
}
