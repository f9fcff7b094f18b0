package tracker

import (
	"context"
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/session"
)

// Do makes any request in the server's live session and returns the raw result, for a
// proxy. It caches and publishes nothing.
func (t *Tracker) Do(ctx context.Context, server string, q session.Request) (json.RawMessage, error) {
	conn, err := t.connection(ctx, server)
	if err != nil {
		return nil, err
	}
	return do(conn, func(s *session.Session) (json.RawMessage, error) { return s.Do(ctx, q) })
}
