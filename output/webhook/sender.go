package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
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
)

// Error is why a message was not accepted, as shown to clients: a category that reveals nothing
// of the endpoint's response. A refused address looks like a closed port.
type Error string

// The categories.
const (
	ConnectionRefused Error = "connection_refused"
	Timeout           Error = "timeout"
	TLSError          Error = "tls_error"
	HTTP4xx           Error = "http_4xx"
	HTTP5xx           Error = "http_5xx"
	ChallengeFailed   Error = "challenge_failed"
)

const (
	maxAnswer  = 16 << 10
	maxBody    = 256 << 10 // bytes of a message
	maxBackoff = 10 * time.Minute
)

// Message is one POST.
type Message struct {
	URL     string
	ID      string // webhook-id
	Body    []byte
	Header  http.Header               // in addition
	Secrets []standardwebhooks.Secret // nil: it is not signed
	// Private allows addresses that are not public: the URL is the operator's.
	Private bool
}

// Result is the outcome of one attempt.
type Result struct {
	Err        Error // "": the message was accepted
	Drop       bool  // the endpoint does not want this message: neither a failure nor retried
	RetryAfter time.Duration
	answer     []byte // response body, of a challenge
}

// Sender sends messages. Its methods may be called from anywhere.
type Sender struct {
	guard  *guard
	client *http.Client // reaches public addresses only
	open   *http.Client // reaches all addresses
	all    *places      // of all hosts

	mu    sync.Mutex
	hosts map[string]*host
}

// Limits of attempts in progress, as in [places]: to one host and in all.
const (
	perHost    = 4
	lateOfHost = 2
	mostOfHost = 16
	atATime    = 64
	lateInAll  = 32
	mostInAll  = 128
)

// host has the places of one host, for as long as it has users.
type host struct {
	users int
	*places
}

// NewSender returns a sender. open are addresses and ports of this machine that URLs may name,
// also with plain HTTP, for tests; see [URLs.Local].
func NewSender(open []netip.AddrPort) *Sender {
	g := &guard{open}
	return &Sender{guard: g, client: newClient(g), open: newClient(nil), all: newPlaces(atATime, lateInAll, mostInAll), hosts: map[string]*host{}}
}

// Close closes idle connections.
func (s *Sender) Close() {
	s.client.CloseIdleConnections()
	s.open.CloseIdleConnections()
}

// acquire waits for a place of the host and then for one of all. The caller must call release when
// its attempt has ended.
func (s *Sender) acquire(ctx context.Context, name string, c *caller) (release func(), err error) {
	s.mu.Lock()
	h := s.hosts[name]
	if h == nil {
		h = &host{places: newPlaces(perHost, lateOfHost, mostOfHost)}
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
	own, err := h.take(ctx, c)
	if err != nil {
		leave()
		return nil, err
	}
	shared, err := s.all.take(ctx, c)
	if err != nil {
		own.give()
		leave()
		return nil, err
	}
	late := time.AfterFunc(lateAfter, func() {
		c.late.Store(true)
		own.overdue()
		shared.overdue()
	})
	return func() {
		if late.Stop() {
			c.late.Store(false)
			c.proven.Store(true)
		}
		shared.give()
		own.give()
		leave()
	}, nil
}

// post makes one attempt to send a message. before, if not nil, is called after the wait for a
// place, right before the request; if it fails, nothing is sent. The error is the cause of ctx
// or of before.
func (s *Sender) post(ctx context.Context, c *caller, m *Message, before func() error) (Result, error) {
	u, err := url.Parse(m.URL)
	if err != nil {
		return Result{Err: ConnectionRefused}, nil
	}
	host := hostName(m.URL)
	if m.Private {
		host = u.Host // the ports of an operator's machine are endpoints that do not delay each other
	}
	release, err := s.acquire(ctx, host, c)
	if err != nil {
		return Result{}, err
	}
	defer release()
	if before != nil {
		if err := before(); err != nil {
			return Result{}, err
		}
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return Result{Err: ConnectionRefused}, nil
	}
	for name, values := range m.Header {
		q.Header[http.CanonicalHeaderKey(name)] = values
	}
	if q.Header.Get("Content-Type") == "" {
		q.Header.Set("Content-Type", "application/json")
	}
	q.Header.Set("User-Agent", "mcptrack")
	now := time.Now()
	if m.ID != "" {
		q.Header.Set("webhook-id", m.ID)
		q.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	}
	if len(m.Secrets) > 0 {
		signed, err := standardwebhooks.Sign(m.Secrets, m.ID, now, m.Body)
		if err != nil {
			return Result{}, err
		}
		q.Header.Set("webhook-signature", signed)
	}
	return s.do(q, m.Private), nil
}

func (s *Sender) do(q *http.Request, private bool) Result {
	client := s.client
	if private {
		client = s.open
	}
	p, err := client.Do(q)
	if err != nil {
		return Result{Err: category(err)}
	}
	defer func() { _ = p.Body.Close() }()
	answer, _ := io.ReadAll(io.LimitReader(p.Body, maxAnswer)) // an unreadable rest is ignored
	r := Result{answer: answer}
	switch {
	case p.StatusCode >= 200 && p.StatusCode < 300:
	case p.StatusCode == http.StatusGone || p.StatusCode == http.StatusRequestEntityTooLarge:
		r.Drop = true
	case p.StatusCode >= 500:
		r.Err = HTTP5xx
	default: // redirects, too: they are not followed
		r.Err = HTTP4xx
	}
	if r.Err != "" {
		r.RetryAfter = min(backoff.RetryAfter(p.Header), maxBackoff)
	}
	return r
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
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return TLSError
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return Timeout
	}
	return ConnectionRefused
}
