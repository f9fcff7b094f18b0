package otlp

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/mcptrack/mcptrack/core/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is a receiver of OTLP over HTTP.
type collector struct {
	*httptest.Server
	answer func(n int, w http.ResponseWriter) // answers the nth request, from 1; nil accepts it

	mu       sync.Mutex
	requests []*http.Request
	spans    []*tracepb.ResourceSpans
}

func newCollector(t *testing.T, answer func(n int, w http.ResponseWriter)) *collector {
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(body)
		}
		raw, err := io.ReadAll(body)
		var data tracepb.TracesData
		if err != nil || proto.Unmarshal(raw, &data) != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("not OTLP: %q, %v", raw, err)
		}
		c.mu.Lock()
		c.requests = append(c.requests, r)
		c.spans = append(c.spans, data.ResourceSpans...)
		n := len(c.requests)
		c.mu.Unlock()
		if c.answer != nil {
			c.answer(n, w)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.requests)
}

// start starts an export with variables and returns what it logs.
func start(t *testing.T, env map[string]string) (*Export, *strings.Builder) {
	t.Helper()
	var log strings.Builder
	e, err := Start(t.Context(), lookup(env), "1.2.3", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || e == nil {
		t.Fatal(e, err)
	}
	return e, &log
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(key string) (string, bool) { v, ok := env[key]; return v, ok }
}

func record(e *Export) {
	_, span := e.Tracer.Client(context.Background(), tracing.Request{Method: "tools/call", Target: "dig"})
	span.FailRPC(-32602, "bad")
	span.End()
}

func TestExport(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	for _, row := range []struct {
		path string
		env  map[string]string
	}{
		{"/v1/traces", map[string]string{EndpointKey: "", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b, X-Two=2", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}},
		{"/base/v1/traces", map[string]string{EndpointKey: "/base/", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "api-key=a%20b"}},
		{"/mine", map[string]string{EndpointKey: "/other", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "/mine", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b"}},
	} {
		c := newCollector(t, nil)
		for key := range row.env {
			if strings.HasSuffix(key, "ENDPOINT") {
				row.env[key] = c.URL + row.env[key]
			}
		}
		e, log := start(t, row.env)
		record(e)
		e.Close()
		if c.count() != 1 || log.String() != "" {
			t.Fatalf("%d requests, log %q", c.count(), log)
		}
		if r := c.requests[0]; r.URL.Path != row.path || r.Header.Get("Api-Key") != "a b" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		about := map[string]string{}
		for _, a := range c.spans[0].Resource.Attributes {
			about[a.Key] = a.Value.GetStringValue()
		}
		if about["service.name"] != "mcptrack" || about["service.version"] != "1.2.3" || about["deployment.environment.name"] != "test" || about["telemetry.sdk.language"] != "go" {
			t.Errorf("%v", about)
		}
		s := c.spans[0].ScopeSpans[0].Spans[0]
		if s.Name != "tools/call dig" || s.Kind != tracepb.Span_SPAN_KIND_CLIENT || s.Status.Message != "bad" || len(hex.EncodeToString(s.TraceId)) != 32 {
			t.Errorf("%v", s)
		}
	}
}

// The official types read what was recorded, and nothing else.
func TestEncoding(t *testing.T) {
	state, err := trace.ParseTraceState("vendor=1,other=2")
	if err != nil {
		t.Fatal(err)
	}
	traceID, spanID, parentID := trace.TraceID{1, 15: 2}, trace.SpanID{3, 7: 4}, trace.SpanID{5}
	of := trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled, TraceState: state}
	own, local := trace.NewSpanContext(of), trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: parentID})
	remote := local.WithRemote(true)
	long := strings.Repeat("\u00e9", 300)
	spans := tracetest.SpanStubs{
		{Name: "tools/call \xff\u2028", SpanContext: own, Parent: remote, SpanKind: trace.SpanKindServer, StartTime: time.Unix(1, 2), EndTime: time.Unix(1<<33, 4),
			Attributes: []attribute.KeyValue{attribute.String("empty", ""), attribute.String("long", long)}, DroppedAttributes: 300,
			Links:        []sdk.Link{{SpanContext: own}, {SpanContext: remote, Attributes: []attribute.KeyValue{attribute.String("a", "b")}, DroppedAttributeCount: 1}},
			DroppedLinks: 2, Status: sdk.Status{Code: codes.Error, Description: "why"}},
		{SpanContext: local, Parent: own, SpanKind: trace.SpanKindClient, Status: sdk.Status{Code: codes.Ok}, StartTime: time.Unix(0, 0), EndTime: time.Unix(0, 0)},
		{SpanContext: own, SpanKind: trace.SpanKindProducer, StartTime: time.Unix(0, 1), EndTime: time.Unix(0, 2)},
	}
	for i := range spans {
		spans[i].Resource = resource.NewWithAttributes("https://opentelemetry.io/schemas/1", attribute.String("service.name", "mcptrack"))
		spans[i].InstrumentationScope = instrumentation.Scope{Name: "scope", Version: "1.2.3"}
	}
	pair := func(key, value string) *commonpb.KeyValue {
		return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
	}
	want := &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		SchemaUrl: "https://opentelemetry.io/schemas/1",
		Resource:  &resourcepb.Resource{Attributes: []*commonpb.KeyValue{pair("service.name", "mcptrack")}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "scope", Version: "1.2.3"}, Spans: []*tracepb.Span{
			{Name: "tools/call \ufffd\u2028", TraceId: traceID[:], SpanId: spanID[:], ParentSpanId: parentID[:], TraceState: state.String(), Flags: 0x301,
				Kind: tracepb.Span_SPAN_KIND_SERVER, StartTimeUnixNano: 1e9 + 2, EndTimeUnixNano: 1<<33*1e9 + 4,
				Attributes: []*commonpb.KeyValue{pair("empty", ""), pair("long", long)}, DroppedAttributesCount: 300,
				Links: []*tracepb.Span_Link{{TraceId: traceID[:], SpanId: spanID[:], TraceState: state.String(), Flags: 0x101},
					{TraceId: traceID[:], SpanId: parentID[:], Flags: 0x300, Attributes: []*commonpb.KeyValue{pair("a", "b")}, DroppedAttributesCount: 1}},
				DroppedLinksCount: 2, Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR, Message: "why"}},
			{TraceId: traceID[:], SpanId: parentID[:], ParentSpanId: spanID[:], Flags: 0x100, Kind: tracepb.Span_SPAN_KIND_CLIENT, Status: &tracepb.Status{Code: tracepb.Status_STATUS_CODE_OK}},
			{TraceId: traceID[:], SpanId: spanID[:], TraceState: state.String(), Flags: 0x101, Kind: tracepb.Span_SPAN_KIND_PRODUCER, StartTimeUnixNano: 1, EndTimeUnixNano: 2, Status: &tracepb.Status{}},
		}}},
	}}}
	var got tracepb.TracesData
	if err := proto.Unmarshal(encode(spans.Snapshots()), &got); err != nil || !proto.Equal(&got, want) {
		t.Errorf("got  %v, %v\nwant %v", &got, err, want)
	}
}

// A collector that fails, hangs or asks to wait for an hour does not delay the end for long, and is
// reported once.
func TestCollectorsThatFail(t *testing.T) {
	unused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	down := "http://" + unused.Addr().String()
	_ = unused.Close()
	release := make(chan struct{})
	hang := newCollector(t, func(int, http.ResponseWriter) { <-release })
	defer close(release)
	refuses := newCollector(t, func(_ int, w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) })
	busy := newCollector(t, func(_ int, w http.ResponseWriter) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	moved := newCollector(t, func(_ int, w http.ResponseWriter) {
		w.Header().Set("Location", refuses.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	for _, row := range []struct {
		name, endpoint, want string
	}{
		{"down", down, "refused"},
		{"hang", hang.URL, "cancel"},
		{"500", refuses.URL, "HTTP status 500"},
		{"503", busy.URL, "HTTP status 503"},
		{"redirect", moved.URL, "HTTP status 307"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e, log := start(t, map[string]string{EndpointKey: row.endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "key=s3cret"})
			for range 1000 { // two batches
				record(e)
			}
			began := time.Now()
			e.Close()
			if took := time.Since(began); took > time.Minute { // the flush time, on a busy machine
				t.Errorf("Close took %s", took)
			}
			if out := log.String(); strings.Count(out, "\n") != 1 || !strings.Contains(out, row.want) || strings.Contains(out, "s3cret") {
				t.Errorf("log %q", out)
			}
		})
	}
}

// A busy collector gets the spans later, and they are not reported as lost.
func TestRetry(t *testing.T) {
	c := newCollector(t, func(n int, w http.ResponseWriter) {
		if n == 1 {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	e, log := start(t, map[string]string{EndpointKey: c.URL})
	record(e)
	if err := e.provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.Close()
	if c.count() != 2 || log.String() != "" {
		t.Errorf("%d requests, log %q", c.count(), log)
	}
}

func TestSettings(t *testing.T) {
	for _, off := range []map[string]string{
		{}, {EndpointKey: ""}, {EndpointKey: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		{EndpointKey: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}, {"OTEL_EXPORTER_OTLP_HEADERS": "a=b"},
	} {
		if e, err := Start(t.Context(), lookup(off), "", nil); e != nil || err != nil {
			t.Errorf("%v: %v, %v", off, e, err)
		}
	}
	for key, values := range map[string][]string{
		EndpointKey:                      {"127.0.0.1:4318", "ftp://127.0.0.1", "http://", "://"},
		"OTEL_EXPORTER_OTLP_PROTOCOL":    {"grpc", "http/json"},
		"OTEL_EXPORTER_OTLP_HEADERS":     {"s3cret", "=s3cret", "a=%zz-s3cret", "a=s3cret%0ab", "a b=s3cret"},
		"OTEL_EXPORTER_OTLP_TIMEOUT":     {"10s", "0", "-1"},
		"OTEL_EXPORTER_OTLP_COMPRESSION": {"zstd"},
		"OTEL_EXPORTER_OTLP_CERTIFICATE": {"/no/such/file"},
		"OTEL_EXPORTER_OTLP_CLIENT_KEY":  {"/no/such/file"},
	} {
		for _, value := range values {
			env := map[string]string{EndpointKey: "http://127.0.0.1:1"}
			env[key] = value
			e, err := Start(t.Context(), lookup(env), "", nil)
			if e != nil || err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(key, "_KEY")) && !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s=%s: %v, %v", key, value, e, err)
			}
		}
	}
}
