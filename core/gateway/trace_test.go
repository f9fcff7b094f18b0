package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracing"
)

const (
	traceID  = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID = "00f067aa0ba902b7"
	valid    = "00-" + traceID + "-" + parentID + "-01"
)

// traceRequests are requests of each kind with members of _meta.
func traceRequests(meta string) map[string]string {
	return map[string]string{
		"tools/call":     `{"name":"dig","arguments":{"a":1},"_meta":` + meta + `}`,
		"prompts/get":    `{"name":"ask","_meta":` + meta + `}`,
		"resources/read": `{"uri":"file:///a","_meta":` + meta + `}`,
	}
}

func (w *fixture) startTraced(era session.Era) *sessiontest.Fake {
	a := w.Serve("a", era)
	a.SetList(catalog.Tools, tool("dig"))
	a.SetList(catalog.Prompts, map[string]any{"name": "ask"})
	a.Set("file:///a", "text")
	w.start(sessiontest.Entry("a"))
	w.advance(5 * time.Second) // the tracker has read what it reads
	for method, result := range map[string]any{
		"tools/call":  map[string]any{"content": []any{}},
		"prompts/get": map[string]any{"messages": []any{}},
	} {
		a.Fail(sessiontest.Fault{Method: method, Result: result})
	}
	return a
}

// The server sees the client's trace context, and none that is invalid; other members stay.
func TestTraceContextPassesUnchanged(t *testing.T) {
	long := `"` + strings.Repeat("a", 8193) + `"`
	rows := []struct{ sent, want string }{
		{`"traceparent":"` + valid + `","tracestate":"rojo=00f067aa0ba902b7","baggage":"user=alice"`, `"traceparent":"` + valid + `","tracestate":"rojo=00f067aa0ba902b7","baggage":"user=alice"`},
		{`"traceparent":"01-` + traceID + `-` + parentID + `-01-more"`, `"traceparent":"01-` + traceID + `-` + parentID + `-01-more"`},
		{`"baggage":"a=1"`, `"baggage":"a=1"`},
		{`"traceparent":"00-` + traceID + `-` + parentID + `","tracestate":"a=1","baggage":"a=1"`, `"baggage":"a=1"`},
		{`"traceparent":"00-00000000000000000000000000000000-` + parentID + `-01"`, ``},
		{`"traceparent":"` + strings.ToUpper(valid) + `"`, ``},
		{`"traceparent":"` + valid + `-more"`, ``},
		{`"traceparent":7,"baggage":["a=1"]`, ``},
		{`"traceparent":"` + valid + `","tracestate":` + long + `,"baggage":` + long, `"traceparent":"` + valid + `"`},
		{`"traceparent":"` + valid + `","tracestate":"a=\n","baggage":"é=1"`, `"traceparent":"` + valid + `"`},
		{`"tracestate":"a=1"`, ``},
	}
	inEras(t, func(w *fixture, era session.Era) {
		w.startTraced(era)
		for _, other := range []session.Era{session.EraLegacy, session.EraModern} {
			c := w.client(other)
			for _, row := range rows {
				for method, params := range traceRequests(`{"example.com/x":1,` + row.sent + `}`) {
					if raw, err := w.do(c, method, params); err != nil {
						w.Fatalf("%s %s: %s, %v", method, params, raw, err)
					}
					want := fields(json.RawMessage(`{` + row.want + `}`))
					got := fields(w.last("a", method)["_meta"])
					if string(got["example.com/x"]) != "1" {
						w.Errorf("%s: _meta lost a member: %s", method, encode(got))
					}
					for _, name := range []string{"traceparent", "tracestate", "baggage"} {
						if string(got[name]) != string(want[name]) {
							w.Errorf("%s client, %s, %.80s: %s is %.80s", other, method, row.sent, name, got[name])
						}
					}
				}
			}
		}
	})
}

// record makes the fixture trace its gateway and sessions.
func (w *fixture) record() *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	t := tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)), "test")
	w.opts.Serve.Tracer, w.opts.Session.Tracer = t, t
	return spans
}

// about describes a span by its name, kind, status and the attributes of the conventions.
func about(s sdk.ReadOnlySpan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.SpanKind(), s.Name())
	for _, a := range s.Attributes() {
		switch string(a.Key) {
		case "jsonrpc.request.id", "mcp.protocol.version", "mcp.method.name":
		default:
			fmt.Fprintf(&b, " %s=%s", a.Key, a.Value.AsString())
		}
	}
	if s.Status().Code == codes.Error {
		fmt.Fprintf(&b, " ERROR %q", s.Status().Description)
	}
	return b.String()
}

// ofTrace returns the spans of the client's trace, in the order of their ends.
func ofTrace(spans *tracetest.SpanRecorder) (of []sdk.ReadOnlySpan) {
	for _, s := range spans.Ended() {
		if s.SpanContext().TraceID().String() == traceID {
			of = append(of, s)
		}
	}
	return of
}

// The span of the gateway is the child of the client's and the parent of what the server sees.
func TestGatewaySpans(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		spans := w.record()
		a := w.startTraced(era)
		a.Heal()
		for _, fault := range []sessiontest.Fault{
			{Method: "tools/call", Times: 1, Result: map[string]any{"content": []any{}}},
			{Method: "tools/call", Times: 1, Result: map[string]any{"content": []any{}, "isError": true}},
			{Method: "prompts/get", Times: 1, Code: -32602, Message: "bad \x1b[31m argument"},
		} {
			a.Fail(fault)
		}
		c := w.client(era)
		meta := `{"traceparent":"` + valid + `","tracestate":"rojo=1","baggage":"a=1"}`
		for _, row := range []struct {
			method string
			want   [2]string // the spans of the session and of the gateway
		}{
			{"tools/call", [2]string{
				"client tools/call dig gen_ai.tool.name=dig gen_ai.operation.name=execute_tool mcptrack.server.id=a network.transport=pipe",
				"server tools/call dig gen_ai.tool.name=dig gen_ai.operation.name=execute_tool network.transport=pipe"}},
			{"tools/call", [2]string{
				`client tools/call dig gen_ai.tool.name=dig gen_ai.operation.name=execute_tool mcptrack.server.id=a network.transport=pipe error.type=tool_error ERROR ""`,
				`server tools/call dig gen_ai.tool.name=dig gen_ai.operation.name=execute_tool network.transport=pipe error.type=tool_error ERROR ""`}},
			{"prompts/get", [2]string{
				`client prompts/get ask gen_ai.prompt.name=ask mcptrack.server.id=a network.transport=pipe rpc.response.status_code=-32602 error.type=-32602 ERROR "bad \\x1b[31m argument"`,
				`server prompts/get ask gen_ai.prompt.name=ask network.transport=pipe rpc.response.status_code=-32602 error.type=-32602 ERROR "bad \\x1b[31m argument"`}},
			{"resources/read", [2]string{
				"client resources/read mcp.resource.uri=file:///a mcptrack.server.id=a network.transport=pipe",
				"server resources/read mcp.resource.uri=file:///a network.transport=pipe"}},
		} {
			spans.Reset()
			_, _ = w.do(c, row.method, traceRequests(meta)[row.method])
			ended := ofTrace(spans)
			if len(ended) != 2 {
				w.Fatalf("%s: %d spans", row.method, len(ended))
			}
			for i, s := range ended {
				if got := about(s); got != row.want[i] {
					w.Errorf("%s\nwant\n%s", got, row.want[i])
				}
				if s.SpanContext().TraceState().String() != "rojo=1" {
					w.Errorf("trace %v", s.SpanContext())
				}
			}
			inner, outer := ended[0], ended[1]
			if outer.Parent().SpanID().String() != parentID || inner.Parent().SpanID() != outer.SpanContext().SpanID() {
				w.Errorf("%s: parents %v, %v", row.method, outer.Parent(), inner.Parent())
			}
			want := `"00-` + traceID + "-" + inner.SpanContext().SpanID().String() + `-01"`
			if got := fields(w.last("a", row.method)["_meta"]); string(got["traceparent"]) != want || string(got["tracestate"]) != `"rojo=1"` || string(got["baggage"]) != `"a=1"` {
				w.Errorf("%s: the server saw %s, want %s", row.method, encode(got), want)
			}
		}
		// A trace that is not sampled stays so, and its ids still pass.
		spans.Reset()
		if raw, err := w.do(c, "resources/read", traceRequests(`{"traceparent":"00-` + traceID + `-` + parentID + `-00"}`)["resources/read"]); err != nil {
			w.Errorf("%s, %v", raw, err)
		}
		if got := string(fields(w.last("a", "resources/read")["_meta"])["traceparent"]); !strings.HasPrefix(got, `"00-`+traceID) || !strings.HasSuffix(got, `-00"`) || len(ofTrace(spans)) > 0 {
			w.Errorf("%d spans, %s", len(ofTrace(spans)), got)
		}
		// A request that the client cancels. It has a trace of its own.
		spans.Reset()
		a.Fail(sessiontest.Fault{Method: "tools/call", Silent: true})
		ctx, cancel := context.WithCancel(w.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		_, _ = c.Do(ctx, session.Request{Method: "tools/call", Params: fields(json.RawMessage(`{"name":"dig"}`))})
		w.advance(time.Second)
		var ended []sdk.ReadOnlySpan
		for _, s := range spans.Ended() {
			if s.Name() == "tools/call dig" {
				ended = append(ended, s)
			}
		}
		if len(ended) != 2 || ended[0].SpanContext().TraceID() != ended[1].SpanContext().TraceID() {
			w.Fatalf("%d spans", len(ended))
		}
		for _, s := range ended {
			if !strings.HasSuffix(about(s), `error.type=cancelled ERROR ""`) || s.Parent().IsRemote() {
				w.Error(about(s))
			}
		}
	})
}
