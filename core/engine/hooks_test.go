package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/status"
)

// hooked returns the config of the world with a hook that touches a resource of the server s0.
func (w *world) hooked() *config.Config {
	cfg := w.config()
	for i := range cfg.Servers {
		cfg.Servers[i].Mode, cfg.Servers[i].PollInterval, cfg.Servers[i].SafetyInterval = config.ModePoll, time.Hour, -1
		cfg.Servers[i].Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer the-token-of-" + cfg.Servers[i].ID)}
	}
	cfg.Hooks = []config.Hook{{ID: "repo", Verify: config.HookGitHub, Secrets: []config.Secret{config.NewSecret("0123456789abcdef")},
		Touches: []config.Touch{{Server: "s0", URI: "file:///a.*"}}}}
	return cfg
}

// received returns the hook.received events in the log.
func (r *run) received() (all []event.HookReceived) {
	for entry, err := range r.events.Read(r.Context(), 0) {
		if err != nil {
			r.Fatal(err)
		}
		if e, err := entry.Event(); err == nil {
			if p, ok := e.Payload.(event.HookReceived); ok {
				all = append(all, p)
			}
		}
	}
	return all
}

func (r *run) updated() bool {
	return slices.Contains(r.log(), "s0 resource.updated file:///a.md hook")
}

// A message is an event whose body is stored beside the log, unless it is not JSON or has a secret, and
// the resources that the hook touches are read.
func TestHookIsReceived(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "s0")
	cfg := w.hooked()
	r := w.engine(local(), engine.Options{}, cfg)
	eventually(t, "it follows the server", time.Minute, func() bool { return r.follows() == 1 })
	r.knows()
	w.servers["s0"].SetQuietly("file:///a.md", "two")
	w.servers["s0"].SetQuietly("file:///b.md", "two") // not touched
	bodies := []string{`{"ref":"main"}`, `payload=x`, `{"token":"0123456789abcdef"}`, `{"token":"0123\u003456789abcdef"}`, `{"url":"?t=%30123456789abcdef"}`, `{"auth":"Bearer the-token-of-s0"}`}
	for _, body := range bodies {
		r.Receive(hook.Delivery{Hooks: cfg.Hooks, ID: "1", ContentType: "application/json", Body: []byte(body)})
	}
	eventually(t, "the resource is read", time.Minute, r.updated)
	all := r.received()
	if len(all) != len(bodies) || strings.Contains(strings.Join(r.log(), "\n"), "b.md") {
		t.Fatalf("%+v\n%q", all, r.log())
	}
	for i, p := range all {
		text, ok, err := r.events.Contents().Get(t.Context(), p.Digest)
		if err != nil || ok != (i == 0) || ok && text != bodies[i] {
			t.Errorf("%s: stored as %q, %t, %v", bodies[i], text, ok, err)
		}
		if p.HookID != "repo" || p.DeliveryID != "1" || p.Size != len(bodies[i]) {
			t.Errorf("%+v", p)
		}
	}
}

// If several processes share the servers, a message has its effect whichever process receives it.
func TestRealHookReachesTheProcessThatFollows(t *testing.T) {
	t.Parallel()
	at := place{url: journaltest.Store(t), replicas: 1}
	w := newWorld(t, "s0", "s1")
	shared := engine.Options{Role: engine.Shares}
	one, two := w.engine(at, shared, w.hooked()), w.engine(at, shared, w.hooked())
	other := one // does not follow s0
	eventually(t, "each process follows a server", 2*time.Minute, func() bool {
		for _, r := range []*run{one, two} {
			if _, ok := r.Tracker().Snapshot().Server("s0"); !ok {
				other = r
			}
		}
		return one.follows() == 1 && two.follows() == 1
	})
	eventually(t, "the contents are known", time.Minute, func() bool {
		for _, r := range []*run{one, two} {
			st, _ := r.Tracker().Snapshot().Server("s0")
			if len(st.Resources) > 0 && !slices.ContainsFunc(st.Resources, func(res status.ResourceStatus) bool { return res.Digest.IsZero() }) {
				return true
			}
		}
		return false
	})
	w.servers["s0"].SetQuietly("file:///a.md", "two")
	other.Receive(hook.Delivery{Hooks: w.hooked().Hooks, Body: []byte("{}")})
	// If the server passes to the other process meanwhile, that one finds the change when it connects.
	eventually(t, "the resource is read", time.Minute, func() bool {
		return slices.ContainsFunc(two.log(), func(line string) bool { return strings.HasPrefix(line, "s0 resource.updated file:///a.md ") })
	})
	if n := len(two.received()); n != 1 {
		t.Errorf("%d events", n)
	}
}
