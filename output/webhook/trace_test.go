package webhook

import (
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/tracing"
)

// Each attempt is a span that links to the span of the change, also if the change was stored without
// one. Spans do not contain the URL.
func TestDeliveriesAreSpans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const change = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		spans := tracetest.NewSpanRecorder()
		log, to := newTestLog(), newReceiver(t)
		w := newWebhooksWorld(t, log, to, standard(hook))
		w.opts.Sender.Tracer = tracing.New(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)), "")
		synctest.Wait()
		for _, trace := range []string{change, ""} {
			log.store(event.Event{ServerID: "docs", ResourceURI: "file:///a", Timestamp: time.Now(), Trace: trace, Payload: event.ResourceUpdated{}})
			time.Sleep(time.Second)
		}
		w.end()
		ended := spans.Ended()
		if len(ended) != 2 || len(to.all("event")) != 2 {
			t.Fatalf("%d spans, %d messages", len(ended), len(to.all("event")))
		}
		if s := ended[0]; s.Name() != "webhook" || len(s.Links()) != 1 || s.Links()[0].SpanContext.SpanID().String() != "00f067aa0ba902b7" || len(ended[1].Links()) != 0 {
			t.Errorf("%s links to %v and %v", s.Name(), s.Links(), ended[1].Links())
		}
	})
}
