package tracker

import (
	"context"
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// Do sends any request in the server's live session and returns the raw result, for a proxy. It
// caches and publishes nothing.
func (t *Tracker) Do(ctx context.Context, server string, q session.Request) (json.RawMessage, error) {
	conn, err := t.connection(ctx, server)
	if err != nil {
		return nil, err
	}
	return do(conn, func(s *session.Session) (json.RawMessage, error) { return s.Do(ctx, q) })
}

// OnMessage sets a function that gets the notifications that do not concern tracking, such as
// notifications/tasks. It is called by the goroutine that reads from the server and must not
// block. OnMessage must be called before Run.
func (t *Tracker) OnMessage(f func(server, method string, params json.RawMessage)) { t.messages = f }

// dial returns a DialFunc whose sessions pass such notifications to the function of OnMessage.
func (t *Tracker) dial(next session.DialFunc) session.DialFunc {
	return func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		if f := t.messages; f != nil {
			opts.Client = &session.ClientSide{Message: func(method string, params json.RawMessage) { f(srv.ID, method, params) }}
		}
		return next(ctx, srv, opts)
	}
}
