package gateway

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// A log level that a client sets while its session with a server is opened, which takes long,
// holds in that session.
func TestLogLevelWhileDialling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		docs := w.Serve("docs", session.EraLegacy)
		docs.SetList(catalog.Tools, tool("dig"))
		docs.Capabilities["logging"] = map[string]any{}
		w.opts.Dial = w.Dial
		w.start(sessiontest.Entry("docs"))
		c := w.client(session.EraLegacy)
		level := func(level string) {
			if _, err := w.do(c, "logging/setLevel", `{"level":"`+level+`"}`); err != nil {
				t.Fatal(err)
			}
		}
		level("info")
		docs.Fail(sessiontest.Fault{Method: "initialize", Times: 1, Delay: 12 * time.Second})
		called := make(chan error, 1)
		go func() {
			_, err := w.do(c, "tools/call", `{"name":"dig"}`)
			called <- err
		}()
		synctest.Wait()
		level("debug")
		if err := <-called; err != nil {
			t.Fatal(err)
		}
		w.advance(time.Second)
		if got := string(w.last("docs", "logging/setLevel")["level"]); got != `"debug"` {
			t.Errorf("the level is %s", got)
		}
	})
}
