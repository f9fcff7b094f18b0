package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
)

// TokenSource supplies the token for one server. It is safe for concurrent use.
type TokenSource struct {
	store  *Store
	target Target
	// turn is a lock that can be awaited with a context: a goroutine sends to it before a renewal
	// and receives from it afterwards. Capacity 1; never closed.
	turn chan struct{}

	mu    sync.Mutex // guards the fields below; not held during requests
	login *Login     // as last read; nil if there is none
	err   error      // error from reading the login
	stamp Stamp      // stamp of the logins when login was read
	used  []string   // recently used tokens, newest last
}

// TokenSource returns the token source of a target.
func (s *Store) TokenSource(t Target) *TokenSource {
	t.flags = s.opts.Flags
	return &TokenSource{store: s, target: t, turn: make(chan struct{}, 1)}
}

// maxUsed is how many recently used tokens are kept.
const maxUsed = 4

// Target returns the server for which the tokens are valid.
func (s *TokenSource) Target() Target { return s.target }

// Secrets returns the recently used tokens, so that they can be redacted in messages from the
// server.
func (s *TokenSource) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.used)
}

// current returns the login that is currently stored.
func (s *TokenSource) current() (*Login, error) {
	stamp := s.store.Stamp(s.target)
	s.mu.Lock()
	if stamp.Same(s.stamp) && s.login != nil {
		defer s.mu.Unlock()
		return s.login, s.err
	}
	s.mu.Unlock()
	l, err := s.store.Get(s.target)
	if errors.Is(err, ErrNone) {
		l, err = nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.login, s.err, s.stamp = l, err, stamp
	return l, err
}

// Header returns the value for the Authorization header, or "" if the user is not logged in. The
// error is a [*RequiredError] if the user must log in again.
func (s *TokenSource) Header(ctx context.Context) (string, error) {
	l, err := s.current()
	if err != nil || l == nil {
		return "", err
	}
	now := time.Now()
	if l.stale(now) && l.Refused == "" && l.Renewable {
		renewed, err := s.renew(ctx, l, Challenge{})
		switch {
		case err == nil:
			l = renewed
		case l.Expired(time.Now()):
			return "", err
		}
	}
	if l.Expired(time.Now()) {
		return "", s.required(l)
	}
	return s.use(l), nil
}

func (s *TokenSource) required(l *Login) error {
	reason := "the login has expired"
	if l.Refused != "" {
		reason = l.Refused
	}
	return &RequiredError{s.target, reason}
}

func (s *TokenSource) use(l *Login) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token := l.tokens.Access; !slices.Contains(s.used, token) {
		s.used = append(s.used, token)
		s.used = s.used[max(0, len(s.used)-maxUsed):]
	}
	return "Bearer " + l.tokens.Access
}

// Refused handles a 401 or 403 response to a request that was sent with the given Authorization
// header, or without one if header is "". It may renew the token. again reports whether to retry
// the request with a new header. The error is a [*RequiredError] if the user must log in again, and
// nil if the server's own message is sufficient.
func (s *TokenSource) Refused(ctx context.Context, header string, status int, c Challenge) (again bool, err error) {
	l, err := s.current()
	if err != nil {
		return false, err
	}
	if status == http.StatusForbidden {
		return false, s.lacking(ctx, l, c)
	}
	if l == nil && s.target.OAuth.Grant != config.GrantClient {
		return false, nil
	}
	if l != nil && header != "" && header != "Bearer "+l.tokens.Access {
		return true, nil // the token was renewed in the meantime
	}
	if l != nil && l.Refused != "" {
		return false, s.required(l)
	}
	if l != nil && !l.Renewable {
		return false, &RequiredError{s.target, "the server rejected the login, and it cannot be renewed"}
	}
	if l != nil && header == "" { // the user logged in while the request was in progress
		return true, nil
	}
	if _, err := s.renew(ctx, l, c); err != nil {
		return false, err
	}
	return true, nil
}

// lacking stores the scopes that the server reports as missing, if that is why it refused the
// request.
func (s *TokenSource) lacking(ctx context.Context, l *Login, c Challenge) error {
	if c.Code != "insufficient_scope" || l == nil {
		return nil
	}
	if err := s.store.addLacking(ctx, s.target, c.Scopes); err != nil {
		return fmt.Errorf("store the scopes that the login does not include: %w", err)
	}
	return &RequiredError{s.target, "the login does not include a scope that the request requires"}
}

const (
	// renewTimeout limits the time for one renewal.
	renewTimeout = 30 * time.Second
	// renewGrace is how long a renewal continues after its caller has given up: once the request
	// has been sent, only the token in the response may still be valid.
	renewGrace = 5 * time.Second
)

// renew returns a login with a newer token than was, which is nil if there was no login. Only one
// process renews a token at a time.
func (s *TokenSource) renew(ctx context.Context, was *Login, c Challenge) (*Login, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l, err := s.renewInTurn(ctx, was, c)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.login, s.err = l, nil // the outdated stamp makes current read the login again
	return l, nil
}

func (s *TokenSource) renewInTurn(ctx context.Context, was *Login, c Challenge) (*Login, error) {
	unlock, err := s.store.lock(ctx, s.target.URL)
	if err != nil {
		return nil, err
	}
	defer unlock()
	l, err := s.store.Get(s.target)
	switch {
	case errors.Is(err, ErrNone) && (was != nil || s.target.OAuth.Grant != config.GrantClient):
		return nil, &RequiredError{s.target, "logged out"}
	case err != nil && !errors.Is(err, ErrNone):
		return nil, err
	case err == nil && (was == nil || l.tokens.Access != was.tokens.Access): // another process has already renewed the token
		return l, nil
	case err == nil && l.Refused != "":
		return nil, s.required(l)
	}
	going, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), renewTimeout, errors.New("the authorization server does not respond"))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(renewGrace, cancel) })()
	if err != nil {
		l, err = s.store.obtain(going, newClient(going, s.target.URL), s.target, c)
		if err != nil {
			return nil, s.refused(err)
		}
		l.Kind = s.store.opts.Kind
		return l, s.store.put(l)
	}
	return l, s.request(going, l)
}

// Renew renews the login immediately, even if its token is not about to expire.
func (s *TokenSource) Renew(ctx context.Context) (*Login, error) {
	l, err := s.current()
	if err != nil {
		return nil, err
	}
	if l == nil {
		return nil, ErrNone
	}
	if !l.Renewable {
		return l, errors.New("the login cannot be renewed: the authorization server issued no refresh token")
	}
	return s.renew(ctx, l, Challenge{})
}

func (s *TokenSource) refused(err error) error {
	if answer, ok := errors.AsType[*AnswerError](err); ok && answer.final() {
		return &RequiredError{s.target, answer.Error()}
	}
	if unnamed, ok := errors.AsType[*UnnamedError](err); ok {
		return &RequiredError{s.target, unnamed.Error()}
	}
	return err
}

// request renews the login at the authorization server. The lock must be held. It stores the login
// before the request, with a mark that a renewal has started, and again afterwards. If the process
// dies in between, the mark reveals the interrupted renewal.
func (s *TokenSource) request(ctx context.Context, l *Login) error {
	interrupted := l.Renewing
	l.Renewing = time.Now()
	if err := s.store.save(l); err != nil {
		return err
	}
	err := l.requestToken(ctx, newClient(ctx, s.target.URL), s.target, "to renew the login", l.renewal())
	if err == nil {
		return s.store.put(l)
	}
	answer, ok := errors.AsType[*AnswerError](err)
	if !ok || !answer.final() {
		return fmt.Errorf("the login cannot be renewed now: %w", err)
	}
	l.Refused, l.Renewing = answer.Error(), time.Time{}
	if !interrupted.IsZero() {
		l.Refused += fmt.Sprintf("; a renewal at %s was interrupted, which may have invalidated the refresh token", interrupted.UTC().Format(time.RFC3339))
	}
	if err := s.store.save(l); err != nil {
		return err
	}
	return s.required(l)
}
