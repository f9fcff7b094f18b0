package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// maxWait is the longest that a server may ask to be left alone.
const maxWait = 30 * time.Second

// exchange is what was seen below the transport while one request was made: the
// guard fills it in, the sender looks when the transport reports an error that
// says less. It travels in the request's context.
type exchange struct {
	mu     sync.Mutex
	posted bool          // the request is on its way
	status int           // last HTTP status; 0 on other transports
	retry  time.Duration // Retry-After
	err    error         // more telling than what the transport will return
	body   []byte        // of a refused request, cut
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a request, or one that nobody looks at, which
// cannot be claimed.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{posted: true}
}

// claim reports whether a POST is the request that the exchange is of. What follows
// are answers to what the server asks before it answers: the transport sends them in
// the context of the request.
func (x *exchange) claim() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := !x.posted
	x.posted = true
	return first
}

func (x *exchange) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = err
	}
}

func (x *exchange) answered(p *http.Response, body []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status, x.retry, x.body = p.StatusCode, retryAfter(p.Header), body
}

// rpcError is the JSON-RPC error in the body of a refused request, if it has one.
func (x *exchange) rpcError() *mcp.JSONRPCErrorDetails {
	x.mu.Lock()
	defer x.mu.Unlock()
	var r struct {
		Error *mcp.JSONRPCErrorDetails `json:"error"`
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
		err = fmt.Errorf("%w: %w", ErrAuth, err)
	}
	if x.retry > 0 && (x.status == http.StatusTooManyRequests || x.status == http.StatusServiceUnavailable) {
		err = &RetryAfter{Wait: x.retry, Err: err}
	}
	return err
}

// retryAfter reads a Retry-After header (RFC 9110, 10.2.3), bounded.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return min(time.Duration(n)*time.Second, maxWait)
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(time.Until(t), 0), maxWait)
	}
	return 0
}

// isAnswer reports whether err is something that the server itself said.
func isAnswer(err error) bool {
	if _, ok := errors.AsType[*InputRequiredError](err); ok {
		return true
	}
	_, ok := errors.AsType[*RPCError](err)
	return ok
}

// isRefusal reports whether err concerns the one request and not the session.
func isRefusal(err error) bool {
	if errors.Is(err, ErrAuth) {
		return false
	}
	if _, ok := errors.AsType[*RetryAfter](err); ok {
		return false
	}
	if _, ok := errors.AsType[*HTTPError](err); ok {
		return true
	}
	return isAnswer(err) || errors.Is(err, errDeadline)
}
