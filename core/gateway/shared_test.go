package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// shared is a tracker that connects its servers on demand, for any number of gateways.
type shared struct {
	*testing.T
	sessiontest.Net
	tracker *tracker.Tracker
	entries map[string]config.Server // by id in the tracker
	logs    bytes.Buffer             // of all gateways; read it after they have stopped
}

// sharedIDs are the ids in the tracker: NAME~KEY.
func sharedIDs() []string { return []string{"docs~1", "docs~2", "more~3"} }

// inShared runs the test with three servers, each with the tool "dig" and two resources.
func inShared(t *testing.T, test func(s *shared, era session.Era)) {
	t.Helper()
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &shared{T: t, entries: map[string]config.Server{}}
				var all []config.Server
				for _, id := range sharedIDs() {
					fake := s.Serve(id, era)
					fake.SetList(catalog.Tools, tool("dig"))
					fake.SetQuietly("file:///own/"+id, "text")
					fake.SetQuietly("file:///both", "text")
					s.entries[id] = sessiontest.Entry(id, func(srv *config.Server) {
						srv.Idle, srv.ConnectTimeout, srv.TrackResources = time.Minute, 5*time.Second, false
					})
					all = append(all, s.entries[id])
				}
				s.tracker = tracker.New(tracker.Options{Dial: s.Dial, AllLists: true, OnDemand: true})
				s.tracker.Apply(&config.Config{Servers: all})
				ctx, cancel := context.WithCancel(context.Background())
				var running sync.WaitGroup
				running.Go(func() { _ = s.tracker.Run(ctx) })
				t.Cleanup(func() {
					cancel()
					running.Wait()
					s.Wait()
				})
				if _, err := s.tracker.Settled(t.Context()); err != nil {
					t.Fatal(err)
				}
				test(s, era)
			})
		})
	}
}

// know lets the tracker learn the lists of all servers, which then sleep again.
func (s *shared) know() {
	for _, id := range sharedIDs() {
		s.tracker.Demand(id)()
	}
	s.advance(2 * time.Minute)
	for _, id := range sharedIDs() {
		s.wantAsleep(id, true)
	}
}

func (s *shared) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *shared) wantAsleep(id string, want bool) {
	s.Helper()
	st, _ := s.tracker.Snapshot().Server(id)
	if asleep := st.State == event.Pending && st.Reason == event.Asleep; asleep != want {
		s.Fatalf("%s asleep: %t (%s), want %t", id, asleep, st.State, want)
	}
}

// open starts a gateway for servers of the tracker. Clients know a server by its name.
func (s *shared) open(opts Options, ids ...string) *fixture {
	s.Helper()
	w := &fixture{T: s.T, tracker: s.tracker}
	opts.Tracker, opts.Dial, opts.Logger = s.tracker, s.Dial, slog.New(slog.NewTextHandler(&s.logs, nil))
	if opts.Alias == nil {
		opts.Alias = func(id string) string { name, _, _ := strings.Cut(id, "~"); return name }
	}
	opts.Refused = func(r Refusal) { w.refused = append(w.refused, r) }
	var err error
	if w.gateway, err = New(opts); err != nil {
		s.Fatal(err)
	}
	s.show(w, ids...)
	var ctx context.Context
	ctx, w.cancel = context.WithCancel(context.Background())
	w.running.Go(func() { _ = w.gateway.Run(ctx) })
	s.Cleanup(w.stop)
	if err := w.gateway.Settled(s.Context()); err != nil {
		s.Fatal(err)
	}
	return w
}

// show sets the servers of a gateway.
func (s *shared) show(w *fixture, ids ...string) {
	var cfg config.Config
	for _, id := range ids {
		cfg.Servers = append(cfg.Servers, s.entries[id])
	}
	w.gateway.Apply(&cfg)
}

// Gateways over one tracker export its servers under their own ids; with one server, names and URIs
// stay unchanged. The ids in the tracker appear nowhere.
func TestAliases(t *testing.T) {
	inShared(t, func(s *shared, era session.Era) {
		t := s.T
		for _, id := range sharedIDs() {
			s.Server(id).Instructions = "about " + id[:4]
		}
		s.Server("docs~1").SetList(catalog.Tools, tool("dig"), tool("bell\a"))
		s.know()
		one := s.open(Options{}, "docs~1")
		two := s.open(Options{}, "docs~2", "more~3")
		other := s.open(Options{Alias: func(id string) string { return map[string]string{"docs~1": "x", "docs~2": "y"}[id] }, Deny: []string{"mcptrack://server/y/file:///both"}}, "docs~1", "docs~2")
		c1, c2, c3 := one.client(era), two.client(era), other.client(era)
		one.wantKeys(c1, catalog.Tools, "dig")
		one.wantKeys(c1, catalog.Resources, "file:///own/docs~1", "file:///both")
		two.wantKeys(c2, catalog.Tools, "docs_dig", "more_dig")
		two.wantKeys(c2, catalog.Resources, "file:///own/docs~2", "file:///own/more~3", "mcptrack://server/docs/file:///both", "mcptrack://server/more/file:///both")
		other.wantKeys(c3, catalog.Tools, "x_dig", "y_dig")
		other.wantKeys(c3, catalog.Resources, "file:///own/docs~1", "file:///own/docs~2", "mcptrack://server/x/file:///both")
		if got, want := c2.Info().Instructions, "# Server docs\n\nabout docs\n\n# Server more\n\nabout more"; got != want {
			t.Errorf("instructions %q, want %q", got, want)
		}

		for call, owner := range map[string]string{"docs_dig": "docs~2", "more_dig": "more~3"} {
			if _, err := two.do(c2, "tools/call", `{"name":"`+call+`"}`); err != nil || s.Server(owner).Count("tools/call") != 1 {
				t.Errorf("%s: %v", call, err)
			}
		}
		for uri, found := range map[string]bool{"mcptrack://server/y/file:///both": false, "mcptrack://server/docs~2/file:///both": false,
			"mcptrack://server/x/file:///both": true, "mcptrack://server/y/file:///own/docs~2": true} {
			if _, err := c3.Read(t.Context(), uri); (err == nil) != found {
				t.Errorf("%s: %v", uri, err)
			}
		}
		if _, ok := other.gateway.Exports("docs~2", catalog.Tools, "dig", ""); !ok {
			t.Error("an event about a tool has no exported name")
		}
		if name, _ := other.gateway.Exports("docs~1", catalog.Tools, "dig", ""); name != "x_dig" {
			t.Errorf("exported as %q", name)
		}
		for i, srv := range two.gateway.Capabilities().Servers {
			if want := []string{"docs", "more"}[i]; srv.ID != want {
				t.Errorf("index: %q", srv.ID)
			}
		}

		s.SetDown("docs~1", errors.New("broken pipe"))
		s.advance(10 * time.Second)
		_, err := one.do(c1, "tools/call", `{"name":"dig"}`)
		if err == nil || !strings.Contains(err.Error(), "server docs: ") || strings.Contains(err.Error(), "~") {
			t.Errorf("%v", err)
		}
		_, err = other.do(c3, "tools/call", `{"name":"x_dig"}`)
		if err == nil || !strings.Contains(err.Error(), "server x: ") || strings.Contains(err.Error(), "~") {
			t.Errorf("%v", err)
		}
		for _, w := range []*fixture{one, two, other} {
			w.stop()
		}
		if len(one.refused) != 1 || one.refused[0].Server != "docs" || len(other.refused) != 1 || other.refused[0].Server != "x" {
			t.Errorf("refused %+v, %+v", one.refused, other.refused)
		}
		if logs := s.logs.String(); !strings.Contains(logs, "server=docs") || strings.Contains(logs, "~") {
			t.Errorf("logs:\n%s", logs)
		}
	})
}

// A gateway with one server describes itself as that server if it is transparent.
func TestTransparent(t *testing.T) {
	inShared(t, func(s *shared, era session.Era) {
		t := s.T
		s.Server("docs~1").Capabilities = map[string]any{"tools": map[string]any{"listChanged": true}}
		s.know()
		info, _ := s.tracker.Snapshot().Server("docs~1")
		w := s.open(Options{Transparent: true, Serve: mcpserver.Options{Name: "gateway"}}, "docs~1")
		got := w.client(era).Info()
		if got.ServerName != info.Info.ServerName || got.ServerName == "" || got.ServerVersion != info.Info.ServerVersion {
			t.Errorf("%q %q", got.ServerName, got.ServerVersion)
		}
		if caps := got.Capabilities; !caps.Tools || caps.Prompts || caps.Resources || caps.Completions {
			t.Errorf("%+v", caps)
		}
		s.show(w, "docs~1", "more~3")
		s.advance(time.Second)
		if got := w.client(era).Info(); got.ServerName != "gateway" || !got.Capabilities.Prompts {
			t.Errorf("with two servers: %q", got.ServerName)
		}
	})
}

// A client may know a tool from an earlier process. If the server could not be listed since, a call
// waits for the server, but not long if it fails.
func TestCallsWaitForServersThatWereNeverListed(t *testing.T) {
	inShared(t, func(s *shared, era session.Era) {
		t := s.T
		for _, id := range []string{"docs~1", "more~3"} {
			s.SetDown(id, errors.New("broken pipe"))
			s.tracker.Demand(id)()
		}
		s.advance(time.Second)
		w := s.open(Options{}, "docs~1")
		began := time.Now()
		_, err := w.do(w.client(era), "tools/call", `{"name":"dig"}`)
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "broken pipe") || took < 2*time.Second || took > 3*time.Second {
			t.Errorf("after %s: %v", took, err)
		}
		w = s.open(Options{}, "more~3")
		c := w.client(era)
		time.AfterFunc(time.Second, func() { s.SetDown("more~3", nil) })
		if _, err := w.do(c, "tools/call", `{"name":"dig"}`); err != nil {
			t.Error(err)
		}
		began = time.Now()
		if _, err := w.do(c, "tools/call", `{"name":"none"}`); err == nil || time.Since(began) > time.Millisecond {
			t.Errorf("after %s: %v", time.Since(began), err)
		}

		// A server that connects for the first time is waited for longer.
		s.Server("docs~2").Fail(sessiontest.Fault{Delay: 3 * time.Second, Times: 1})
		w = s.open(Options{}, "docs~2")
		if _, err := w.do(w.client(era), "tools/call", `{"name":"dig"}`); err != nil {
			t.Error(err)
		}

		// The gateway may know the new servers of an edited config before the tracker does.
		s.Serve("late~4", era).SetList(catalog.Tools, tool("dig"))
		s.entries["late~4"] = sessiontest.Entry("late~4")
		w = s.open(Options{}, "late~4")
		c = w.client(era)
		time.AfterFunc(time.Second, func() { s.tracker.Apply(&config.Config{Servers: []config.Server{s.entries["late~4"]}}) })
		if _, err := w.do(c, "tools/call", `{"name":"dig"}`); err != nil {
			t.Error(err)
		}
	})
}

// Lists are answered from memory while a server sleeps. A request wakes it and waits for it; changes
// are announced once. The server stays awake until the client has left.
func TestRequestsWakeServers(t *testing.T) {
	inShared(t, func(s *shared, era session.Era) {
		t := s.T
		s.know()
		w := s.open(Options{}, "docs~1")
		c := w.client(era)
		w.subscribe(c)
		s.advance(time.Hour)
		w.wantKeys(c, catalog.Tools, "dig")
		list, err := c.List(t.Context(), catalog.Tools)
		if err != nil || strings.Contains(string(list[0].Raw), downMember) {
			t.Errorf("%s, %v", list[0].Raw, err)
		}
		s.wantAsleep("docs~1", true)

		s.Server("docs~1").SetList(catalog.Tools, tool("dig"), tool("more"))
		s.Server("docs~1").Fail(sessiontest.Fault{Delay: 3 * time.Second, Times: 1}) // longer than Grace
		if _, err := w.do(c, "tools/call", `{"name":"dig"}`); err != nil {
			t.Fatal(err)
		}
		s.advance(time.Second)
		if got := received(c); got != "tools" {
			t.Errorf("received %q", got)
		}
		w.wantKeys(c, catalog.Tools, "dig", "more")
		s.advance(30 * time.Second)
		if got := received(c); got != "" {
			t.Errorf("received %q again", got)
		}
		if era == session.EraLegacy { // a modern client has no connection that holds the demand
			s.advance(time.Hour)
		}
		s.wantAsleep("docs~1", false)
		_ = c.Close()
		s.advance(59 * time.Second)
		s.advance(2 * time.Second)
		s.wantAsleep("docs~1", true)
		if n := len(s.Dialled("docs~1")); n != 2 {
			t.Errorf("%d sessions", n)
		}
	})
}

// A request fails as soon as its server cannot be woken, with the reason; others are not affected.
// Once it is down for the grace period, its items are marked.
func TestServerCannotBeWoken(t *testing.T) {
	inShared(t, func(s *shared, era session.Era) {
		t := s.T
		s.know()
		w := s.open(Options{}, "docs~1", "more~3")
		c := w.client(era)
		s.SetDown("docs~1", errors.New("no such file"))
		began := time.Now()
		_, err := w.do(c, "tools/call", `{"name":"docs_dig"}`)
		if err == nil || !strings.Contains(err.Error(), "server docs: ") || !strings.Contains(err.Error(), "no such file") || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := w.do(c, "tools/call", `{"name":"more_dig"}`); err != nil {
			t.Error(err)
		}
		s.advance(3 * time.Second)
		list, err := c.List(t.Context(), catalog.Tools)
		if err != nil {
			t.Fatal(err)
		}
		it, _ := list.Get("docs_dig")
		if !strings.Contains(string(it.Raw), downMember) {
			t.Errorf("%s", it.Raw)
		}

		// A server that hangs is waited for as long as connecting may take.
		s.Server("more~3").Disconnect()
		s.SetDown("more~3", nil)
		_ = c.Close()
		s.advance(2 * time.Minute)
		s.wantAsleep("more~3", true)
		s.Server("more~3").Fail(silence())
		began = time.Now()
		if _, err := w.do(w.client(era), "tools/call", `{"name":"more_dig"}`); err == nil || time.Since(began) > 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A subscription keeps its server awake, whether the config tracks the resource or not, and returns
// after the session was lost. Gateways that subscribe to the same resource do not disturb each other.
func TestSharedSubscriptions(t *testing.T) {
	inShared(t, func(s *shared, era session.Era) {
		t := s.T
		s.know()
		one, two := s.open(Options{}, "docs~1"), s.open(Options{}, "docs~1", "more~3")
		c1, c2 := one.client(era), two.client(era)
		one.subscribe(c1, "file:///both")
		two.subscribe(c2, "mcptrack://server/docs/file:///both")
		if _, err := c1.Read(t.Context(), "file:///both"); err != nil { // wakes it
			t.Fatal(err)
		}
		s.advance(time.Hour)
		docs := s.Server("docs~1")
		update := func(text, want1, want2 string) {
			t.Helper()
			s.advance(time.Second)
			_, _ = received(c1), received(c2)
			docs.Set("file:///both", text)
			s.advance(5 * time.Second)
			if a, b := received(c1), received(c2); a != want1 || b != want2 {
				t.Errorf("%s: received %q, %q; want %q, %q", text, a, b, want1, want2)
			}
		}
		update("two", "file:///both", "mcptrack://server/docs/file:///both")
		docs.Disconnect()
		s.advance(time.Minute)
		update("three", "file:///both", "mcptrack://server/docs/file:///both")

		asked := func() int { return docs.Count("resources/unsubscribe") + docs.Count("subscriptions/listen") }
		before := asked()
		_, _ = c1.Subscribe(t.Context(), session.Filter{})
		s.advance(2 * time.Minute) // the first gateway unsubscribes
		if asked() != before {
			t.Error("the subscription of the other gateway was interrupted")
		}
		update("four", "", "mcptrack://server/docs/file:///both")
		one.stop()
		s.advance(time.Hour)
		update("five", "", "mcptrack://server/docs/file:///both")
		s.wantAsleep("docs~1", false)
		if got := docs.Subscribed(); !slices.Equal(got, []string{"file:///both"}) {
			t.Errorf("subscribed to %q", got)
		}
		two.stop() // while its client is subscribed
		s.advance(2 * time.Minute)
		s.wantAsleep("docs~1", true)
	})
}

// A tracked resource to which a client is subscribed keeps its server awake.
func TestTrackedSubscriptionKeepsServerAwake(t *testing.T) {
	inShared(t, func(s *shared, era session.Era) {
		t := s.T
		tracked := s.entries["docs~1"]
		tracked.TrackResources = true
		s.entries["docs~1"] = tracked
		s.tracker.Apply(&config.Config{Servers: []config.Server{tracked, s.entries["docs~2"], s.entries["more~3"]}})
		s.know()
		w := s.open(Options{}, "docs~1")
		c := w.client(era)
		w.subscribe(c, "file:///both")
		s.advance(time.Hour)
		s.wantAsleep("docs~1", false)
		s.Server("docs~1").Set("file:///both", "new")
		s.advance(5 * time.Second)
		if got := received(c); got != "file:///both" {
			t.Errorf("received %q", got)
		}
		_, _ = c.Subscribe(t.Context(), session.Filter{})
		s.advance(5 * time.Minute)
		s.wantAsleep("docs~1", true)
		several := s.open(Options{}, "docs~1", "more~3") // determines names without an engine
		if got, _ := several.gateway.Exports("docs~1", catalog.Resources, "file:///both", ""); got != "mcptrack://server/docs/file:///both" {
			t.Errorf("exported as %q", got)
		}
	})
}

// A gateway is settled, and its items are up, regardless of other gateways' servers.
func TestSettledDespiteOtherServers(t *testing.T) {
	inShared(t, func(s *shared, era session.Era) {
		t := s.T
		s.know()
		s.Server("more~3").Fail(silence())
		defer s.tracker.Demand("more~3")()
		synctest.Wait()
		began := time.Now()
		s.open(Options{}, "docs~1")
		s.open(Options{})
		if time.Since(began) > 0 {
			t.Errorf("settled after %v", time.Since(began))
		}
	})
}

// A notification about a task reaches the gateway in which the task was started, and no other.
func TestTaskNotificationsOfSeveralGateways(t *testing.T) {
	inShared(t, func(s *shared, era session.Era) {
		t := s.T
		if era == session.EraModern {
			return // modern clients listen to tasks; see watchTasks
		}
		s.know()
		one, two := s.open(Options{}, "docs~1"), s.open(Options{}, "docs~1")
		got := map[*fixture]*messages{}
		for _, w := range []*fixture{one, two} {
			got[w] = &messages{}
			c := w.clientOf(era, &session.ClientSide{Message: got[w].add})
			if _, err := w.do(c, "tools/call", `{"name":"dig"}`); err != nil {
				t.Fatal(err)
			}
		}
		var client *mcpserver.Client
		for of := range two.gateway.demands.byClient {
			client = of
		}
		two.gateway.tasks.add(target{"docs~1", "t1"}, &mcpserver.Request{Client: client}, nil, nil)
		s.Server("docs~1").Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": map[string]any{"taskId": "t1", "status": "working"}})
		s.advance(time.Second)
		if a, b := got[one].take(), got[two].take(); len(a) != 0 || len(b) != 1 || !strings.Contains(b[0], taskPrefix) {
			t.Errorf("received %q, %q", a, b)
		}
		two.stop()
		s.Server("docs~1").Broadcast(map[string]any{"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": map[string]any{"taskId": "t1", "status": "completed"}})
		s.advance(time.Second)
	})
}

// A gateway that stops, or no longer exports a server, ends its demand; others go on.
func TestGatewaysEndIndependently(t *testing.T) {
	inShared(t, func(s *shared, _ session.Era) {
		t := s.T
		s.know()
		one, two := s.open(Options{}, "docs~1", "more~3"), s.open(Options{}, "docs~1")
		c1, c2 := one.client(session.EraLegacy), two.client(session.EraLegacy)
		for _, name := range []string{"docs_dig", "more_dig"} {
			if _, err := one.do(c1, "tools/call", `{"name":"`+name+`"}`); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := two.do(c2, "tools/call", `{"name":"dig"}`); err != nil {
			t.Fatal(err)
		}
		s.show(one, "docs~1") // while its client stays
		s.advance(2 * time.Minute)
		s.wantAsleep("more~3", true)
		one.stop()
		s.advance(time.Hour)
		s.wantAsleep("docs~1", false)
		if _, err := two.do(c2, "tools/call", `{"name":"dig"}`); err != nil {
			t.Error(err)
		}
		two.cancel() // Run ends before the client leaves
		s.advance(2 * time.Minute)
		s.wantAsleep("docs~1", true)
	})
}

// A task keeps its server awake until it has ended or expired.
func TestTasksHoldDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := 0
		r := taskRegistry{demand: func(string) func() { held++; return func() { held-- } }}
		request := &mcpserver.Request{Principal: "p"}
		described := func(status string) map[string]json.RawMessage {
			return map[string]json.RawMessage{"status": quote(status), "ttl": json.RawMessage("60000")}
		}
		at := target{"docs", "t1"}
		want := func(n int) {
			t.Helper()
			if held != n {
				t.Errorf("demand is held %d times, want %d", held, n)
			}
		}
		r.add(at, request, nil, described("working"))
		r.add(at, request, nil, described("working"))
		r.add(target{"docs", "own"}, request, &ownSession{}, described("working")) // a session of the client
		want(1)
		r.add(at, request, nil, described("completed"))
		want(0)
		r.add(at, request, nil, described("working"))
		r.settle(taskKey{"p", at})
		r.settle(taskKey{"p", at})
		r.settle(taskKey{"p", target{"docs", "unknown"}})
		want(0)
		r.add(at, request, nil, described("input_required"))
		r.reconcile(time.Now())
		want(1)
		time.Sleep(time.Minute)
		r.reconcile(time.Now())
		want(0)
		r.add(at, request, nil, described("working"))
		r.close()
		r.add(target{"docs", "t2"}, request, nil, described("working"))
		want(0)
	})
}
