package tracing

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// off is the path of a request while nothing is traced.
func off(ctx context.Context, meta json.RawMessage) int {
	var t *Tracer
	ctx, outer := t.Server(ctx, nil, Request{Method: "tools/call"})
	_, inner := t.Client(ctx, Request{Method: "tools/call"})
	inner.Result("tools/call", meta)
	inner.FailWith(context.Canceled)
	inner.End()
	outer.FailRPC(-32602, "text")
	outer.End()
	return len(Clean(meta)) + len(t.Changed(time.Time{}, Event{Type: "resource.updated", URI: "file:///a"}))
}

var plain = json.RawMessage(`{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`)

func TestNothingTracedCostsNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { off(t.Context(), plain) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		off(b.Context(), plain)
	}
}

func BenchmarkOn(b *testing.B) {
	b.ReportAllocs()
	t := New(sdk.NewTracerProvider(), "")
	for b.Loop() {
		_, span := t.Client(b.Context(), Request{Method: "tools/call", Target: "dig", ID: "1", Version: "2026-07-28", Server: "a"})
		span.Inject(map[string]any{})
		span.End()
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{
		`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","tracestate":"a=1","baggage":"a=1"}`,
		`{"baggage":"é"}`, `{"traceparent":1}`, `["baggage"]`, `{"x":"tracestate"}`, `{"tracestate":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, meta []byte) {
		var before, after map[string]json.RawMessage
		if json.Unmarshal(meta, &before) != nil || before == nil {
			return
		}
		out := Clean(meta)
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		for name, value := range before {
			if kept, ok := after[name]; name != Parent && name != State && name != Baggage && (!ok || !same(kept, value)) {
				t.Errorf("%s became %s", name, kept)
			}
		}
		if parent := text(after[Parent]); mentions(meta) && after[Parent] != nil && !parse(parent, text(after[State])).IsValid() {
			t.Errorf("%q was kept", parent)
		}
	})
}

// same compares JSON values; encoding/json escapes some characters.
func same(a, b json.RawMessage) bool {
	var x, y any
	_, _ = json.Unmarshal(a, &x), json.Unmarshal(b, &y)
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

// Texts of servers are bounded and printable in spans.
func TestSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	tr := New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)), "")
	long := "\x1b[31m" + strings.Repeat("x", 1<<20)
	_, span := tr.Client(t.Context(), Request{Method: "tools/call", Target: long, URI: long, ID: long, Version: long, Server: long})
	span.FailRPC(-1, long)
	span.End()
	_, span = tr.Server(t.Context(), map[string]json.RawMessage{Parent: json.RawMessage(`"x"`)}, Request{Method: long})
	span.End()
	at := time.Now().Add(-time.Minute)
	change := Event{Type: "resource.updated", Server: long, URI: long, Cause: "notify"}
	change.Trace = tr.Changed(at, change)
	for _, trace := range []string{change.Trace, "", "garbage"} {
		change.Trace = trace
		_, sent := tr.Delivery(t.Context(), "webhook", time.Time{}, change)
		sent.End()
	}
	ended := spans.Ended()
	if s := ended[2]; s.Name() != "resource.updated" || !s.StartTime().Equal(at) {
		t.Errorf("%s at %s", s.Name(), s.StartTime())
	}
	if s := ended[3]; len(s.Links()) != 1 || s.Links()[0].SpanContext.SpanID() != ended[2].SpanContext().SpanID() || len(ended[4].Links())+len(ended[5].Links()) != 0 {
		t.Errorf("%v %v %v", s.Links(), ended[4].Links(), ended[5].Links())
	}
	for _, s := range ended {
		size := len(s.Name()) + len(s.Status().Description)
		for _, a := range s.Attributes() {
			size += len(a.Value.AsString())
			if strings.Contains(a.Value.AsString(), "\x1b") {
				t.Errorf("%s=%q", a.Key, a.Value.AsString())
			}
		}
		if size > 4<<10 || strings.Contains(s.Name(), "\x1b") {
			t.Errorf("a span of %d bytes: %.80q", size, s.Name())
		}
	}
}
