package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Changed records that an event is published, from the time when its cause arrived, or from now if since
// is zero. It returns the traceparent of the span, or an empty string if nothing is recorded.
func (t *Tracer) Changed(since time.Time, e Event) string {
	if t == nil {
		return ""
	}
	ctx, span := t.event(context.Background(), e.Type, since, trace.SpanKindInternal, e)
	defer span.End()
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	return span.Traceparent()
}

// Event describes an event for its spans. URI and Server are made printable and shortened.
type Event struct {
	Type, Server, URI string
	Cause             string // how the change was detected, or empty
	Trace             string // traceparent of the span that Changed recorded, or empty
}

// Delivery starts the span for one attempt to deliver an event, named by what delivers it. The span is
// linked to the change that caused the event. It starts at since, or now if since is zero.
func (t *Tracer) Delivery(ctx context.Context, name string, since time.Time, e Event) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	return t.event(ctx, name, since, trace.SpanKindProducer, e)
}

func (t *Tracer) event(ctx context.Context, name string, since time.Time, kind trace.SpanKind, e Event) (context.Context, Span) {
	attrs := []attribute.KeyValue{attribute.String("mcptrack.event.type", e.Type)}
	for _, a := range []struct{ key, value string }{{"mcptrack.server.id", e.Server}, {"mcp.resource.uri", e.URI}, {"mcptrack.cause", e.Cause}} {
		if a.value != "" {
			attrs = append(attrs, attribute.String(a.key, printable.Line(a.value, maxURI)))
		}
	}
	opts := []trace.SpanStartOption{trace.WithSpanKind(kind), trace.WithAttributes(attrs...)}
	if change := parse(e.Trace, ""); change.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: change.WithRemote(true)}))
	}
	if !since.IsZero() {
		opts = append(opts, trace.WithTimestamp(since))
	}
	ctx, span := t.otel.Start(ctx, name, opts...)
	return ctx, Span{span}
}
