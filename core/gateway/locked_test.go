package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/lock/locktest"
	"github.com/mcptrack/mcptrack/core/lock/observe"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// evil is in everything that the servers of these tests change. Clients never see it before it was
// approved.
const evil = "EVIL"

// pinned writes the lock of a server, in which a resource has a content.
func (w *fixture) pinned(server, uri, text string) {
	w.Helper()
	_, path := w.locked(sessiontest.Entry(server))
	if err := lock.Update(w.Context(), path, func(l *lock.Lock) error {
		l.Servers[server].Items[lock.SectionContents] = []lock.Item{l.Hashing.Item(lock.SectionContents, lock.Content(uri, "text/plain", []byte(text), true))}
		return nil
	}); err != nil {
		w.Fatal(err)
	}
	w.opts.Guard.Reload()
}

// locked approves what the servers offer now, and lets the gateway, which has not started, enforce it.
func (w *fixture) locked(entries ...config.Server) (approve func(), path string) {
	w.Helper()
	path = locktest.Path(w)
	approve = func() {
		w.Helper()
		err := lock.Update(w.Context(), path, func(l *lock.Lock) error {
			for _, r := range observe.Servers(w.Context(), entries, observe.Options{Probe: session.ProbeOptions{Dial: w.dialer()}, Hashing: func() lock.Hashing { return l.Hashing }}) {
				if r.Err != nil {
					return r.Err
				}
				l.Servers[r.Server.ID] = lock.NewServer(r.Offered)
			}
			return nil
		})
		if err != nil {
			w.Fatal(err)
		}
		if w.opts.Guard != nil {
			w.opts.Guard.Reload()
			w.advance(time.Second)
		}
	}
	approve()
	var err error
	if w.opts.Guard, err = guard.New(guard.Options{Path: path, Required: true}); err != nil {
		w.Fatal(err)
	}
	return approve, path
}

func (w *fixture) dialer() session.DialFunc {
	if w.opts.Dial != nil {
		return w.opts.Dial
	}
	return w.Dial
}

// wantHeld checks that a request is refused with the command to run, and reaches no server.
func (w *fixture) wantHeld(c *session.Session, method, params, command string) {
	w.Helper()
	synctest.Wait() // the tracker has read what it reads
	before := map[string]int{}
	for _, id := range []string{"docs", "web", "more"} {
		if srv := w.Server(id); srv != nil {
			before[id] = srv.Count(method)
		}
	}
	got, err := w.do(c, method, params)
	if err == nil || !strings.Contains(err.Error(), command) || strings.Contains(err.Error(), evil) {
		w.Errorf("%s %s: %s, %v; want an error with %q", method, params, got, err, command)
	}
	for id, n := range before {
		if w.Server(id).Count(method) != n {
			w.Errorf("%s %s reached %s", method, params, id)
		}
	}
}

func (w *fixture) wantServed(c *session.Session, method, params string) {
	w.Helper()
	if got, err := w.do(c, method, params); err != nil {
		w.Errorf("%s %s: %s, %v", method, params, got, err)
	}
}

// wantClean checks that a client gets the keys, and nothing that is evil.
func (w *fixture) wantClean(c *session.Session, k catalog.Kind, keys ...string) {
	w.Helper()
	w.wantKeys(c, k, keys...)
	list, err := c.List(w.Context(), k)
	if err != nil {
		w.Fatal(err)
	}
	for _, it := range list {
		if strings.Contains(string(it.Raw), evil) {
			w.Errorf("%s is served", it.Raw)
		}
	}
}

func described(name, description string) map[string]any {
	it := tool(name)
	it["description"] = description
	return it
}

// An approval of a skill binds to its files: after a change, none of them is served, however their URIs
// are spelled, and a file that is not what was approved is never served.
func TestHeldSkills(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.OfferSkills()
		set := func(name, text string) map[string]any {
			docs.SetQuietly("skill://"+name+"/SKILL.md", sessiontest.SkillMain(name, "d"))
			docs.SetQuietly("skill://"+name+"/a.md", text)
			return sessiontest.Skill(name, "d", map[string]string{"a.md": text})
		}
		docs.SetList(catalog.Skills, set("changes", "good"), set("stays", "good"), set("lies", "good"))
		approve, _ := w.locked(sessiontest.Entry("docs"))
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		for _, name := range []string{"changes", "stays", "lies"} {
			w.wantServed(c, "resources/read", `{"uri":"skill://`+name+`/a.md"}`)
		}
		docs.SetQuietly("skill://lies/a.md", evil)
		docs.SetList(catalog.Skills, set("changes", evil), set("stays", "good"), sessiontest.Skill("lies", "d", map[string]string{"a.md": "good"}), set("new", evil))
		docs.NotifyListChanged(catalog.Resources)
		w.advance(time.Minute)
		const command = "run mcptrack review docs"
		for _, uri := range []string{"skill://changes/a.md", "skill://changes/SKILL.md", "skill://changes/%61.md", "skill://x/../changes/a.md", "skill://new/a.md"} {
			w.wantHeld(c, "resources/read", `{"uri":"`+uri+`"}`, command)
		}
		// Nor what cannot be approved: another spelling, and what no listed skill has.
		for _, uri := range []string{"skill://stays/./a.md", "SKILL://stays/a.md", "skill://st%61ys/a.md", "skill://stays/a.md?x", "skill://lies/../stays/a.md", "skill://stays/more.md", "skill://hidden/SKILL.md"} {
			docs.Fail(sessiontest.Fault{Method: "resources/read", URI: uri, Result: map[string]any{"contents": []any{map[string]any{"uri": uri, "text": evil}}}})
			if got, err := w.do(c, "resources/read", `{"uri":"`+uri+`"}`); err == nil || strings.Contains(string(got)+err.Error(), evil) {
				w.Errorf("%s: %s, %v", uri, got, err)
			}
		}
		w.wantHeld(c, "skills/get", `{"uri":"skill://changes/SKILL.md"}`, command)
		w.wantServed(c, "resources/read", `{"uri":"skill://stays/a.md"}`)
		w.wantServed(c, "skills/get", `{"uri":"skill://stays/SKILL.md"}`)
		if got, err := w.do(c, "resources/read", `{"uri":"skill://lies/a.md"}`); err == nil || strings.Contains(string(got)+err.Error(), evil) {
			w.Errorf("%s, %v", got, err)
		}
		got, err := w.do(c, "skills/list", `{}`)
		if text := string(got); err != nil || !strings.Contains(text, "skill://stays/SKILL.md") || strings.Contains(text, "skill://changes/") || strings.Contains(text, "skill://new/") {
			w.Errorf("%s, %v", got, err)
		}
		approve()
		w.wantServed(c, "resources/read", `{"uri":"skill://changes/a.md"}`)
		w.wantServed(c, "resources/read", `{"uri":"skill://new/a.md"}`)
	})
}

// A changed item keeps its approved definition, an added one is hidden, and requests for them are
// refused. Nobody is notified until they are approved, and then once.
func TestHeld(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.Instructions = "be good"
		set := func(text string, added ...any) {
			docs.SetList(catalog.Tools, append(added, described("dig", text), tool("rake"))...)
			docs.SetList(catalog.Prompts, map[string]any{"name": "plan", "description": text})
			docs.SetList(catalog.Templates, map[string]any{"name": "t", "uriTemplate": "note://{id}", "description": text})
			docs.SetResource("file:///a", sessiontest.Resource{Text: "content", MimeType: text})
			docs.SetResource("file:///b", sessiontest.Resource{Text: "content"})
		}
		announce := func() {
			for _, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Resources} {
				docs.NotifyListChanged(k)
			}
			w.advance(time.Minute)
		}
		set("good")
		approve, _ := w.locked(sessiontest.Entry("docs"))
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.subscribe(c)
		w.wantServed(c, "tools/call", `{"name":"dig"}`)
		set(evil, tool("sow"))
		announce()
		if got := received(c); got != "" {
			w.Errorf("notified of %s before it was approved", got)
		}
		w.wantClean(c, catalog.Tools, "dig", "rake")
		w.wantClean(c, catalog.Prompts, "plan")
		w.wantClean(c, catalog.Templates, "note://{id}")
		w.wantClean(c, catalog.Resources, "file:///a", "file:///b")
		const command = "run mcptrack review docs"
		w.wantHeld(c, "tools/call", `{"name":"dig"}`, command)
		w.wantHeld(c, "tools/call", `{"name":"sow"}`, command)
		w.wantHeld(c, "prompts/get", `{"name":"plan"}`, command)
		w.wantHeld(c, "resources/read", `{"uri":"file:///a"}`, command)
		w.wantHeld(c, "resources/read", `{"uri":"note://1"}`, command)
		w.wantHeld(c, "resources/read", `{"uri":"note://`+strings.Repeat("1", maxCompared)+`"}`, command)
		w.wantHeld(c, "completion/complete", `{"ref":{"type":"ref/prompt","name":"plan"},"argument":{"name":"x","value":""}}`, command)
		w.wantHeld(c, "completion/complete", `{"ref":{"type":"ref/resource","uri":"note://{id}"},"argument":{"name":"id","value":""}}`, command)
		w.wantServed(c, "tools/call", `{"name":"rake"}`)
		w.wantServed(c, "resources/read", `{"uri":"file:///b"}`)
		if n := len(w.refused); n != 5 {
			w.Errorf("%d changes were reported: %+v", n, w.refused)
		}
		for _, r := range w.refused {
			if !r.Unapproved || strings.Contains(r.Reason, evil) || !strings.Contains(r.Reason, command) || r.Listed == (r.Key == "sow") {
				w.Errorf("%+v", r)
			}
		}
		exports := func(when string) { // no event has the name of an item that nobody approved
			for _, name := range []string{"dig", "sow"} {
				if _, ok := w.gateway.Exports("docs", catalog.Tools, name, ""); ok != (name == "dig") {
					w.Errorf("%s: events of %s are shown: %t", when, name, ok)
				}
			}
		}
		exports("added")
		set(evil)
		announce()
		exports("removed again")
		set(evil, tool("sow"))
		announce()
		approve()
		if got := received(c); got != "prompts resources tools" {
			w.Errorf("notified of %q after the approval", got)
		}
		w.wantKeys(c, catalog.Tools, "dig", "rake", "sow")
		w.wantServed(c, "tools/call", `{"name":"dig"}`)
		w.wantServed(c, "tools/call", `{"name":"sow"}`)
		w.wantServed(c, "prompts/get", `{"name":"plan"}`)
		w.wantServed(c, "resources/read", `{"uri":"file:///a"}`)
		announce()
		if got := received(c); got != "" {
			w.Errorf("notified again: %q", got)
		}
	})
}

// Instructions that changed are replaced by the approved ones.
func TestHeldInstructions(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.Instructions = "be good"
		approve, _ := w.locked(sessiontest.Entry("docs"))
		docs.Instructions = evil
		w.start(sessiontest.Entry("docs"))
		if got := w.client(era).Info().Instructions; got != "be good" {
			w.Errorf("instructions %q", got)
		}
		approve()
		if got := w.client(era).Info().Instructions; got != evil {
			w.Errorf("instructions %q", got)
		}
	})
}

// Attacks that are not in the table of changes: each is held.
func TestAttacks(t *testing.T) {
	for name, attack := range map[string]struct {
		after []any // instead of the good tools
		call  string
	}{
		"only the second page":   {[]any{tool("a"), tool("caf\u00e9"), described("dig", evil)}, "dig"},
		"a twin of a name":       {[]any{tool("a"), tool("caf\u00e9"), described("dig", "good"), tool("d\u0456g")}, "d\u0456g"},
		"a case of letters":      {[]any{tool("a"), tool("caf\u00e9"), described("dig", "good"), tool("DIG")}, "DIG"},
		"a name in another form": {[]any{tool("a"), tool("caf\u00e9"), described("dig", "good"), tool("cafe\u0301")}, "cafe\u0301"},
		"a wide letter":          {[]any{tool("a"), tool("caf\u00e9"), described("dig", "good"), tool("d\uff49g")}, "d\uff49g"},
	} {
		t.Run(name, func(t *testing.T) {
			inEras(t, func(w *fixture, era session.Era) {
				docs := w.Serve("docs", era)
				docs.PageSize = 2
				docs.SetList(catalog.Tools, tool("a"), tool("caf\u00e9"), described("dig", "good"))
				w.locked(sessiontest.Entry("docs"))
				w.start(sessiontest.Entry("docs"))
				c := w.client(era)
				w.wantServed(c, "tools/call", `{"name":"dig"}`)
				docs.SetList(catalog.Tools, attack.after...)
				docs.NotifyListChanged(catalog.Tools)
				w.advance(time.Second)
				w.wantClean(c, catalog.Tools, "a", "caf\u00e9", "dig")
				w.wantHeld(c, "tools/call", fmt.Sprintf(`{"name":%q}`, attack.call), "run mcptrack review docs")
				if attack.call != "dig" {
					w.wantServed(c, "tools/call", `{"name":"dig"}`)
				}
			})
		})
	}
}

// A call that follows a change immediately is refused, before the lists for clients are merged.
func TestChangeBetweenListAndCall(t *testing.T) {
	inEras(t, func(w *fixture, era session.Era) {
		docs := w.Serve("docs", era)
		docs.SetList(catalog.Tools, described("dig", "good"))
		w.locked(sessiontest.Entry("docs"))
		w.start(sessiontest.Entry("docs"))
		c := w.client(era)
		w.wantClean(c, catalog.Tools, "dig")
		w.advance(time.Minute) // the tracker limits how often it lists
		docs.SetList(catalog.Tools, described("dig", evil))
		docs.NotifyListChanged(catalog.Tools)
		synctest.Wait() // the tracker lists, but no time has passed
		w.wantHeld(c, "tools/call", `{"name":"dig"}`, "run mcptrack review docs")
	})
}

// A session of a second client in which the server lists something else changes nothing: the client
// sees what was approved.
func TestSecondClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		docs, more := w.Serve("docs", session.EraLegacy), w.Serve("more", session.EraLegacy)
		docs.SetList(catalog.Tools, described("dig", "good"))
		entry := sessiontest.Entry("docs")
		entry.Sharing = config.NotShared
		w.locked(entry)
		more.SetList(catalog.Tools, described("dig", evil), described("new", evil))
		w.start(entry)
		w.gateway.opts.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
			srv.ID, srv.Command = "more", "more"
			return w.Dial(ctx, srv, opts)
		}
		w.wantClean(w.client(session.EraLegacy), catalog.Tools, "dig")
		second := w.client(session.EraLegacy)
		w.wantClean(second, catalog.Tools, "dig")
		w.wantServed(second, "tools/call", `{"name":"dig"}`) // opens the session
		more.NotifyListChanged(catalog.Tools)
		w.advance(time.Minute)
		w.wantClean(second, catalog.Tools, "dig")
		if more.Count("tools/call") != 1 {
			w.Error("the second client has no session of its own")
		}
		if _, err := w.do(second, "tools/call", `{"name":"new"}`); err == nil {
			w.Error("a tool that was never approved was called")
		}
	})
}

// Nothing of a blocked server is served.
func TestBlocked(t *testing.T) {
	entry := func(change ...func(*config.Server)) config.Server { return sessiontest.Entry("docs", change...) }
	policy := func(s *config.Server) { s.Lock = lock.Policy{"L002": lock.Block} }
	for name, test := range map[string]struct {
		entry   config.Server
		spoil   func(w *fixture, path string)
		command string
	}{
		"by the policy": {entry(policy), func(w *fixture, _ string) {
			w.Server("docs").SetList(catalog.Tools, described("dig", evil), tool("rake"))
		}, "run mcptrack review docs"},
		"the lock is damaged": {entry(), func(w *fixture, path string) {
			if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
				w.Fatal(err)
			}
		}, "run mcptrack verify"},
		"not in the lock": {entry(), func(w *fixture, path string) {
			if err := lock.Update(w.Context(), path, func(l *lock.Lock) error { clear(l.Servers); return nil }); err != nil {
				w.Fatal(err)
			}
		}, "run mcptrack lock docs"},
	} {
		t.Run(name, func(t *testing.T) {
			inEras(t, func(w *fixture, era session.Era) {
				docs := w.Serve("docs", era)
				docs.Instructions = "be good"
				docs.SetList(catalog.Tools, described("dig", "good"), tool("rake"))
				docs.SetQuietly("file:///a", "content")
				approve, path := w.locked(test.entry)
				test.spoil(w, path)
				w.opts.Guard.Reload()
				w.start(test.entry)
				c := w.client(era)
				for _, k := range catalog.Kinds() {
					w.wantClean(c, k)
				}
				if got := c.Info().Instructions; got != "" {
					w.Errorf("instructions %q", got)
				}
				w.wantHeld(c, "tools/call", `{"name":"rake"}`, test.command)
				w.wantHeld(c, "resources/read", `{"uri":"file:///a"}`, test.command)
				w.wantHeld(c, "resources/read", `{"uri":"file:///unlisted"}`, test.command)
				if name == "the lock is damaged" {
					if err := os.Remove(path); err != nil {
						w.Fatal(err)
					}
				}
				w.subscribe(c)
				approve()
				if got := received(c); got != "resources tools" {
					w.Errorf("notified of %q after the approval", got)
				}
				w.wantServed(c, "tools/call", `{"name":"rake"}`)
			})
		})
	}
}

// The launch is determined again when a server connects and when its entry changes, and not for each
// merge.
func TestLaunches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		docs := w.Serve("docs", session.EraLegacy)
		docs.SetList(catalog.Tools, tool("dig"))
		w.locked(sessiontest.Entry("docs"))
		var asked atomic.Int64
		w.opts.Launch = func(_ context.Context, srv config.Server) json.RawMessage {
			asked.Add(1)
			return json.RawMessage(`{"command":"` + srv.Command + `"}`)
		}
		w.start(sessiontest.Entry("docs"))
		expect := func(change string, do func(), again bool) {
			t.Helper()
			before := asked.Load()
			do()
			w.advance(10 * time.Second)
			if (asked.Load() > before) != again {
				t.Errorf("after %s: determined %d times", change, asked.Load()-before)
			}
		}
		expect("nothing", func() { w.advance(time.Minute) }, false)
		expect("a list", func() { docs.NotifyListChanged(catalog.Tools) }, false)
		expect("a new session", docs.Disconnect, true)
		expect("a new entry", func() {
			entry := sessiontest.Entry("docs")
			entry.Args = []string{"x"}
			w.apply(entry)
		}, true)
	})
}

// The tools of an HTTP catalog are compared like those of servers.
func TestHeldHTTPCatalog(t *testing.T) {
	a := newCatalogAPI(t, "things", "good")
	path := locktest.Path(t)
	approve := func() {
		t.Helper()
		if err := lock.Update(t.Context(), path, func(l *lock.Lock) error {
			r := observe.Servers(t.Context(), []config.Server{a.entry}, observe.Options{Hashing: func() lock.Hashing { return l.Hashing }})[0]
			l.Servers["api"] = lock.NewServer(r.Offered)
			return r.Err
		}); err != nil {
			t.Fatal(err)
		}
	}
	approve()
	g, err := guard.New(guard.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	var verdicts atomic.Int64 // changes that were found last; -1 if the catalog was not compared
	o := newOutside(t, Options{Guard: g, Verdicts: func(all map[string]*guard.Verdict) {
		n := -1
		if of, known := all["api"]; known {
			n = len(of.Changes())
		}
		verdicts.Store(int64(n))
	}}, a.entry)
	c := o.client(session.EraModern, nil)
	shown := func() string {
		list, err := c.List(t.Context(), catalog.Tools)
		if err != nil {
			t.Fatal(err)
		}
		it, _ := list.Get("things")
		return it.Describe().Description
	}
	good := shown()
	if _, err := c.CallTool(t.Context(), "things", nil); err != nil || a.called.Load() != 1 {
		t.Fatal(err)
	}
	a.set("things", evil)
	o.eventually("the catalog is read", func() bool {
		for _, it := range o.gateway.httpCatalog("api").up.Catalog().Tools {
			if strings.Contains(string(it.Raw), evil) {
				return true
			}
		}
		return false
	})
	o.eventually("the change is found", func() bool { return verdicts.Load() == 1 })
	if _, err := c.CallTool(t.Context(), "things", nil); err == nil || a.called.Load() != 1 || !strings.Contains(err.Error(), "run mcptrack review api") {
		t.Errorf("%v, called %d times", err, a.called.Load())
	}
	if got := shown(); got != good {
		t.Errorf("%q is served instead of %q", got, good)
	}
	approve()
	g.Reload()
	o.eventually("nothing differs", func() bool { return verdicts.Load() == 0 })
	if _, err := c.CallTool(t.Context(), "things", nil); err != nil || a.called.Load() != 2 {
		t.Errorf("after the approval: %v", err)
	}
}

// A server's own name is not in the lock, so clients do not get it, unless everything is served.
func TestLockedServerDoesNotNameItself(t *testing.T) {
	for enforce, name := range map[lock.Action]string{lock.Hold: "", lock.Audit: "EVIL name"} {
		inEras(t, func(w *fixture, era session.Era) {
			docs := w.Serve("docs", era)
			docs.Name = "EVIL name"
			docs.SetList(catalog.Tools, described("dig", "good"))
			_, path := w.locked(sessiontest.Entry("docs"))
			w.opts.Transparent, w.opts.Serve.Name = true, "gateway"
			var err error
			if w.opts.Guard, err = guard.New(guard.Options{Path: path, Enforce: enforce}); err != nil {
				w.Fatal(err)
			}
			w.start(sessiontest.Entry("docs"))
			if got := w.gateway.Capabilities().Servers[0].Name; got != name {
				w.Errorf("%s: the index has the name %q, want %q", enforce, got, name)
			}
			if got := w.client(era).Info().ServerName; got != cmp.Or(name, "gateway") {
				w.Errorf("%s: the name is %q", enforce, got)
			}
		})
	}
}
