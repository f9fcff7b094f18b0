package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
	"github.com/mcptrack/mcptrack/core/tracing"
	"github.com/mcptrack/mcptrack/core/uri"
)

// Error is the reason, as reported to clients, why a message was not accepted. It is only a
// category, so that it reveals nothing about the response: a forbidden address is indistinguishable
// from a closed port.
type Error string

// Possible values of Error.
const (
	ConnectionRefused Error = "connection_refused"
	Timeout           Error = "timeout"
	TLSError          Error = "tls_error"
	HTTP4xx           Error = "http_4xx"
	HTTP5xx           Error = "http_5xx"
	ChallengeFailed   Error = "challenge_failed"
)

const maxAnswer = 16 << 10 // maximum size of a response body in bytes

// message is the content of one POST request.
type message struct {
	url          string
	id           string // value of the webhook-id header
	body         []byte
	contentType  string
	subscription string                    // ID of the subscription; empty if there is none
	secrets      []standardwebhooks.Secret // signing secrets; nil if the message is not signed
	private      bool                      // an operator's URL: non-public addresses are allowed
}

// result is the outcome of one attempt.
type result struct {
	err        Error // empty if the message was accepted
	drop       bool  // the endpoint rejected the message permanently: not a failure, and not retried
	retryAfter time.Duration
	answer     []byte // response body, for a challenge
}

// Sender sends messages over HTTP. It is safe for concurrent use.
type Sender struct {
	// Tracer records a span for every attempt to deliver an event. Set it before the sender is used; nil
	// records nothing.
	Tracer *tracing.Tracer

	guard  *guard
	client *http.Client // reaches only public addresses
	open   *http.Client // reaches any address
	all    *slots       // shared by all hosts

	mu    sync.Mutex
	hosts map[string]*host
}

// Limits on concurrent attempts (see [slots]): per host and in total.
const (
	promptPerHost = 4
	latePerHost   = 2
	maxPerHost    = 16
	promptInTotal = 64
	lateInTotal   = 32
	maxInTotal    = 128
)

// host contains the slots of one host. It is removed when its last user releases it.
type host struct {
	users int
	*slots
}

// NewSender returns a sender. open lists addresses and ports of this machine that URLs may use,
// even with plain HTTP, for tests; see [URLs.Local].
func NewSender(open []netip.AddrPort) *Sender {
	g := &guard{open}
	return &Sender{guard: g, client: newClient(g), open: newClient(nil), all: newSlots(promptInTotal, lateInTotal, maxInTotal), hosts: map[string]*host{}}
}

// Close closes idle connections.
func (s *Sender) Close() {
	s.client.CloseIdleConnections()
	s.open.CloseIdleConnections()
}

// acquire waits for a per-host slot and then for a slot of the total limit. The caller must call
// release after its attempt.
func (s *Sender) acquire(ctx context.Context, name string, who *responder) (release func(), err error) {
	s.mu.Lock()
	h := s.hosts[name]
	if h == nil {
		h = &host{slots: newSlots(promptPerHost, latePerHost, maxPerHost)}
		s.hosts[name] = h
	}
	h.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(s.hosts, name)
		}
	}
	own, err := h.take(ctx, who)
	if err != nil {
		leave()
		return nil, err
	}
	shared, err := s.all.take(ctx, who)
	if err != nil {
		own.release()
		leave()
		return nil, err
	}
	late := time.AfterFunc(lateAfter, func() {
		who.late.Store(true)
		own.setLate()
		shared.setLate()
	})
	return func() {
		if late.Stop() {
			who.late.Store(false)
		}
		shared.release()
		own.release()
		leave()
	}, nil
}

// post makes one attempt to send a message. If before is not nil, post calls it after waiting for a
// slot and immediately before the request; if before fails, nothing is sent. The returned error is
// the cause of ctx or the error from before.
func (s *Sender) post(ctx context.Context, who *responder, m *message, before func() error) (result, error) {
	u, err := url.Parse(m.url)
	if err != nil {
		return result{err: ConnectionRefused}, nil
	}
	host := hostName(m.url)
	if m.private {
		host = u.Host // includes the port, so that services on one machine do not delay each other
	}
	release, err := s.acquire(ctx, host, who)
	if err != nil {
		return result{}, err
	}
	defer release()
	if before != nil {
		if err := before(); err != nil {
			return result{}, err
		}
	}
	u.RawQuery = uri.Query(u.RawQuery)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(m.body))
	if err != nil {
		return result{err: ConnectionRefused}, nil
	}
	q.Header.Set("Content-Type", m.contentType)
	if m.subscription != "" {
		q.Header.Set(standardwebhooks.SubscriptionHeader, m.subscription)
	}
	q.Header.Set("User-Agent", "mcptrack")
	now := time.Now()
	if m.id != "" {
		q.Header.Set("webhook-id", m.id)
		q.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	}
	if len(m.secrets) > 0 {
		signed, err := standardwebhooks.Sign(m.secrets, m.id, now, m.body)
		if err != nil {
			return result{}, err
		}
		q.Header.Set("webhook-signature", signed)
	}
	client := s.client
	if m.private {
		client = s.open
	}
	p, err := client.Do(q)
	if err != nil {
		return result{err: category(err)}, nil
	}
	defer func() { _ = p.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(p.Body, maxAnswer)) // a read error only truncates the answer
	r := result{answer: answer}
	switch {
	case p.StatusCode >= 200 && p.StatusCode < 300:
	case p.StatusCode == http.StatusGone || p.StatusCode == http.StatusRequestEntityTooLarge:
		r.drop = true
	case p.StatusCode >= 500:
		r.err = HTTP5xx
	default: // including redirects, which are not followed
		r.err = HTTP4xx
	}
	if r.err != "" {
		r.retryAfter = backoff.RetryAfter(p.Header)
	}
	return r, nil
}

func category(err error) Error {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return TLSError
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return TLSError
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return TLSError
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return Timeout
	}
	return ConnectionRefused
}
