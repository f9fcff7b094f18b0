package tracker

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracing"
)

// Every event carries the context of its span, which begins when the notification arrives.
func TestEventsAreSpans(t *testing.T) {
	inWorld(t, func(w *world, docs *sessiontest.Fake) {
		spans := tracetest.NewSpanRecorder()
		w.opts.Session.Tracer = tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)), "")
		docs.SetQuietly("file:///a", "one")
		entry := sessiontest.Entry("docs")
		entry.TrackResources = true
		w.start(entry)
		time.Sleep(10 * time.Second)
		began := time.Now()
		docs.Set("file:///a", "two")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		found := 0
		for _, e := range w.events {
			at := -1
			for i, s := range spans.Ended() {
				if strings.Contains(e.Trace, s.SpanContext().SpanID().String()) {
					at = i
				}
			}
			if at < 0 || spans.Ended()[at].Name() != string(e.Type()) {
				t.Errorf("%s has the trace %q", e.Type(), e.Trace)
				continue
			}
			if e.Type() == event.TypeResourceUpdated {
				found++
				if s := spans.Ended()[at]; s.StartTime().Before(began) || s.StartTime().After(began.Add(time.Second)) {
					t.Errorf("from %s to %s", s.StartTime(), s.EndTime())
				}
			}
		}
		if found != 1 {
			t.Errorf("%d updates of %d events", found, len(w.events))
		}
	})
}
