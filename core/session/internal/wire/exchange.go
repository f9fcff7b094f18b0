package wire

import (
	"cmp"
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

// exchange records what happened on the network while the library made one request: the
// guard fills it in, and Conn reads it when the library reports an error that says less.
// It travels in the request's context.
type exchange struct {
	alive func() // called when bytes of an event stream arrive; nil: not called

	mu     sync.Mutex    // guards what follows
	status int           // last HTTP status; 0 on other transports
	retry  time.Duration // from Retry-After, at most maxWait; 0: none
	err    error         // says more than the library's error will; nil: none
	body   []byte        // the beginning of an error answer; nil: none
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

// exchangeOf returns the exchange in the context of a request, or a new one that is not
// read.
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
	if len(x.body) == 0 || x.oauthErrorLocked() != "" || json.Unmarshal(x.body, &r) != nil || r.Error == nil || r.Error.Code == 0 {
		return nil
	}
	return r.Error
}

// oauthErrorLocked is what the body of a refusal of credentials says in the form of OAuth
// (RFC 6749, section 5.2), {"error": "invalid_token", "error_description": "…"}; "" if it does
// not. The library takes such a body for a JSON-RPC error and makes up a code for it.
func (x *exchange) oauthErrorLocked() string {
	var r struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if x.status != http.StatusUnauthorized && x.status != http.StatusForbidden || json.Unmarshal(x.body, &r) != nil {
		return ""
	}
	return cmp.Or(r.Description, r.Error)
}

// oauthRefused makes the OAuth error of the body, if there is one, the reason of a refusal
// without another.
func (x *exchange) oauthRefused(redact func(string) string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if said := x.oauthErrorLocked(); x.said == "" && said != "" {
		x.said = redact(said)
	}
}

// failed reports whether the HTTP status was an error.
func (x *exchange) failed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.status >= 300
}

// error returns why a request failed, as far as the exchange knows; nil if it does not.
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

// wrap makes an error an [*AuthError] or [*RetryAfter] if the HTTP status says so.
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
