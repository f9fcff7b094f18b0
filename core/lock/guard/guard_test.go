package guard

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// offered returns an offer of the tools, each as NAME DESCRIPTION.
func offered(t testing.TB, tools ...string) Offer {
	t.Helper()
	none := ""
	o := Offer{Launch: json.RawMessage(`{"command":"docs"}`), Capabilities: json.RawMessage(`{"tools":{}}`), Instructions: &none,
		Lists: map[catalog.Kind][]catalog.Item{catalog.Tools: {}}}
	for _, tool := range tools {
		name, description, _ := strings.Cut(tool, " ")
		it, err := catalog.NewItem(catalog.Tools, fmt.Appendf(nil, `{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, description))
		if err != nil {
			t.Fatal(err)
		}
		o.Lists[catalog.Tools] = append(o.Lists[catalog.Tools], it)
	}
	return o
}

// write approves an offer of the server docs in the lock file.
func write(t testing.TB, path string, approved Offer) {
	t.Helper()
	err := lock.Update(context.Background(), path, func(l *lock.Lock) error {
		l.Servers["docs"] = lock.NewServer(approved.observation(l.Hashing))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// grant sets the policy of the server docs in the lock file.
func grant(t testing.TB, path string, policy lock.Policy) {
	t.Helper()
	if err := lock.Update(t.Context(), path, func(l *lock.Lock) error { l.Servers["docs"].Policy = policy; return nil }); err != nil {
		t.Fatal(err)
	}
}

func guarded(t testing.TB, opts Options) *Guard {
	t.Helper()
	g, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// served describes what clients get: "dig=digs" for a tool with its description, with "!" if calls are
// refused, and "(dig)" for one that is hidden.
func served(t testing.TB, v *Verdict, o Offer) string {
	t.Helper()
	var out []string
	for _, it := range v.Approved(catalog.Tools, o.Lists[catalog.Tools]) {
		text := it.Key + "=" + it.Describe().Description
		if v.Hides(catalog.Tools, it.Key) {
			text = "(" + it.Key + ")"
		}
		if err := v.Refuse(catalog.Tools, it.Key); err != nil {
			text += "!"
			if strings.Contains(err.Error(), "EVIL") || !strings.Contains(err.Error(), "run mcptrack ") {
				t.Errorf("%v", err)
			}
		}
		out = append(out, text)
	}
	for _, c := range v.Changes() {
		if strings.Contains(c.Reason, "EVIL") {
			t.Errorf("%+v", c)
		}
	}
	return strings.Join(out, " ")
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	first := offered(t, "dig digs", "rake rakes")
	write(t, path, first)
	launched, capable, spoken := offered(t, "dig digs", "rake rakes"), offered(t, "dig digs", "rake rakes"), offered(t, "dig digs", "rake rakes")
	launched.Launch, capable.Capabilities = json.RawMessage(`{"command":"EVIL"}`), json.RawMessage(`{"tools":{},"logging":{}}`)
	text := "EVIL"
	spoken.Instructions = &text
	for name, test := range map[string]struct {
		policy  lock.Policy
		only    bool // the lock does not have the policy
		enforce lock.Action
		offer   Offer
		want    string
		changes string // actions
	}{
		"same":                   {offer: first, want: "dig=digs rake=rakes"},
		"changed":                {offer: offered(t, "dig EVIL", "rake rakes"), want: "dig=digs! rake=rakes", changes: "hold"},
		"added":                  {offer: offered(t, "dig digs", "rake rakes", "sow EVIL"), want: "dig=digs rake=rakes (sow)!", changes: "hold"},
		"a twin of a name":       {offer: offered(t, "dig digs", "d\u0456g digs", "rake rakes"), want: "dig=digs (d\u0456g)! rake=rakes", changes: "hold"},
		"removed":                {offer: offered(t, "dig digs"), want: "dig=digs", changes: "audit"},
		"removed and held":       {policy: lock.Policy{"L001": lock.Hold}, offer: offered(t, "dig digs"), want: "dig=digs rake=rakes!", changes: "hold"},
		"allowed":                {policy: lock.Policy{"L002": lock.Allow}, offer: offered(t, "dig EVIL", "rake rakes"), want: "dig=EVIL rake=rakes"},
		"allowed by the config":  {policy: lock.Policy{"L002": lock.Allow}, only: true, offer: offered(t, "dig EVIL", "rake rakes"), want: "dig=digs! rake=rakes", changes: "hold"},
		"launched by the config": {policy: lock.Policy{"L011": lock.Allow}, only: true, offer: launched, want: "(dig)! (rake)!", changes: "block"},
		"blocked by the config":  {policy: lock.Policy{"L002": lock.Block}, only: true, offer: offered(t, "dig EVIL", "rake rakes"), want: "(dig)! (rake)!", changes: "block"},
		"audited":                {policy: lock.Policy{"L002": lock.Audit}, offer: offered(t, "dig EVIL", "rake rakes"), want: "dig=EVIL rake=rakes", changes: "audit"},
		"blocked":                {policy: lock.Policy{"L002": lock.Block}, offer: offered(t, "dig EVIL", "rake rakes"), want: "(dig)! (rake)!", changes: "block"},
		"audit only":             {enforce: lock.Audit, policy: lock.Policy{"L002": lock.Block}, offer: offered(t, "dig EVIL", "sow EVIL", "rake rakes"), want: "dig=EVIL sow=EVIL rake=rakes", changes: "audit audit"},
		"block instead of hold":  {enforce: lock.Block, offer: offered(t, "dig EVIL", "rake rakes"), want: "(dig)! (rake)!", changes: "block"},
		"block leaves audit":     {enforce: lock.Block, offer: offered(t, "dig digs"), want: "dig=digs", changes: "audit"},
		"launch":                 {offer: launched, want: "(dig)! (rake)!", changes: "block"},
		"launch held":            {policy: lock.Policy{"L011": lock.Hold}, offer: launched, want: "(dig)! (rake)!", changes: "block"},
		"launch allowed":         {policy: lock.Policy{"L011": lock.Allow}, offer: launched, want: "dig=digs rake=rakes"},
		"capabilities":           {offer: capable, want: "dig=digs rake=rakes", changes: "audit"},
		"capabilities held":      {policy: lock.Policy{"L013": lock.Hold}, offer: capable, want: "(dig)! (rake)!", changes: "block"},
		"instructions":           {offer: spoken, want: "dig=digs rake=rakes", changes: "hold"},
		"not listed yet":         {offer: Offer{}, want: ""},
	} {
		granted := test.policy.Weaker()
		if test.only {
			granted = nil
		}
		grant(t, path, granted)
		g := guarded(t, Options{Path: path, Required: true, Enforce: test.enforce})
		v := g.Judge("docs", test.policy, test.offer)
		if got := served(t, v, test.offer); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		var actions []string
		for _, c := range v.Changes() {
			actions = append(actions, string(c.Action))
		}
		if got := strings.Join(actions, " "); got != test.changes {
			t.Errorf("%s: changes %q, want %q", name, got, test.changes)
		}
		if got, want := v.Instructions("EVIL"), test.offer.Instructions; want != nil && *want == "EVIL" && got != "" {
			t.Errorf("%s: instructions %q", name, got)
		}
	}
}

// Lists keep their order, so that clients are not notified of it. A removed item is added where it was
// if they are sorted.
func TestOrder(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	write(t, path, offered(t, "b 1", "a 1", "c 1"))
	g := guarded(t, Options{Path: path})
	for want, now := range map[string]Offer{
		"c=1 b=1! a=1!":  offered(t, "c 1", "b 2", "a 2"),
		"c=1 a=1! b=1!":  offered(t, "c 1", "a 2"),
		"a=1! b=1! c=1":  offered(t, "a 2", "c 1"),
		"a=1! b=1! c=1!": offered(t),
		"c=1! a=1! b=1!": offered(t, "c 2", "a 2"),
	} {
		if got := served(t, g.Judge("docs", lock.Policy{"L001": lock.Hold}, now), now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestApproves(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	first := offered(t, "dig digs")
	write(t, path, first)
	g := guarded(t, Options{Path: path})
	hash := first.observation(lock.DefaultHashing())[lock.SectionTools][0].Hash
	for _, test := range []struct {
		server    string
		section   lock.Section
		key, hash string
		want      bool
	}{
		{"docs", "", "", "", true}, {"web", "", "", "", false},
		{"docs", lock.SectionTools, "dig", hash, true}, {"docs", lock.SectionTools, "dig", "other", false},
		{"docs", lock.SectionTools, "dig", "", false}, {"docs", lock.SectionTools, "sow", "", true},
		{"docs", lock.SectionPrompts, "dig", hash, false}, {"web", lock.SectionTools, "dig", hash, false},
	} {
		if got := g.Judge(test.server, nil, Offer{}).Approves(test.section, test.key, test.hash); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if g.Reload(); g.Judge("docs", nil, Offer{}).Approves("", "", "") {
		t.Error("a lock that was removed approves")
	}
}

// A rejected change stays held, even if its class is allowed.
func TestRejected(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	write(t, path, offered(t, "dig digs"))
	now := offered(t, "dig EVIL")
	if err := lock.Update(t.Context(), path, func(l *lock.Lock) error {
		l.Servers["docs"].Reject(lock.Compare(l.Servers["docs"], now.observation(l.Hashing)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	grant(t, path, lock.Policy{"L002": lock.Allow})
	g := guarded(t, Options{Path: path})
	if got := served(t, g.Judge("docs", lock.Policy{"L002": lock.Allow}, now), now); got != "dig=digs!" {
		t.Error(got)
	}
}

// An item that cannot be hashed is held under the name by which clients use it.
func TestProblem(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	write(t, path, offered(t, "dig digs"))
	it, err := catalog.NewItem(catalog.Tools, json.RawMessage(`{"name":"dig","name":"dig","description":"EVIL","inputSchema":{"type":"object"}}`))
	if err != nil {
		t.Fatal(err)
	}
	now := offered(t)
	now.Lists[catalog.Tools] = []catalog.Item{it}
	grant(t, path, lock.Policy{"L015": lock.Allow, "L007": lock.Allow, "L002": lock.Allow})
	g := guarded(t, Options{Path: path})
	if got := served(t, g.Judge("docs", lock.Policy{"L015": lock.Allow, "L007": lock.Allow, "L002": lock.Allow}, now), now); got != "dig=digs!" {
		t.Error(got)
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	now := offered(t, "dig digs")
	for name, test := range map[string]struct {
		spoil      func(path string) error
		required   bool
		reportOnly bool
		enforce    lock.Action
		server     string
		want       string
	}{
		"approved":                 {server: "docs", want: "dig=digs"},
		"not in the lock":          {server: "web", want: "(dig)!"},
		"not in the lock, audited": {server: "web", enforce: lock.Audit, want: "dig=digs"},
		"half written": {spoil: func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, data[:len(data)/2], 0o600))
		}, server: "docs", want: "(dig)!"},
		"half written, audited": {spoil: func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) },
			enforce: lock.Audit, server: "docs", want: "dig=digs"},
		"edited by hand": {spoil: func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, bytes.ReplaceAll(data, []byte("digs"), []byte("EVIL")), 0o600))
		}, server: "docs", want: "(dig)!"},
		"a link": {spoil: func(path string) error {
			return errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path))
		}, server: "docs", want: "(dig)!"},
		"a folder":               {spoil: func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, server: "docs", want: "(dig)!"},
		"removed":                {spoil: os.Remove, server: "docs", want: "(dig)!"},
		"removed, but required":  {spoil: os.Remove, required: true, server: "docs", want: "(dig)!"},
		"removed, only reported": {spoil: os.Remove, reportOnly: true, server: "docs", want: "dig=digs"},
	} {
		path := locktest.Path(t)
		write(t, path, now)
		var log bytes.Buffer
		g := guarded(t, Options{Path: path, Required: test.required, ReportOnly: test.reportOnly, Enforce: test.enforce, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		was := g.Version()
		if test.spoil != nil {
			if err := test.spoil(path); err != nil {
				t.Fatal(err)
			}
			g.Reload()
			g.Reload() // reports the same problem once
		}
		if got := served(t, g.Judge(test.server, nil, now), now); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if damaged := strings.Count(log.String(), "cannot be read"); damaged > 1 || damaged == 0 && test.spoil != nil && test.want != "dig=digs" {
			t.Errorf("%s: %s", name, log.String())
		}
		if (g.Version() == was) != (test.spoil == nil) {
			t.Errorf("%s: the version does not show whether the file was read", name)
		}
	}
	if _, err := New(Options{Path: locktest.Path(t), Required: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a required lock is missing: %v", err)
	}
	var none *Guard
	if v := none.Judge("docs", nil, now); v != nil || none.Version() != nil || none.Changes() != nil || served(t, v, now) != "dig=digs" || v.Instructions("x") != "x" || v.Contents("x", nil) != nil || v.Blocked() != nil {
		t.Error("without a guard not everything is served")
	}
}

// What another process approves takes effect while the guard runs, and so does a file that appears.
func TestFollows(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	g := guarded(t, Options{Path: path})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	now := offered(t, "dig digs", "sow sows")
	expect := func(want string) {
		t.Helper()
		timeout := time.After(time.Minute)
		for {
			read := g.Changes()
			if served(t, g.Judge("docs", nil, now), now) == want {
				return
			}
			select {
			case <-read:
			case <-timeout:
				t.Fatalf("%s, want %s", served(t, g.Judge("docs", nil, now), now), want)
			}
		}
	}
	expect("dig=digs sow=sows")
	write(t, path, offered(t, "dig digs"))
	expect("dig=digs (sow)!")
	write(t, path, now)
	expect("dig=digs sow=sows")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// One change among 10,000 tools is held, and one tool more than a lock may have is refused, not ignored.
func TestManyTools(t *testing.T) {
	if testing.Short() {
		t.Skip("large, nightly; core/lock refuses a list that is too long, and TestVerdict holds one change")
	}
	t.Parallel()
	path := locktest.Path(t)
	tools := make([]string, lock.MaxItems)
	for i := range tools {
		tools[i] = fmt.Sprintf("tool%05d digs", i)
	}
	write(t, path, offered(t, tools...))
	tools[lock.MaxItems-1] = fmt.Sprintf("tool%05d EVIL", lock.MaxItems-1)
	v := guarded(t, Options{Path: path}).Judge("docs", nil, offered(t, tools...))
	if n := len(v.Changes()); n != 1 || v.Refuse(catalog.Tools, "tool09999") == nil || v.Refuse(catalog.Tools, "tool09998") != nil {
		t.Errorf("%d changes", n)
	}
	o := offered(t, append(tools, "more digs")...)
	err := lock.Update(t.Context(), path, func(l *lock.Lock) error {
		l.Servers["docs"] = lock.NewServer(o.observation(l.Hashing))
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "more than 10000 elements") {
		t.Error(err)
	}
}

func TestContents(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	write(t, path, offered(t))
	if err := lock.Update(t.Context(), path, func(l *lock.Lock) error {
		l.Servers["docs"].Items[lock.SectionContents] = []lock.Item{
			l.Hashing.Item(lock.SectionContents, lock.Content("a://1", "text/plain", []byte("good"), true)),
			l.Hashing.Item(lock.SectionContents, lock.Content("a://2", "", []byte{1, 2}, false)),
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		uri, result string
		allowed     bool
	}{
		{"a://1", `{"contents":[{"uri":"a://1","mimeType":"text/plain","text":"good"}]}`, true},
		{"a://1", `{"contents":[{"uri":"a://1","mimeType":"text/plain","text":"EVIL"}]}`, false},
		{"a://1", `{"contents":[{"uri":"a://1","mimeType":"text/html","text":"good"}]}`, false},
		{"a://1", `{"contents":[{"uri":"a://1","mimeType":"text/plain","text":"good"},{"uri":"a://3","text":"EVIL"}]}`, false},
		{"a://1", `{"contents":[{"uri":"a://1","uri":"a://3","mimeType":"text/plain","text":"good"}]}`, false},
		{"a://1", `{"contents":[{"URI":"a://1","mimeType":"text/plain","text":"good"}]}`, false},
		{"a://1", `{"contents":[{"uri":"A://1","mimeType":"text/plain","text":"good"}]}`, true},
		{"a://1", `{"contents":[{"uri":"A://1","mimeType":"text/plain","text":"EVIL"}]}`, false},
		{"a://1", `{"contents":[{"uri":"a://3","mimeType":"text/plain","text":"good"},{"uri":"a://3","blob":""}]}`, false},
		{"a://1", `{"contents":[]}`, false},
		{"a://2", `{"contents":[{"uri":"a://2","blob":"AQI="}]}`, true},
		{"a://2", `{"contents":[{"uri":"a://2","blob":"AQM="}]}`, false},
		{"a://2", `{"contents":[{"uri":"a://2","blob":5}]}`, false},
		{"a://3", `{"contents":[{"uri":"a://3","text":"any"}]}`, true},
		{"a://3", `{"contents":[{"uri":"a://1","mimeType":"text/plain","text":"EVIL"}]}`, false},
		{"a://3", `{"contents":5}`, true},
	} {
		v := guarded(t, Options{Path: path}).Judge("docs", nil, offered(t))
		err := v.Contents(test.uri, json.RawMessage(test.result))
		if (err == nil) != test.allowed || err != nil && (strings.Contains(err.Error(), "EVIL") || !strings.Contains(err.Error(), "run mcptrack review docs")) {
			t.Errorf("%s %s: %v", test.uri, test.result, err)
		}
		v = guarded(t, Options{Path: path, Enforce: lock.Audit}).Judge("docs", nil, offered(t))
		if err := v.Contents(test.uri, json.RawMessage(test.result)); err != nil {
			t.Errorf("%s %s, audited: %v", test.uri, test.result, err)
		}
	}
}

// A warning says what happens meanwhile, and the command that it names uses the same lock.
func TestWarnings(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		opts Options
		want string
	}{
		{Options{}, "nothing of its servers is served until it can"},
		{Options{Enforce: lock.Block}, "nothing of its servers is served until it can"},
		{Options{Enforce: lock.Audit}, "servers are not compared with it until it can"},
		{Options{ReportOnly: true}, "servers are not compared with it until it can"},
	} {
		var log bytes.Buffer
		test.opts.Path, test.opts.Flags, test.opts.Logger = path, "--lock 'my lock'", slog.New(slog.NewTextHandler(&log, nil))
		v := guarded(t, test.opts).Judge("docs", nil, offered(t))
		if text := log.String(); !strings.Contains(text, test.want) || !strings.Contains(text, "run mcptrack verify --lock 'my lock' to see") {
			t.Errorf("%+v: %s", test.opts, text)
		}
		if got, want := v.Changes()[0].Reason, "the lock file cannot be read; run mcptrack verify --lock 'my lock'"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What repeats a secret cannot be approved, and does not show it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	path := locktest.Path(t)
	write(t, path, offered(t, "dig digs"))
	grant(t, path, lock.Policy{"L002": lock.Allow})
	o := offered(t, "dig with hunter2hunter2")
	o.Secrets = []string{"hunter2hunter2"}
	changes := guarded(t, Options{Path: path}).Judge("docs", lock.Policy{"L002": lock.Allow}, o).Changes()
	if len(changes) != 1 || changes[0].Action != lock.Hold || changes[0].Drift.New.Problem == "" || !strings.Contains(changes[0].Drift.Diff(), "with [redacted]") {
		t.Errorf("%+v", changes)
	}
	if strings.Contains(fmt.Sprintf("%+v %s", changes, changes[0].Drift.New.Definition), "hunter2") {
		t.Errorf("%+v", changes)
	}
}
