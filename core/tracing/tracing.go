// Package tracing describes MCP requests and events as OpenTelemetry spans, and passes the trace
// context of a request on. Names and attributes follow OpenTelemetry's semantic conventions for MCP
// (https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md); the members of
// _meta follow SEP-414, and their values W3C Trace Context and W3C Baggage. Spans contain neither
// arguments nor results.
//
// A nil *Tracer records nothing and costs nothing, and so does a zero Span.
//
// Library: go.opentelemetry.io/otel/trace, the API of OpenTelemetry (Apache 2.0), so that programs that
// embed mcptrack can pass their own provider. The SDK is linked by output/otlp only.
package tracing

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	maxName    = 200     // bytes of a tool's name, a server's id or a request's id in a span
	maxURI     = 1 << 10 // bytes of a URI in a span
	maxMessage = 300     // bytes of an error message in a span
)

// Tracer starts spans. It is safe for concurrent use.
type Tracer struct{ otel trace.Tracer }

// New returns a Tracer whose spans are made by p.
func New(p trace.TracerProvider, version string) *Tracer {
	return &Tracer{p.Tracer("github.com/mcptrack/mcptrack", trace.WithInstrumentationVersion(version))}
}

// Request describes a request for its span. All texts may be untrusted; they are made printable and
// shortened.
type Request struct {
	Method  string
	Target  string // name of the tool or prompt; empty for other methods
	URI     string // params.uri; empty if the method has none
	ID      string // JSON-RPC id
	Version string // protocol version; empty if not negotiated yet
	Server  string // id of the server in the config; empty if the request is not for one server
	Pipe    bool   // whether the transport is stdio, and not HTTP
}

// Client starts the span of a request that is sent to a server. The returned context contains the span.
func (t *Tracer) Client(ctx context.Context, r Request) (context.Context, Span) {
	return t.request(ctx, trace.SpanKindClient, r)
}

// Server starts the span of a request that a client sent. The span continues the trace in meta, the
// members of its _meta, if they are valid. The returned context contains the span.
func (t *Tracer) Server(ctx context.Context, meta map[string]json.RawMessage, r Request) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	if remote := parse(text(meta[Parent]), text(meta[State])); remote.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote)
	}
	return t.request(ctx, trace.SpanKindServer, r)
}

func (t *Tracer) request(ctx context.Context, kind trace.SpanKind, r Request) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	name, attrs := printable.Line(r.Method, maxName), make([]attribute.KeyValue, 0, 8)
	add := func(key, value string, most int) {
		if value != "" {
			attrs = append(attrs, attribute.String(key, printable.Line(value, most)))
		}
	}
	add("mcp.method.name", r.Method, maxName)
	switch r.Method {
	case mcp.MethodCallTool:
		add("gen_ai.tool.name", r.Target, maxName)
		add("gen_ai.operation.name", "execute_tool", maxName)
	case mcp.MethodGetPrompt:
		add("gen_ai.prompt.name", r.Target, maxName)
	}
	if r.Target != "" {
		name += " " + printable.Line(r.Target, maxName)
	}
	add("mcp.resource.uri", r.URI, maxURI)
	add("jsonrpc.request.id", r.ID, maxName)
	add("mcp.protocol.version", r.Version, maxName)
	add("mcptrack.server.id", r.Server, maxName)
	transport := "tcp"
	if r.Pipe {
		transport = "pipe"
	}
	add("network.transport", transport, maxName)
	ctx, span := t.otel.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
	return ctx, Span{span}
}

// Continue returns ctx with the span of another context, so that what happens in ctx belongs to it.
func Continue(ctx, of context.Context) context.Context {
	if span := trace.SpanContextFromContext(of); span.IsValid() {
		return trace.ContextWithSpanContext(ctx, span)
	}
	return ctx
}

// Span is a started span. End must be called.
type Span struct{ otel trace.Span }

// End ends the span.
func (s Span) End() {
	if s.otel != nil {
		s.otel.End()
	}
}

// Fail records that the operation failed. class must be one of few texts. message may be empty; it is
// made printable and shortened.
func (s Span) Fail(class, message string) {
	if s.otel != nil {
		s.otel.SetAttributes(attribute.String("error.type", class))
		s.otel.SetStatus(codes.Error, printable.Line(printable.Flat(message), maxMessage))
	}
}

// FailWith records a failure that is not a JSON-RPC error: whether it was cancelled, took too long or
// neither. The text of err is not recorded.
func (s Span) FailWith(err error) {
	switch {
	case errors.Is(err, context.Canceled):
		s.Fail("cancelled", "")
	case errors.Is(err, context.DeadlineExceeded):
		s.Fail("timeout", "")
	default:
		s.Fail("_OTHER", "")
	}
}

// FailRPC records a JSON-RPC error.
func (s Span) FailRPC(code int, message string) {
	if s.otel != nil {
		s.otel.SetAttributes(attribute.String("rpc.response.status_code", strconv.Itoa(code)))
		s.Fail(strconv.Itoa(code), message)
	}
}

// Result records the result of a request: a result of a tool call with isError set is a failure.
func (s Span) Result(method string, result json.RawMessage) {
	if s.otel == nil || method != mcp.MethodCallTool || !bytes.Contains(result, []byte(`"isError"`)) {
		return
	}
	var r struct {
		IsError bool `json:"isError"`
	}
	if json.Unmarshal(result, &r) == nil && r.IsError {
		s.Fail("tool_error", "")
	}
}
