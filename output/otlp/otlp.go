// Package otlp sends spans to an OpenTelemetry collector over OTLP/HTTP, as the standard environment
// variables say (https://opentelemetry.io/docs/specs/otel/protocol/exporter/). It does nothing unless
// one of them names an endpoint.
//
// Library: go.opentelemetry.io/otel/sdk (Apache 2.0), which batches and samples spans. They are encoded and
// sent here: the official exporters link protobuf, and the one for HTTP also gRPC; every command would start
// them, also where no spans are recorded.
package otlp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracing"
)

// EndpointKey is the environment variable that turns traces on.
const EndpointKey = "OTEL_EXPORTER_OTLP_ENDPOINT"

// Export sends the spans of one tracer. Close must be called.
type Export struct {
	Tracer   *tracing.Tracer
	provider *sdk.TracerProvider
	client   *client
}

// Start returns an Export for the environment that lookup (such as os.LookupEnv) describes, or nil if it
// names no endpoint or turns traces off. The SDK itself reads the variables for resources, sampling and
// batches, from the environment of the process. No variable's value is in the error or in the log,
// because headers contain credentials.
func Start(ctx context.Context, lookup func(string) (string, bool), version string, logger *slog.Logger) (*Export, error) {
	env := settings(lookup)
	if env.on() {
		c, err := newClient(env, logger)
		if err != nil {
			return nil, err
		}
		about, err := resource.New(ctx, resource.WithTelemetrySDK(),
			resource.WithAttributes(attribute.String("service.name", "mcptrack"), attribute.String("service.version", version)),
			resource.WithFromEnv()) // the last one wins
		if err != nil {
			return nil, errors.New("OTEL_RESOURCE_ATTRIBUTES is not a list of NAME=VALUE pairs")
		}
		p := sdk.NewTracerProvider(sdk.WithBatcher(c), sdk.WithResource(about))
		return &Export{tracing.New(p, version), p, c}, nil
	}
	return nil, nil
}

// flushTime limits how long Close waits for a collector.
const flushTime = 2 * time.Second

// Close sends the spans that are waiting, once. After two seconds it drops those that are left.
func (e *Export) Close() {
	e.client.close()
	defer e.client.end()
	defer time.AfterFunc(flushTime, e.client.end).Stop()
	ctx, cancel := context.WithTimeout(context.Background(), flushTime+time.Second)
	defer cancel()
	_ = e.provider.Shutdown(ctx) // failures of the collector are logged by the client
}

// settings looks up a variable of the environment. A variable that is set but empty is not set.
type settings func(string) (string, bool)

func (s settings) get(key string) string {
	v, _ := s(key)
	return strings.TrimSpace(v)
}

// otlp looks up a variable of the exporter: the one for traces, or else the one for all signals.
func (s settings) otlp(name string) string {
	if v := s.get("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
		return v
	}
	return s.get("OTEL_EXPORTER_OTLP_" + name)
}

func (s settings) on() bool {
	return s.otlp("ENDPOINT") != "" && !strings.EqualFold(s.get("OTEL_SDK_DISABLED"), "true") && s.get("OTEL_TRACES_EXPORTER") != "none"
}

// endpoint returns the URL to which spans are posted.
func (s settings) endpoint() (string, error) {
	key, raw := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", s.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if raw == "" {
		key, raw = EndpointKey, s.get(EndpointKey)
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%s is not an http or https URL", key)
	}
	if key == EndpointKey {
		u = u.JoinPath("v1", "traces")
	}
	return u.String(), nil
}

// header returns the headers of the requests: pairs NAME=VALUE with percent-encoded values.
func (s settings) header() (http.Header, error) {
	h := http.Header{}
	for pair := range strings.SplitSeq(s.otlp("HEADERS"), ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		name = strings.TrimSpace(name)
		if !ok || err != nil || name == "" || strings.ContainsFunc(name+value, func(r rune) bool { return r < ' ' || r > '~' }) || strings.ContainsAny(name, " :") {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS is not a list of NAME=VALUE pairs")
		}
		h.Set(name, value)
	}
	return h, nil
}

func (s settings) timeout() (time.Duration, error) {
	raw := s.otlp("TIMEOUT")
	if raw == "" {
		return 10 * time.Second, nil
	}
	ms, err := strconv.ParseUint(raw, 10, 31)
	if err != nil || ms == 0 {
		return 0, errors.New("OTEL_EXPORTER_OTLP_TIMEOUT is not a number of milliseconds")
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// tls returns the TLS settings, or nil for the default.
func (s settings) tls() (*tls.Config, error) {
	ca, cert, key := s.otlp("CERTIFICATE"), s.otlp("CLIENT_CERTIFICATE"), s.otlp("CLIENT_KEY")
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		cfg.RootCAs = x509.NewCertPool()
		if err != nil || !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("OTEL_EXPORTER_OTLP_CERTIFICATE is not a file with certificates")
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, errors.New("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and OTEL_EXPORTER_OTLP_CLIENT_KEY are not files with a certificate and its key")
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// compressed reports whether bodies are compressed.
func (s settings) compressed() (bool, error) {
	switch v := s.otlp("COMPRESSION"); v {
	case "", "none":
		return false, nil
	case "gzip":
		return true, nil
	default:
		return false, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %q; expected gzip or none", printable.Line(v, 40))
	}
}

func (s settings) protocol() error {
	if p := s.otlp("PROTOCOL"); p != "" && p != "http/protobuf" {
		return fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; mcptrack sends http/protobuf only, usually to port 4318", printable.Line(p, 40))
	}
	return nil
}
