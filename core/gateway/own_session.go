package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// sessionUse says which requests use a session that the gateway has opened.
type sessionUse struct {
	server string
	client *mcpserver.Client // all of this legacy client
	// request is what requests of modern clients that may use the session have in common, one at a time; see
	// ownSessions.acquire.
	request string
	era     session.Era // all clients of this era use the session together; else empty
}

// ownSession is a session with a server that the gateway has opened for some clients, in addition to the
// tracker's. See ownSessions, which owns it.
type ownSession struct {
	srv    config.Server     // when the session was dialled
	client *mcpserver.Client // whose session it is; nil if it is not the session of a legacy client
	// capabilities are the client capabilities that the gateway declares to the server, as a JSON
	// object.
	capabilities json.RawMessage
	shared       bool        // all clients of an era use the session together
	ids          taskIDs     // task ids of the principal that owns the session
	era          session.Era // the only protocol era that the session may use; empty means any
	queues       *queues     // see queueKey
	life         context.Context
	end          context.CancelFunc // ends life, and thereby the session

	ready chan struct{}    // closed by live, once the fields below are set
	conn  *session.Session // nil if dialling failed
	tried time.Time        // when dialling completed
	roots rootsAnswers

	// ownSessions.mu guards these.
	use  sessionUse // zero if its client has left
	busy bool       // the one request that may use it does
	// foundIn is the newest config that is known to have srv.
	foundIn *[]config.Server

	began    time.Time
	requests requests
	level    toldLevel
}

// usable reports whether the session can be used after dialling.
func (s *ownSession) usable() bool {
	return s.conn != nil && s.conn.Err() == nil && s.life.Err() == nil
}

// outdated reports whether a session must be replaced, because the config no longer has the entry of its server, its
// connection was lost, or it is time for another attempt. ownSessions.mu must be held.
func (s *ownSession) outdated(enabled *[]config.Server) bool {
	switch {
	case !isClosed(s.ready):
		return false
	case s.conn == nil:
		return time.Since(s.tried) > redialDelay
	}
	return s.conn.Err() != nil || !s.isIn(enabled)
}

// isIn reports whether the config has the entry of the server. ownSessions.mu must be held.
func (s *ownSession) isIn(enabled *[]config.Server) bool {
	if s.foundIn != enabled && slices.ContainsFunc(*enabled, s.srv.Equal) { // a comparison for each config, not for each request
		s.foundIn = enabled
	}
	return s.foundIn == enabled
}

// unused returns for how long the session has had no request.
func (s *ownSession) unused() time.Duration {
	since, ok := s.requests.unused()
	if !ok {
		return 0
	}
	if since.IsZero() {
		since = s.began
	}
	return time.Since(since)
}

// await waits until the session has been dialled and reports whether it can be used.
func (s *ownSession) await(ctx context.Context) bool {
	select {
	case <-s.ready:
		return s.usable()
	case <-ctx.Done():
		return false
	}
}

// do sends the request q to the server on behalf of the client request r, in its round if it has one.
func (s *ownSession) do(ctx context.Context, r *mcpserver.Request, round *inputRound, q session.Request) (json.RawMessage, error) {
	f := &inFlight{client: r.Client, round: round, via: r}
	if s.shared {
		f.ctx = ctx
	}
	s.tellLevel(ctx, r)
	defer s.requests.begin(f)()
	raw, err := s.conn.Do(ctx, q)
	s.queues.flush(ctx, s.queueKey(f)) // deliver messages that preceded the response first
	return raw, err
}

// tellLevel tells a legacy server the log level that the client of a request wants, unless it knows the level: the
// most verbose one if clients use the session together.
func (s *ownSession) tellLevel(ctx context.Context, r *mcpserver.Request) {
	level := logLevel(r)
	if r.Client != nil {
		level = levelOf(r.Client)
	}
	if s.conn.Info().Era == session.EraLegacy {
		s.level.tell(ctx, level, s.shared, func(q session.Request) error {
			_, err := s.conn.Do(ctx, q)
			return err
		})
	}
}

// asked returns the request because of which the server asks, or why that is not clear.
func (s *ownSession) asked() (*inFlight, error) {
	f, err := s.requests.asked()
	if errors.Is(err, errNobody) && s.client != nil {
		return &inFlight{client: s.client}, nil
	}
	return f, err
}

// queueKey is the key of the queue for messages of the session to the client of a request.
func (s *ownSession) queueKey(f *inFlight) any { return [2]any{s, f.owner()} }

// message queues a notification from the server for the client.
func (s *ownSession) message(method string, params json.RawMessage) {
	rewrite := s.ids.related
	if method == mcp.NotificationTaskStatus {
		if s.shared {
			return // it is not clear who has started the task
		}
		rewrite = s.ids.status
	}
	if f, err := s.asked(); err == nil {
		s.queues.put(s.queueKey(f), len(params), func() { f.notify(method, rewrite(params)) })
	}
}

// request forwards a question of the server to the client and returns the answer.
func (s *ownSession) request(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	defer s.roots.end(method)
	f, err := s.asked()
	if err != nil {
		return nil, err
	}
	raw, err := f.ask(ctx, method, s.ids.related(params))
	return mapRelated(raw, s.ids.read), err
}
