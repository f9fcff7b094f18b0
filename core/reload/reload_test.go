package reload

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
)

// patience is how long a test waits for what must happen; only a failure lasts that long.
const patience = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a Run on a real file, with the configs it applied and the events it published.
type bench struct {
	*testing.T
	path      string
	kick      chan struct{}
	applied   chan *config.Config
	published chan event.Payload
}

// private returns a folder that only the user can change, whatever the umask is.
func private(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// programs returns an environment whose PATH has the programs of the tests.
func programs(t *testing.T) func(string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"x", "sh", "evil", "good", "same", "one", "two", "go", "gofmt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return func(name string) (string, bool) { return dir, name == "PATH" }
}

func run(t *testing.T, content string, change ...func(*Options)) *bench {
	t.Helper()
	b := &bench{T: t, path: filepath.Join(private(t), "mcp-servers.json"), kick: make(chan struct{}, 1),
		applied: make(chan *config.Config, 16), published: make(chan event.Payload, 16)}
	opts := Options{Path: b.path, Kick: b.kick, Config: config.Options{Getenv: programs(t)},
		Apply:   func(c *config.Config) { b.applied <- c },
		Publish: func(e event.Event) { b.published <- e.Payload }}
	if content != "" {
		b.save(content)
		cfg, problems := config.Load(b.path, opts.Config)
		if cfg == nil {
			t.Fatal(problems)
		}
		opts.Current = cfg
	}
	for _, c := range change {
		c(&opts)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = Run(ctx, opts) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return b
}

// save replaces the file like an editor, by renaming a new file.
func (b *bench) save(content string) {
	b.Helper()
	tmp := b.path + ".tmp"
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Rename(tmp, b.path); err != nil {
		b.Fatal(err)
	}
}

// next returns the next published event.
func (b *bench) next() event.Payload {
	b.Helper()
	select {
	case p := <-b.published:
		return p
	case <-time.After(patience):
		b.Fatal("nothing was published")
		return nil
	}
}

func (b *bench) reloaded(want string) {
	b.Helper()
	p, ok := b.next().(event.ConfigReloaded)
	if got := fmt.Sprint(p.Added, p.Removed, p.Changed); !ok || got != want {
		b.Fatalf("reloaded %s, want %s", got, want)
	}
}

// ids returns the servers of the next applied config.
func (b *bench) ids() []string {
	b.Helper()
	select {
	case cfg := <-b.applied:
		var ids []string
		for _, srv := range cfg.Servers {
			id := srv.ID + ":" + srv.Command
			if srv.Superseded {
				id += " stays"
			} else if srv.Unapproved != "" {
				id += " held"
			}
			ids = append(ids, id)
		}
		return ids
	case <-time.After(patience):
		b.Fatal("nothing was applied")
		return nil
	}
}

func TestReloadIsPublishedBeforeItIsApplied(t *testing.T) {
	t.Parallel()
	var order []string // written on Run's goroutine; ids and reloaded synchronise with it
	b := run(t, `{"mcpServers": {"a": {"command": "one"}}}`, func(o *Options) {
		apply, publish := o.Apply, o.Publish
		o.Apply = func(c *config.Config) { order = append(order, "applied"); apply(c) }
		o.Publish = func(e event.Event) { order = append(order, "published"); publish(e) }
	})
	b.save(`{"mcpServers": {"a": {"command": "two"}}}`)
	b.reloaded("[] [] [a]")
	b.ids() // after both calls
	if !slices.Equal(order, []string{"published", "applied"}) {
		t.Errorf("%q", order)
	}
}

func servers(entries ...string) string {
	var out strings.Builder
	for _, e := range entries {
		out.WriteString(e + ",")
	}
	return `{"servers": [` + out.String() + `]}`
}

func server(id, command string) string {
	return fmt.Sprintf(`{"id": %q, "command": %q, "trackResources": true}`, id, command)
}

func TestReload(t *testing.T) {
	t.Parallel()
	b := run(t, servers(server("a", "x"), server("b", "x")))
	b.save(servers(server("b", "y"), server("c", "x")))
	b.reloaded("[c] [a] [b]")
	if got := b.ids(); !slices.Equal(got, []string{"b:y", "c:x"}) {
		t.Errorf("applied %q", got)
	}
	b.save("// a comment\n" + servers(server("b", "y"), server("c", "x")))
	b.reloaded("[] [] []") // the save is confirmed although nothing differs
}

func TestBadConfigChangesNothing(t *testing.T) {
	t.Parallel()
	b := run(t, servers(server("a", "x")))
	b.save(`{"servers": [` + server("b", "x") + `, {"id": 7}]}`)
	p, ok := b.next().(event.ConfigRejected)
	if !ok || len(p.Problems) == 0 || p.Problems[0].Line != 1 || p.Problems[0].Column == 0 {
		t.Fatalf("%+v", p)
	}
	if err := os.Remove(b.path); err != nil {
		t.Fatal(err)
	}
	if p, ok := b.next().(event.ConfigRejected); !ok || len(p.Problems) != 1 || p.Problems[0].Code != string(config.CodeNotFound) {
		t.Fatalf("%+v", p)
	}
	b.save(servers(server("a", "x"), server("b", "x")))
	b.reloaded("[b] [] []")
	if got := b.ids(); !slices.Equal(got, []string{"a:x", "b:x"}) {
		t.Errorf("applied %q", got)
	}
}

// An event reports a problem with every member that validate --json prints, including future ones.
func TestProblemsAreReportedInFull(t *testing.T) {
	t.Parallel()
	var p config.Problem
	fields := reflect.ValueOf(&p).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); f.Kind() {
		case reflect.String:
			f.SetString(fields.Type().Field(i).Name)
		case reflect.Int:
			f.SetInt(int64(i + 1))
		default:
			t.Fatalf("%s is a %s, which this test cannot set", fields.Type().Field(i).Name, f.Kind())
		}
	}
	for _, problems := range []config.Problems{{p}, {{Severity: config.SeverityWarning}, p}} {
		want, err1 := json.Marshal(problems)
		got, err2 := json.Marshal(reported(problems))
		if err1 != nil || err2 != nil || string(got) != string(want) {
			t.Errorf("%s, want %s (%v, %v)", got, want, err1, err2)
		}
	}
}

func TestFileThatComesLater(t *testing.T) {
	t.Parallel()
	b := run(t, "")
	b.save(servers(server("a", "x")))
	b.reloaded("[a] [] []")
}

// A change of only webhooks is applied, also if it is in the file of their secret, and if commands
// are held back.
func TestWebhooksAreReloaded(t *testing.T) {
	t.Parallel()
	key := filepath.Join(private(t), "key")
	write := func(secret string) {
		if err := os.WriteFile(key, []byte("whsec_"+strings.Repeat(secret, 32)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("A")
	conf := `{"mcpServers": {"a": {"command": "one"}}, "webhooks": [{"url": "https://h/%s", "secret": "${file:` + key + `}"}]}`
	b := run(t, fmt.Sprintf(conf, "a"), func(o *Options) { o.Hold = &Hold{Commands: true} })
	expect := func(url, secret string) {
		t.Helper()
		select {
		case cfg := <-b.applied:
			if w := cfg.Webhooks; len(w) != 1 || w[0].URL.Reveal() != "https://h/"+url || w[0].Secret.Reveal() != "whsec_"+strings.Repeat(secret, 32) || len(cfg.Servers) != 1 {
				t.Fatalf("%+v", cfg)
			}
		case <-time.After(patience):
			t.Fatal("nothing was applied")
		}
		b.reloaded("[] [] []")
	}
	b.save(fmt.Sprintf(conf, "b"))
	expect("b", "A")
	write("B")
	expect("b", "B")
}

func TestKick(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	value := "one"
	getenv := func(string) (string, bool) { mu.Lock(); defer mu.Unlock(); return value, true }
	content := servers(server("a", "${PROGRAM}"))
	b := run(t, "", func(o *Options) { o.Config.Getenv = getenv })
	b.save(content)
	b.reloaded("[a] [] []")
	<-b.applied
	mu.Lock()
	value = "two"
	mu.Unlock()
	b.kick <- struct{}{}
	b.reloaded("[] [] [a]")
	if got := b.ids(); !slices.Equal(got, []string{"a:two"}) {
		t.Errorf("applied %q", got)
	}
}

// logLines collects the lines of a log.
type logLines chan string

func (l logLines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// New and changed commands wait for the operator; everything else is applied.
func TestHoldCommands(t *testing.T) {
	t.Parallel()
	logged := make(logLines, 64)
	b := run(t, servers(server("a", "x"), server("b", "x")), func(o *Options) {
		o.Hold, o.Logger = &Hold{Commands: true}, slog.New(slog.NewTextHandler(logged, nil))
	})
	web := `{"id": "web", "url": "https://web.example/mcp", "trackResources": true}`
	b.save(servers(server("b", "evil"), server("c", "x"), web))
	b.reloaded("[c web] [a] [b]")
	if got := b.ids(); !slices.Equal(got, []string{"b:x stays", "c:x held", "web:"}) {
		t.Errorf("applied %q", got)
	}
	b.save(servers(server("b", "evil"), `{"id": "c", "command": "sh", "args": ["-c", "rm -r x", "--token=hunter2hunter2"], "trackResources": true}`, web))
	b.reloaded("[] [] [c]")
	if got := b.ids(); !slices.Equal(got, []string{"b:x stays", "c:sh held", "web:"}) {
		t.Errorf("applied %q", got)
	}
	for line := ""; !strings.Contains(line, `is not approved; the server is not connected" server=c command="sh -c \"rm -r x\" --token=[secret]" hint="send SIGHUP to start it"`); {
		select {
		case line = <-logged:
		case <-time.After(patience):
			t.Fatal("the command line is not logged")
		}
	}
	b.save(servers(server("b", "evil"), server("c", "x"), web))
	b.reloaded("[] [] [c]")
	<-b.applied
	b.kick <- struct{}{}
	b.reloaded("[] [] []")
	if got := b.ids(); !slices.Equal(got, []string{"b:evil", "c:x", "web:"}) {
		t.Errorf("applied after the kick %q", got)
	}
}

// Untracked commands are also held, because a gateway runs them; and tracking a held command does
// not start it.
func TestHoldUntracked(t *testing.T) {
	t.Parallel()
	const plain = `{"id": "a", "command": "x"}`
	b := run(t, servers(plain), func(o *Options) { o.Hold = &Hold{Commands: true} })
	b.save(servers(`{"id": "a", "command": "evil"}`, `{"id": "b", "command": "evil"}`))
	b.reloaded("[b] [] [a]")
	if got := b.ids(); !slices.Equal(got, []string{"a:x stays", "b:evil held"}) {
		t.Errorf("applied %q", got)
	}
	b.save(servers(server("a", "x"), `{"id": "off", "command": "x", "enabled": false}`))
	b.reloaded("[off] [b] [a]")
	cfg := <-b.applied
	if a, _ := cfg.Server("a"); len(cfg.Servers) != 2 || a.Tracked() {
		t.Errorf("applied %+v", cfg.Servers)
	}
	b.save(servers(plain, `{"id": "off", "command": "x"}`))
	b.reloaded("[] [] [a off]")
	cfg = <-b.applied
	if off, _ := cfg.Server("off"); len(cfg.Servers) != 2 || off.Unusable() == nil {
		t.Errorf("applied %+v", cfg.Servers)
	}
}

// Files that the config refers to are watched: a server that lacks one becomes usable when the file
// appears, and a change without effect is not published.
func TestReferredFiles(t *testing.T) {
	t.Parallel()
	dir := private(t)
	secret, variables := filepath.Join(dir, "token"), filepath.Join(dir, "a.env")
	entry := func(id, more string) string { return fmt.Sprintf(`{"id": %q, "command": "x", %s}`, id, more) }
	b := run(t, servers(entry("a", fmt.Sprintf(`"args": ["${file:%s}"]`, secret)), entry("b", fmt.Sprintf(`"envFile": %q`, variables)), server("c", "x")))
	put := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lacking := func() string {
		var out []string
		select {
		case cfg := <-b.applied:
			for _, srv := range cfg.Servers {
				out = append(out, fmt.Sprint(srv.ID, srv.Unconfigured() == nil))
			}
		case <-time.After(patience):
			t.Fatal("nothing was applied")
		}
		return strings.Join(out, " ")
	}
	put(secret, "s3cret\n")
	b.reloaded("[] [] [a]")
	if got := lacking(); got != "atrue bfalse ctrue" {
		t.Errorf("after the secret: %s", got)
	}
	put(variables, "A=1\n")
	b.reloaded("[] [] [b]")
	if got := lacking(); got != "atrue btrue ctrue" {
		t.Errorf("after the envFile: %s", got)
	}
	put(variables, "A=1\n# the same\n") // without effect
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	b.reloaded("[] [] [a]")
	if got := lacking(); got != "afalse btrue ctrue" {
		t.Errorf("without the secret: %s", got)
	}
}
