package demo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clock = "demo://status/clock"
	guide = "demo://docs/guide.md"
	flags = "demo://config/flags.json"
	inbox = "demo://inbox/message-"
)

// peer is a client of a demo that runs in the same bubble.
type peer struct {
	*client.Client
	t *testing.T

	mu   sync.Mutex
	news []mcp.JSONRPCNotification
}

func connect(t *testing.T, opts demo.Options, copts ...client.ClientOption) *peer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1) // Serve's goroutine sends once
	go func() {
		// Not t.Context(): it ends before the cleanup, which wants an orderly end.
		err := demo.Serve(context.Background(), inR, outW, opts)
		outW.Close()
		ended <- err
	}()
	p := &peer{t: t, Client: client.NewClient(transport.NewIO(outR, inW, io.NopCloser(strings.NewReader(""))), copts...)}
	p.OnNotification(func(n mcp.JSONRPCNotification) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.news = append(p.news, n)
	})
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Initialize(t.Context(), mcp.InitializeRequest{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return p
}

// take returns what came since the last take, as "method uri".
func (p *peer) take() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, n := range p.news {
		method := strings.TrimPrefix(n.Method, "notifications/")
		if uri, ok := n.Params.AdditionalFields["uri"]; ok {
			method += fmt.Sprint(" ", uri)
		}
		out = append(out, method)
	}
	p.news = nil
	return out
}

func (p *peer) subscribe(uris ...string) {
	p.t.Helper()
	for _, uri := range uris {
		var r mcp.SubscribeRequest
		r.Params.URI = uri
		if err := p.Subscribe(p.t.Context(), r); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *peer) text(uri string) string {
	p.t.Helper()
	var r mcp.ReadResourceRequest
	r.Params.URI = uri
	res, err := p.ReadResource(p.t.Context(), r)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.Contents[0].(mcp.TextResourceContents).Text
}

func (p *peer) call(tool string, args map[string]any) *mcp.CallToolResult {
	p.t.Helper()
	var r mcp.CallToolRequest
	r.Params.Name, r.Params.Arguments = tool, args
	res, err := p.CallTool(p.t.Context(), r)
	if err != nil {
		p.t.Fatal(err)
	}
	return res
}

// offer is everything the lists say.
func (p *peer) offer() (names []string) {
	p.t.Helper()
	ctx := p.t.Context()
	resources, err1 := p.ListResources(ctx, mcp.ListResourcesRequest{})
	tools, err2 := p.ListTools(ctx, mcp.ListToolsRequest{})
	prompts, err3 := p.ListPrompts(ctx, mcp.ListPromptsRequest{})
	if err := errors.Join(err1, err2, err3); err != nil {
		p.t.Fatal(err)
	}
	for _, r := range resources.Resources {
		names = append(names, r.URI)
	}
	for _, t := range tools.Tools {
		names = append(names, "tool "+t.Name+": "+t.Description)
	}
	for _, pr := range prompts.Prompts {
		names = append(names, fmt.Sprintf("prompt %s/%d", pr.Name, len(pr.Arguments)))
	}
	slices.Sort(names)
	return names
}

func legacy() client.ClientOption { return client.WithLegacyProtocolOnly() }

func TestRhythmForLegacyClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, demo.Options{}, legacy())
		p.subscribe(clock, guide, flags, inbox+"1")
		p.take()
		resources, tools, prompts := "resources/list_changed", "tools/list_changed", "prompts/list_changed"
		updated := func(uri string) string { return "resources/updated " + uri }
		for tick, want := range [][]string{
			{updated(guide), updated(clock)},
			{resources, updated(clock)},
			{updated(flags), updated(clock)},
			{tools, updated(clock)},
			{prompts, updated(clock)},
			{updated(guide), updated(inbox + "1"), updated(clock)},
		} {
			time.Sleep(2 * time.Second)
			if diff := cmp.Diff(want, p.take()); diff != "" {
				t.Fatalf("tick %d (-want +got):\n%s", tick+1, diff)
			}
		}
	})
}

func TestOnlySubscribersAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, demo.Options{}, legacy())
		p.subscribe(guide, clock)
		var r mcp.UnsubscribeRequest
		r.Params.URI = clock
		if err := p.Unsubscribe(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * 2 * time.Second)
		for _, n := range p.take() {
			if strings.HasPrefix(n, "resources/updated") && n != "resources/updated "+guide {
				t.Errorf("got %q without a subscription", n)
			}
		}
		var bad mcp.SubscribeRequest
		bad.Params.URI = "file:///etc/passwd"
		if err := p.Subscribe(t.Context(), bad); err == nil {
			t.Error("a foreign URI was accepted")
		}
	})
}

// Over several turns everything comes, changes and goes, and the inbox is bounded.
func TestListsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, demo.Options{}, legacy())
		seen := make(map[string]bool)
		most := 0
		for range 6 * 6 {
			time.Sleep(2 * time.Second)
			mail := 0
			for _, name := range p.offer() {
				seen[name] = true
				if strings.HasPrefix(name, inbox) {
					mail++
				}
			}
			most = max(most, mail)
		}
		for _, want := range []string{
			inbox + "1", inbox + "7",
			"tool translate: Translates a text", "tool translate: Translates a text, now to Japanese as well",
			"prompt summarize_inbox/0", "prompt summarize_inbox/1",
		} {
			if !seen[want] {
				t.Errorf("%q never came", want)
			}
		}
		now := p.offer() // 36 ticks are two whole turns of everything that goes
		for _, gone := range []string{inbox + "1", "prompt summarize_inbox/0", "tool translate: Translates a text"} {
			if slices.Contains(now, gone) {
				t.Errorf("%q never went", gone)
			}
		}
		if most != 3 {
			t.Errorf("at most %d messages, want 3", most)
		}
	})
}

// The story is a function of seed and time.
func TestDeterministic(t *testing.T) {
	story := func(seed uint64) (out []string) {
		synctest.Test(t, func(t *testing.T) {
			p := connect(t, demo.Options{Seed: seed}, legacy())
			for range 13 {
				time.Sleep(2*time.Second + time.Millisecond)
				out = append(out, p.text(clock), p.text(guide), p.text(flags))
				out = append(out, p.offer()...)
			}
		})
		return out
	}
	one := story(7)
	if diff := cmp.Diff(one, story(7)); diff != "" {
		t.Errorf("the same seed tells another story:\n%s", diff)
	}
	if slices.Equal(one, story(8)) {
		t.Error("another seed tells the same story")
	}
}

func TestTouchAndInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, demo.Options{}, legacy())
		p.subscribe(clock, guide, flags, inbox+"1")
		for _, uri := range []string{clock, guide, flags, inbox + "1"} {
			before := p.text(uri)
			if res := p.call("touch", map[string]any{"uri": uri}); res.IsError {
				t.Fatalf("%v", res.Content)
			}
			if got := p.take(); !slices.Equal(got, []string{"resources/updated " + uri}) {
				t.Errorf("touching %s: %q", uri, got)
			}
			if p.text(uri) == before {
				t.Errorf("%s is as before", uri)
			}
		}
		for _, args := range []map[string]any{{"uri": "demo://nope"}, {}} {
			if res := p.call("touch", args); !res.IsError {
				t.Errorf("touch %v: %v", args, res.Content)
			}
		}
		p.call("set_interval", map[string]any{"milliseconds": 100})
		time.Sleep(time.Second + time.Millisecond)
		n := 0
		for _, s := range p.take() {
			if s == "resources/updated "+clock {
				n++
			}
		}
		if n != 10 {
			t.Errorf("%d ticks in 1 s at 100 ms", n)
		}
		for ms, want := range map[int]string{-5: "10ms", 1 << 62: "1h0m0s"} {
			res := p.call("set_interval", map[string]any{"milliseconds": ms})
			if text := res.Content[0].(mcp.TextContent).Text; text != "one change every "+want {
				t.Errorf("%d: %s", ms, text)
			}
		}
	})
}

func TestModernListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, demo.Options{})
		if !mcp.IsModernProtocol(p.ProtocolVersion()) {
			t.Fatalf("negotiated %s", p.ProtocolVersion())
		}
		time.Sleep(12 * time.Second)
		if got := p.take(); len(got) != 0 {
			t.Fatalf("a modern client that did not ask was told %q", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1) // the listener sends once
		go func() {
			ended <- p.Listen(ctx, mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{guide}})
		}()
		time.Sleep(12*time.Second + time.Millisecond)
		synctest.Wait()
		p.mu.Lock()
		for _, n := range p.news {
			if n.Params.Meta[mcp.MetaKeySubscriptionID] == nil {
				t.Errorf("%s has no subscription id", n.Method)
			}
		}
		p.mu.Unlock()
		want := []string{"subscriptions/acknowledged", "resources/updated " + guide, "tools/list_changed", "resources/updated " + guide}
		if diff := cmp.Diff(want, p.take()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		cancel()
		<-ended
		time.Sleep(12 * time.Second)
		if got := p.take(); len(got) != 0 {
			t.Errorf("after the cancel: %q", got)
		}
	})
}
