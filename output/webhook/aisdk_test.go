package webhook

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/peertest"
)

// The AI SDK's receiver answers our challenge, and gets a subscription. A test through the gateway
// could reach the receiver on this machine only without a challenge.
func TestRealChallengeOfTheAISDK(t *testing.T) {
	t.Parallel()
	script := peertest.Script(t, "ai_events.mjs")
	log := newTestLog()
	reader, sender := mcpevents.NewReader(log, mcpevents.Scope{}), NewSender(local())
	subs, err := New(t.Context(), Options{Log: log, Records: recordsOf(log), Reader: reader, Sender: sender})
	if err != nil {
		t.Fatal(err)
	}
	handlers := mcpevents.New(mcpevents.Options{Reader: reader, Modes: []mcpevents.Mode{mcpevents.Webhook}, Webhooks: subs.Handle}).Handlers()
	handlers.Identify = func(*http.Request) string { return "chat" }
	srv := mcpserver.New(mcpserver.Options{Name: "test", Events: handlers})
	mcp := httptest.NewServer(srv)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	var running sync.WaitGroup
	running.Go(func() { _ = reader.Run(ctx) })
	running.Go(func() { _ = subs.Run(ctx) })
	running.Go(func() { // publishes events until the client has received some
		for tick := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			log.add("file:///a")
		}
	})
	defer func() {
		cancel()
		running.Wait()
		srv.Close()
		mcp.Close()
		sender.client.CloseIdleConnections()
		sender.open.CloseIdleConnections()
	}()

	cmd := exec.CommandContext(ctx, script[0], append(script[1:], mcp.URL)...)
	cmd.Env = append(os.Environ(), "TOKEN=0123456789abcdefghijklmnop")
	out, err := cmd.CombinedOutput()
	verified, _, subscribed := strings.Cut(string(out), "subscribed sub_")
	if err != nil || !subscribed || !strings.Contains(verified, "answered 200 verification 1\n") || !strings.Contains(string(out), "\nunsubscribed") {
		t.Errorf("%v\n%s", err, out)
	}
}
