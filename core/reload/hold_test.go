package reload

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
)

// approvals approves every intent that contains one of its words. It parses the config to see the
// intents, which it remembers, as the config may be newer than what Run applies. It touches a file when its
// words change.
type approvals struct {
	t    *testing.T
	file string

	mu      sync.Mutex
	words   []string
	digests map[string]bool
}

func newApprovals(t *testing.T, words ...string) *approvals {
	return &approvals{t: t, file: filepath.Join(private(t), "approvals"), words: words, digests: map[string]bool{}}
}

func (a *approvals) hold(o *Options) {
	opts := o.Config
	o.Hold = &Hold{File: a.file, Hint: "approve it", Approved: func() map[string]bool {
		cfg, problems := config.Load(o.Path, opts)
		a.mu.Lock()
		defer a.mu.Unlock()
		if cfg == nil {
			a.t.Error(problems)
			return maps.Clone(a.digests)
		}
		for _, srv := range cfg.Servers {
			a.digests[srv.Intent.Digest] = a.approved(srv.Intent)
		}
		for _, w := range cfg.Webhooks {
			a.digests[w.Intent.Digest] = a.approved(w.Intent)
		}
		for _, h := range cfg.Hooks {
			a.digests[h.Intent.Digest] = a.approved(h.Intent)
		}
		return maps.Clone(a.digests)
	}}
}

// approved reports whether an intent contains one of the words. a.mu must be held.
func (a *approvals) approved(in *config.Intent) bool {
	return slices.ContainsFunc(in.Keys, func(k config.IntentKey) bool {
		return slices.ContainsFunc(a.words, func(word string) bool { return strings.Contains(string(k.Value), word) })
	})
}

func (a *approvals) approve(word string) {
	a.t.Helper()
	a.mu.Lock()
	a.words = append(a.words, word)
	a.mu.Unlock()
	if err := os.WriteFile(a.file, []byte(strings.Join(a.words, " ")), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// An approved entry stays in use when the file changes. A new or changed entry waits until it is
// approved, which needs no save. An entry that returns needs no new approval.
func TestUnapproved(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, "good")
	b := run(t, servers(server("a", "good"), server("b", "good")), a.hold)
	web := `{"id": "web", "url": "https://evil.example/", "trackResources": true}`
	expect := func(want ...string) {
		t.Helper()
		if got := b.ids(); !slices.Equal(got, want) {
			t.Fatalf("applied %q, want %q", got, want)
		}
	}
	b.save(servers(server("a", "evil"), server("b", "good"), server("c", "evil"), web))
	b.reloaded("[c web] [] [a]")
	expect("a:good stays", "b:good", "c:evil held", "web: held")
	b.save(servers(server("a", "evil2"), server("b", "good"), server("c", "evil"), web))
	b.reloaded("[] [] [a]")
	expect("a:good stays", "b:good", "c:evil held", "web: held")
	a.approve("evil2")
	expect("a:evil2", "b:good", "c:evil held", "web: held")
	b.save(servers(server("a", "good"), web))
	b.reloaded("[] [b c] [a]")
	expect("a:good", "web: held")
	a.approve("evil.example")
	expect("a:good", "web:")
	b.save(servers(server("a", "evil"), `{"id": "off", "command": "evil", "enabled": false}`))
	b.reloaded("[off] [web] [a]")
	expect("a:good stays", "off:evil")
	b.save(servers(server("a", "evil"), `{"id": "off", "command": "evil"}`))
	b.reloaded("[] [] [off]")
	expect("a:good stays", "off:evil held")
}

// SIGHUP requests a reload; it approves nothing.
func TestKickApprovesNothing(t *testing.T) {
	t.Parallel()
	b := run(t, servers(server("a", "good")), newApprovals(t, "good").hold)
	b.save(servers(server("a", "evil")))
	b.reloaded("[] [] [a]")
	b.ids()
	b.kick <- struct{}{}
	b.reloaded("[] [] []")
	if got := b.ids(); !slices.Equal(got, []string{"a:good stays"}) {
		t.Errorf("applied %q", got)
	}
}

// A reference that is replaced by another one with the same value needs approval.
func TestUnapprovedReference(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, "${GOOD}")
	read := make(chan struct{}, 1)
	b := run(t, servers(server("a", "${GOOD}")), a.hold, func(o *Options) {
		path, _ := o.Config.Getenv("PATH")
		o.Config.Getenv = func(name string) (string, bool) {
			if name == "PATH" {
				return path, true
			}
			select {
			case read <- struct{}{}:
			default:
			}
			return "same", true
		}
		o.Current, _ = config.Load(o.Path, o.Config)
		<-read
	})
	<-read // the first content, by Run
	b.save(servers(server("a", "${EVIL}")))
	b.reloaded("[] [] []")
	if got := b.ids(); !slices.Equal(got, []string{"a:same stays"}) {
		t.Errorf("applied %q", got)
	}
}

// The content of a file in the project needs approval.
func TestUnapprovedContent(t *testing.T) {
	t.Parallel()
	variables := filepath.Join(private(t), "a.env")
	write := func(content string) {
		if err := os.WriteFile(variables, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("A=good")
	b := run(t, servers(`{"id": "a", "command": "x", "envFile": "a.env", "trackResources": true}`), func(o *Options) {
		o.Config.Workspace = filepath.Dir(variables)
		cfg, problems := config.Load(o.Path, o.Config)
		if cfg == nil {
			t.Fatal(problems)
		}
		o.Current = cfg
		o.Hold = &Hold{Hint: "approve it", Approved: func() map[string]bool { return map[string]bool{cfg.Servers[0].Intent.Digest: true} }}
	})
	write("A=evil")
	b.reloaded("[] [] [a]")
	select {
	case cfg := <-b.applied:
		if srv := cfg.Servers[0]; !srv.Superseded || srv.Env["A"].Reveal() != "good" {
			t.Errorf("%+v", srv)
		}
	case <-time.After(patience):
		t.Fatal("nothing was applied")
	}
}

func TestUnapprovedWebhooks(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, "good")
	hooks := func(entries ...string) string {
		for i := range entries {
			entries[i] = `{"format": "slack", ` + entries[i] + `}`
		}
		return `{"servers": [], "webhooks": [` + strings.Join(entries, ",") + `]}`
	}
	b := run(t, hooks(`"url": "https://a/", "types": ["server.state"], "servers": ["good"]`), a.hold)
	expect := func(want ...string) {
		t.Helper()
		var got []string
		select {
		case cfg := <-b.applied:
			for _, w := range cfg.Webhooks {
				got = append(got, strings.Join(append([]string{w.URL.Reveal()}, append(w.Types, w.Missing...)...), " "))
			}
		case <-time.After(patience):
			t.Fatal("nothing was applied")
		}
		if !slices.Equal(got, want) {
			t.Fatalf("applied %q, want %q", got, want)
		}
	}
	b.save(hooks(`"url": "https://a/", "types": ["server.state"], "servers": ["good"]`, `"url": "https://a/"`, `"url": "https://a/", "types": ["list.changed"]`))
	b.reloaded("[] [] []")
	expect("https://a/ server.state", "https://a/ not approved; approve it", "https://a/ list.changed not approved; approve it")
	b.save(hooks(`"url": "https://a/"`, `"url": "https://b/"`))
	b.reloaded("[] [] []")
	expect("https://a/ server.state", "https://b/ not approved; approve it")
	a.approve("https://b/")
	expect("https://a/ server.state", "https://b/")
}

// A hook that is not approved accepts nothing, unless one with its id is in use, which then stays in
// use.
func TestUnapprovedHooks(t *testing.T) {
	t.Parallel()
	a := newApprovals(t, "X-Good")
	hooks := func(entries ...string) string {
		for i := range entries {
			entries[i] = `{"verify": "hmac", "secret": "0123456789abcdef", ` + entries[i] + `}`
		}
		return `{"servers": [], "hooks": [` + strings.Join(entries, ",") + `]}`
	}
	b := run(t, hooks(`"id": "a", "header": "X-Good"`), a.hold)
	expect := func(want ...string) {
		t.Helper()
		var got []string
		select {
		case cfg := <-b.applied:
			for _, h := range cfg.Hooks {
				got = append(got, strings.Join(append([]string{h.ID, h.Header}, h.Missing...), " "))
			}
		case <-time.After(patience):
			t.Fatal("nothing was applied")
		}
		if !slices.Equal(got, want) {
			t.Fatalf("applied %q, want %q", got, want)
		}
	}
	b.save(hooks(`"id": "a", "header": "X-Other"`, `"id": "b"`))
	b.reloaded("[] [] []")
	expect("a X-Good", "b X-Signature-256 not approved; approve it")
	a.approve("X-Other")
	expect("a X-Other", "b X-Signature-256 not approved; approve it")
}
