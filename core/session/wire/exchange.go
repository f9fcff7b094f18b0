package wire

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync"
	"time"

	sdk "github.com/mark3labs/mcp-go/mcp"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// maxWait is the longest delay that a server can ask for.
const maxWait = 30 * time.Second

// exchange is what was seen below the library while one request was made: the guard
// fills it in, the sender looks when the library reports an error that says less. It
// travels in the request's context.
type exchange struct {
	alive func() // called when bytes of an event stream arrive; nil: not called

	mu     sync.Mutex    // guards what follows
	status int           // last HTTP status; 0 on other transports
	retry  time.Duration // Retry-After
	err    error         // more telling than what the library will return
	body   []byte        // of a refused request, cut
	// credentials says that an Authorization header was sent.
	credentials bool
	// said, remedy and challenge belong to a refusal of credentials.
	said, remedy string
	challenge    []string
	sent         bool // all of the request was written
	// unknown means that the server does not know the session: it did not look at the
	// request.
	unknown bool
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a request, or one that is not looked at.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return new(exchange)
}

func (x *exchange) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = err
	}
}

func (x *exchange) sentCredentials(sent bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.credentials = sent
}

func (x *exchange) answered(p *http.Response, body []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status, x.retry, x.body = p.StatusCode, min(backoff.RetryAfter(p.Header), maxWait), body
}

// trace returns a context in which a request is recorded as sent.
func (x *exchange) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.sent = true
		}
	}})
}

// unknownSession records that the server does not know the session.
func (x *exchange) unknownSession() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unknown = true
}

// interrupted returns the error as an [*InterruptedError] if the connection failed, or
// if the server said that it did not begin to process the request.
func (x *exchange) interrupted(err error, stdio bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := errors.AsType[*InterruptedError](err); ok || IsAnswer(err) {
		return err
	}
	refused := x.unknown || x.status == http.StatusServiceUnavailable
	if !refused && (x.err != nil || x.status >= 300) {
		return err
	}
	return &InterruptedError{Sent: !refused && (x.sent || stdio), Err: err}
}

// rpcError is the JSON-RPC error in the body of a refused request, if it has one.
func (x *exchange) rpcError() *sdk.JSONRPCErrorDetails {
	x.mu.Lock()
	defer x.mu.Unlock()
	var r struct {
		Error *sdk.JSONRPCErrorDetails `json:"error"`
	}
	if len(x.body) == 0 || json.Unmarshal(x.body, &r) != nil || r.Error == nil || r.Error.Code == 0 {
		return nil
	}
	return r.Error
}

// failed reports whether the HTTP status was an error.
func (x *exchange) failed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status >= 300
}

// error is what the exchange says about a failed request; nil when nothing.
func (x *exchange) error() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.err != nil:
		return x.err
	case x.status < 300:
		return nil
	}
	return x.wrapLocked(&HTTPError{x.status})
}

// wrap adds to an error what the status and the headers say about it.
func (x *exchange) wrap(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.wrapLocked(err)
}

func (x *exchange) wrapLocked(err error) error {
	if x.status == http.StatusUnauthorized || x.status == http.StatusForbidden {
		err = &AuthError{Status: x.status, Sent: x.credentials, Err: err, Said: x.said, Remedy: x.remedy, Challenge: x.challenge}
	}
	if x.retry > 0 && (x.status == http.StatusTooManyRequests || x.status == http.StatusServiceUnavailable) {
		err = &RetryAfter{Wait: x.retry, Err: err}
	}
	return err
}
