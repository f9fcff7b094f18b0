package otlp

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	maxAttempts = 3
	retryWait   = time.Second     // before the second attempt; doubled before the third
	maxWait     = 5 * time.Second // of a Retry-After
	maxResponse = 64 << 10        // bytes of a response that are read, so that the connection is used again
)

// client posts spans. It is the exporter of an Export.
type client struct {
	endpoint string
	header   http.Header
	timeout  time.Duration // of one batch, with all its attempts
	gzip     bool
	http     *http.Client
	logger   *slog.Logger
	warned   sync.Once

	// closing ends when failed requests are no longer repeated, and life when nothing more is sent.
	closing, life context.Context
	close, end    context.CancelFunc
}

func newClient(env settings, logger *slog.Logger) (*client, error) {
	c := &client{logger: logger}
	err := env.protocol()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	for _, set := range []func() error{
		func() (err error) { c.endpoint, err = env.endpoint(); return err },
		func() (err error) { c.header, err = env.header(); return err },
		func() (err error) { c.timeout, err = env.timeout(); return err },
		func() (err error) { c.gzip, err = env.compressed(); return err },
		func() (err error) { transport.TLSClientConfig, err = env.tls(); return err },
	} {
		err = cmp.Or(err, set())
	}
	if err != nil {
		return nil, err
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the headers are for this collector only
	}}
	c.life, c.end = context.WithCancel(context.Background())
	c.closing, c.close = context.WithCancel(c.life)
	return c, nil
}

// Shutdown implements [sdk.SpanExporter].
func (c *client) Shutdown(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// ExportSpans posts spans. Spans that cannot be posted are dropped: the first failure is logged, and
// none is returned, because the SDK would print each of them.
func (c *client) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	if err := c.upload(ctx, encode(spans)); err != nil {
		c.warned.Do(func() {
			c.logger.Warn("cannot send traces to the collector; later failures are not reported", "err", printable.Reason(err, 300))
		})
	}
	return nil
}

func (c *client) upload(ctx context.Context, body []byte) (err error) {
	if c.gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body) // a bytes.Buffer does not fail
		_ = z.Close()
		body = b.Bytes()
	}
	waits, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(c.closing, stop)()
	for n := range maxAttempts {
		after, failed := c.post(ctx, body)
		if err = failed; after < 0 || n == maxAttempts-1 || !backoff.Sleep(waits, max(after, backoff.Spread(retryWait<<n))) {
			break
		}
	}
	return err
}

// post makes one attempt. It returns the delay that the collector asks for before another one, or a
// negative delay if there is nothing to repeat.
func (c *client) post(ctx context.Context, body []byte) (after time.Duration, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return -1, errors.New("invalid endpoint")
	}
	maps.Copy(q.Header, c.header)
	q.Header.Set("Content-Type", "application/x-protobuf")
	q.Header.Set("User-Agent", "mcptrack")
	if c.gzip {
		q.Header.Set("Content-Encoding", "gzip")
	}
	r, err := c.http.Do(q)
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the URL, which may contain credentials
	}
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	_, _ = io.CopyN(io.Discard, r.Body, maxResponse)
	switch r.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseUint(r.Header.Get("Retry-After"), 10, 16) // 0 if it is missing or a date
		after = min(time.Duration(seconds)*time.Second, maxWait)
	default:
		after = -1
	}
	if r.StatusCode/100 != 2 {
		err = fmt.Errorf("HTTP status %d", r.StatusCode)
	}
	return after, err
}
