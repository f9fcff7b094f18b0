package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 20 * time.Second
	clock    = "vault://note/clock.md"
	guide    = "vault://note/guide.md"
	tasks    = "vault://note/tasks.md"
	mail     = "vault://note/inbox/message-"
)

// peer is a client with its own demo server.
type peer struct {
	*session.Session
	t *testing.T

	mu    sync.Mutex
	seen  map[string]int // updates by URI, list changes by kind
	news  chan struct{}  // sent to by the collector, capacity 1
	leave func()
}

func connect(t *testing.T, opts Options, protocol config.Protocol) *peer {
	t.Helper()
	p := &peer{t: t, seen: map[string]int{}, news: make(chan struct{}, 1)}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ended := make(chan error, 1) // Serve's goroutine sends once
	go func() {
		ended <- Serve(context.Background(), inR, outW, opts)
		_ = outW.Close()
	}()
	var err error
	srv := config.Server{ID: "demo", Transport: config.TransportStdio, Protocol: protocol, RequestTimeout: patience}
	if p.Session, err = session.OverIO(t.Context(), outR, inW, srv, session.Options{}); err != nil {
		t.Fatal(err)
	}
	stop, collected := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(collected)
		for {
			select {
			case <-p.Signals().C():
				p.collect()
			case <-stop:
				return
			}
		}
	}()
	p.leave = sync.OnceFunc(func() {
		_ = p.Close()
		close(stop)
		<-collected
		if err := <-ended; err != nil && !errors.Is(err, io.ErrClosedPipe) { // it may have been writing
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(p.leave)
	return p
}

func (p *peer) collect() {
	b := p.Signals().Take()
	p.mu.Lock()
	defer p.mu.Unlock()
	for uri, s := range b.URIs {
		p.seen[uri] += s.Count
	}
	for kind := range b.Lists {
		p.seen[string(kind)]++
	}
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// want waits until each of what was seen the given number of times.
func (p *peer) want(times int, what ...string) {
	p.t.Helper()
	for deadline := time.After(patience); ; {
		p.mu.Lock()
		short := slices.ContainsFunc(what, func(w string) bool { return p.seen[w] < times })
		text := fmt.Sprint(p.seen)
		p.mu.Unlock()
		if !short {
			return
		}
		select {
		case <-p.news:
		case <-deadline:
			p.t.Fatalf("%d times %q wanted, seen %s", times, what, text)
		}
	}
}

func (p *peer) subscribe(uris ...string) {
	p.t.Helper()
	ack, err := p.Subscribe(p.t.Context(), session.Filter{Resources: true, Tools: true, Prompts: true, URIs: uris})
	if err != nil || len(ack.MissingURIs)+len(ack.MissingLists) > 0 {
		p.t.Fatalf("%+v, %v", ack, err)
	}
}

func (p *peer) names(kind catalog.Kind) (names []string) {
	p.t.Helper()
	list, err := p.List(p.t.Context(), kind)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, item := range list {
		names = append(names, item.Key)
	}
	return names
}

func (p *peer) read(uri string) string {
	p.t.Helper()
	c, err := p.Read(p.t.Context(), uri)
	if err != nil {
		p.t.Fatal(err)
	}
	text, _ := c.Text()
	return text
}

func (p *peer) call(tool string, args map[string]any) string {
	p.t.Helper()
	raw, err := p.CallTool(p.t.Context(), tool, args)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(raw)
}

// TestScenarioReachesClients: in both eras everything changes as documented, and notes
// are readable.
func TestScenarioReachesClients(t *testing.T) {
	t.Parallel()
	for _, protocol := range []config.Protocol{config.ProtocolLegacy, config.ProtocolModern} {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			p := connect(t, Options{Interval: 100 * time.Millisecond}, protocol)
			before := p.names(catalog.Resources)
			for _, uri := range []string{clock, guide, tasks, mail + "1.md", "vault://recent", "vault://tags", "vault://stats", "vault://structure"} {
				if !slices.Contains(before, uri) {
					t.Errorf("%s is not listed: %q", uri, before)
				}
			}
			first := p.read(clock)
			p.subscribe(clock, guide, tasks, mail+"1.md", "vault://recent", "vault://tags?mode=full", "vault://folder/inbox")
			p.want(2, clock, guide, "vault://recent", "vault://folder/inbox", "resources", "tools", "prompts")
			p.want(1, tasks, mail+"1.md", "vault://tags?mode=full")
			if now := p.read(clock); now == first || !strings.Contains(now, "- tick: ") {
				t.Errorf("the clock is %q", now)
			}
		})
	}
}

func TestToolsTouchAndSetInterval(t *testing.T) {
	t.Parallel()
	p := connect(t, Options{Interval: time.Hour}, config.ProtocolLegacy)
	p.subscribe(clock, guide, mail+"1.md")
	for _, uri := range []string{clock, guide, mail + "1.md"} {
		for n := 1; n <= 2; n++ {
			if got := p.call("touch", map[string]any{"uri": uri}); !strings.Contains(got, fmt.Sprintf("was touched %d times", n)) {
				t.Error(got)
			}
			p.want(n, uri)
			if text := p.read(uri); !strings.Contains(text, fmt.Sprintf("Touched %d times.", n)) {
				t.Errorf("%s: %q", uri, text)
			}
		}
	}
	for tool, args := range map[string][]map[string]any{
		"touch":        {{}, {"uri": "vault://note/nope.md"}, {"uri": "vault://note/../x"}, {"uri": "vault://recent"}, {"uri": 5}},
		"set_interval": {{}, {"milliseconds": "soon"}},
	} {
		for _, a := range args {
			if got := p.call(tool, a); !strings.Contains(got, `"isError":true`) {
				t.Errorf("%s %v: %s", tool, a, got)
			}
		}
	}
	for ms, want := range map[float64]string{-5: "10ms", 1e300: "1h0m0s", 250: "250ms", 0.001: "10ms"} {
		if got := p.call("set_interval", map[string]any{"milliseconds": ms}); !strings.Contains(got, "one change every "+want) {
			t.Errorf("%v: %s", ms, got)
		}
	}
	p.call("set_interval", map[string]any{"milliseconds": 50})
	p.want(5, clock)
	if got := p.call("search_notes", map[string]any{"tag": "demo"}); !strings.Contains(got, guide) {
		t.Errorf("search: %s", got)
	}
	for _, name := range []string{"nope", "summarize_inbox"} {
		if _, err := p.GetPrompt(t.Context(), name, nil); err == nil && name == "nope" {
			t.Errorf("prompt %s is there", name)
		}
	}
	if b, err := p.GetPrompt(t.Context(), "explain_demo", nil); err != nil || !strings.Contains(string(b), "Explain the notes") {
		t.Errorf("%s, %v", b, err)
	}
}

// Serve ends with its context, returning the cause, and with its input. It leaves nothing behind.
func TestServeReturns(t *testing.T) {
	why := errors.New("enough")
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	t.Setenv("TMP", temp) // on Windows
	ctx, cancel := context.WithCancelCause(t.Context())
	inR, inW := io.Pipe()
	ended := make(chan error, 1) // Serve's goroutine sends once
	go func() { ended <- Serve(ctx, inR, io.Discard, Options{}) }()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if made, _ := filepath.Glob(filepath.Join(temp, "*", clockNote)); len(made) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no directory")
		}
	}
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	_ = inW.Close()
	if err := Serve(t.Context(), strings.NewReader(""), io.Discard, Options{}); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	t.Setenv("TMPDIR", filepath.Join(temp, "nowhere"))
	t.Setenv("TMP", filepath.Join(temp, "nowhere"))
	if err := Serve(t.Context(), strings.NewReader(""), io.Discard, Options{}); err == nil {
		t.Error("no error although the directory cannot be created")
	}
}
