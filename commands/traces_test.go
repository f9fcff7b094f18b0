package commands

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Commands that make requests send their spans to the collector that the environment names; list does
// not. Neither needs the collector.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	var spans []*tracepb.Span
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err := proto.Unmarshal(body, &data); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, of := range data.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				spans = append(spans, scope.Spans...)
			}
		}
	}))
	defer collector.Close()
	const key = "OTEL_EXPORTER_OTLP_ENDPOINT"
	b := clitest.New(t, Main, key+"="+collector.URL)
	b.Server.SetQuietly("note:///a", "text")
	for _, row := range []struct {
		args []string
		want string // a span; empty if none is sent
	}{
		{[]string{"read", "notes", "note:///a"}, "resources/read"},
		{[]string{"call", "notes", "t"}, "tools/call t"},
		{[]string{"list"}, ""},
	} {
		spans = nil
		if code, _ := b.Run(t, row.args...); code != 0 || b.Stderr.String() != "" {
			t.Fatalf("%q: exit %d: %s", row.args, code, &b.Stderr)
		}
		at := slices.IndexFunc(spans, func(s *tracepb.Span) bool { return s.Name == row.want })
		if row.want == "" && len(spans) > 0 || row.want != "" && at < 0 {
			t.Errorf("%q: %v", row.args, spans)
		}
		if at < 0 {
			continue
		}
		var params struct {
			Meta map[string]any `json:"_meta"`
		}
		for _, m := range b.Server.Wire() {
			if strings.HasPrefix(row.want, m.Method) {
				_ = json.Unmarshal(m.Params, &params)
			}
		}
		if want := "00-" + hex.EncodeToString(spans[at].TraceId) + "-" + hex.EncodeToString(spans[at].SpanId) + "-01"; params.Meta["traceparent"] != want {
			t.Errorf("%q: the server saw %v, want %s", row.args, params.Meta, want)
		}
	}
	collector.Close()
	if code, out := b.Run(t, "read", "notes", "note:///a"); code != 0 || out != "text" || strings.Count(b.Stderr.String(), "\n") != 1 || !strings.Contains(b.Stderr.String(), "collector") {
		t.Errorf("exit %d, %q: %s", code, out, &b.Stderr)
	}
	wrong := clitest.New(t, Main, key+"="+collector.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	wrong.Server.SetResource("note:///a", sessiontest.Resource{Text: "text"})
	if code, out := wrong.Run(t, "read", "notes", "note:///a"); code != 0 || out != "text" || !strings.Contains(wrong.Stderr.String(), "http/protobuf only") {
		t.Errorf("exit %d, %q: %s", code, out, &wrong.Stderr)
	}
}
