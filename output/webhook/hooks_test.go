package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcpevents"
)

// webhooksWorld is a running Webhooks on an in-memory log.
type webhooksWorld struct {
	*Webhooks
	log  *testLog
	to   *receiver
	logs *lines
	end  func()

	mu     sync.Mutex
	events []event.Payload // published
}

func (w *webhooksWorld) published() []event.Payload {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

func newWebhooksWorld(t *testing.T, log *testLog, to *receiver, all ...config.Webhook) *webhooksWorld {
	t.Helper()
	w := &webhooksWorld{log: log, to: to, logs: &lines{}}
	to.fixed = true
	sender := NewSender(nil)
	sender.client.Transport, sender.open.Transport = to, to
	w.Webhooks = NewWebhooks(WebhookOptions{Log: log, Records: recordsOf(log), Reader: mcpevents.NewReader(log, mcpevents.Scope{}), Sender: sender, Follow: true,
		Publish: func(p event.Payload) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, p)
		},
		Logger: slog.New(slog.NewTextHandler(w.logs, nil))})
	w.saveEvery = time.Minute // tests in fake time last for days
	w.Apply(all)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	w.end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(w.end)
	return w
}

func standard(url string) config.Webhook {
	return config.Webhook{URL: config.NewSecret(url), Secret: config.NewSecret(oneSecret), Format: config.WebhookStandard, Settle: time.Minute}
}

// state stores a server state and returns the ID of the event.
func (l *testLog) state(server string, state event.State) string {
	return l.store(event.Event{ServerID: server, Timestamp: time.Now(), Payload: event.ServerState{State: state}})
}

// A webhook of a config gets the events since its first run, signed. It continues at its position
// after a restart, with a new secret (the old one also signs), and with other filters. A removed
// webhook gets nothing more.
func TestHooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		log.add("file:///before")
		conf := standard(hook)
		w := newWebhooksWorld(t, log, to, conf)
		synctest.Wait()
		a := log.add("file:///a")
		time.Sleep(time.Second)
		if got := to.ids(); !slices.Equal(got, []string{a}) {
			t.Fatalf("%v", got)
		}
		conf.Secret = config.NewSecret(newSecret)
		w.Apply([]config.Webhook{conf})
		synctest.Wait()
		b := log.add("file:///b")
		time.Sleep(time.Second)
		if all := to.all("event"); len(all) != 2 || all[0].signatures != 1 || all[1].signatures != 2 || all[1].id != b {
			t.Fatalf("%+v", all)
		}
		w.end()
		c := log.add("file:///c")
		if data := string(log.record(t, checkpointKey(FromConfig))); !strings.Contains(data, b) || strings.Contains(data, "hooks.example") || strings.Contains(data, "whsec") {
			t.Error(data)
		}
		conf.URIs = []string{"file:///*"}
		w = newWebhooksWorld(t, log, to, conf)
		time.Sleep(time.Second)
		if got := to.ids(); !slices.Equal(got, []string{a, b, c}) {
			t.Fatalf("after the restart %v", got)
		}
		w.Apply(nil)
		synctest.Wait()
		log.add("file:///d")
		time.Sleep(time.Second)
		w.Apply([]config.Webhook{conf})
		synctest.Wait()
		e := log.add("file:///e")
		time.Sleep(time.Second)
		if got := to.ids(); !slices.Equal(got, []string{a, b, c, e}) {
			t.Fatalf("after it was removed and added again: %v", got)
		}
		w.end()
		if logs := w.logs.String(); strings.Contains(logs, "hooks.example/") || strings.Contains(logs, "whsec") {
			t.Error(logs)
		}
	})
}

// One webhook in place of two with its URL continues at the earlier of their positions.
func TestMergedHooksLoseNothing(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"reload": false, "restart": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, to := newTestLog(), newReceiver(t)
				to.set(func(r received) int {
					if r.id == log.id(1) {
						return 503
					}
					return 204
				})
				ahead, behind := standard(hook), standard(hook)
				ahead.URIs, behind.URIs = []string{"file:///a*"}, []string{"file:///b*"}
				w := newWebhooksWorld(t, log, to, ahead, behind)
				synctest.Wait()
				log.add("file:///b")
				log.add("file:///a")
				time.Sleep(time.Second)
				to.set(nil)
				merged := standard(hook)
				merged.URIs = []string{"file:///*"}
				tried := len(to.ids())
				if restart {
					w.end()
					newWebhooksWorld(t, log, to, merged)
				} else {
					w.Apply([]config.Webhook{merged})
				}
				time.Sleep(time.Second)
				if got := to.ids()[tried:]; !slices.Contains(got, log.id(1)) {
					t.Errorf("then %v", got)
				}
			})
		})
	}
}

// Filters select by type, server and URI. An update without a change is never sent.
func TestHookFilters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, try := range map[string]struct {
			edit func(*config.Webhook)
			want []string
		}{
			"all":     {func(*config.Webhook) {}, []string{"1", "2", "4", "5"}},
			"types":   {func(w *config.Webhook) { w.Types = []string{"tools.list_changed", "prompts.list_changed"} }, []string{"4"}},
			"lists":   {func(w *config.Webhook) { w.Types = []string{"list.changed"} }, []string{"4"}},
			"another": {func(w *config.Webhook) { w.Types = []string{"prompts.list_changed"} }, nil},
			"servers": {func(w *config.Webhook) { w.Servers = []string{"team-*"} }, []string{"5"}},
			"uris":    {func(w *config.Webhook) { w.URIs = []string{"file:///x/**"} }, []string{"2"}},
		} {
			log, to, conf := newTestLog(), newReceiver(t), standard(hook)
			conf.Settle = 0
			try.edit(&conf)
			w := newWebhooksWorld(t, log, to, conf)
			synctest.Wait()
			same := false
			log.add("file:///a")
			log.add("file:///x/y/b")
			log.store(event.Event{ServerID: "docs", ResourceURI: "file:///a", Timestamp: time.Now(), Payload: event.ResourceUpdated{Changed: &same}})
			log.store(event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ListChanged{List: "tools", Added: []string{"run"}}})
			log.state("team-a", event.Ready)
			time.Sleep(time.Second)
			var got []string
			for _, id := range to.ids() {
				got = append(got, strings.TrimPrefix(id, log.Epoch()+"-"))
			}
			slices.Sort(got)
			if !slices.Equal(got, try.want) {
				t.Errorf("%s: %v, want %v", name, got, try.want)
			}
			w.end()
		}
	})
}

// States of a server that goes up and down are sent once they have lasted, across a restart as well.
// A server that stays down while reconnecting is reported as down. A state that restores the last
// sent one is not sent.
func TestSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		w := newWebhooksWorld(t, log, to, standard(hook))
		synctest.Wait()
		states := func() (out []string) {
			for _, r := range to.all("event") {
				if data, ok := r.body["data"].(map[string]any); ok && data["state"] != nil {
					out = append(out, fmt.Sprint(data["server"], " ", data["state"]))
				}
			}
			return out
		}
		expect := func(want ...string) {
			t.Helper()
			if got := states(); !slices.Equal(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
		}
		log.state("docs", event.Ready)
		for range 20 { // ten minutes
			time.Sleep(15 * time.Second)
			log.state("docs", event.Backoff)
			time.Sleep(15 * time.Second)
			log.state("docs", event.Ready)
		}
		expect()
		other := log.add("file:///a") // delivered meanwhile
		time.Sleep(30 * time.Second)
		expect()
		if got := to.ids(); !slices.Equal(got, []string{other}) {
			t.Fatalf("%v", got)
		}
		w.end()
		time.Sleep(20 * time.Second)
		w = newWebhooksWorld(t, log, to, standard(hook))
		time.Sleep(time.Minute)
		expect("docs Ready")
		// It stays down, and fails to connect every 25 s.
		for range 8 {
			log.state("docs", event.Connecting)
			time.Sleep(5 * time.Second)
			log.state("docs", event.Backoff)
			time.Sleep(20 * time.Second)
		}
		expect("docs Ready", "docs Backoff")
		log.state("docs", event.Connecting)
		log.state("docs", event.Ready)
		time.Sleep(10 * time.Second)
		log.state("docs", event.Backoff) // restores what was sent last
		time.Sleep(10 * time.Minute)
		expect("docs Ready", "docs Backoff")
		log.state("docs", event.Ready)
		time.Sleep(61 * time.Second)
		expect("docs Ready", "docs Backoff", "docs Ready")
		w.end()
		w = newWebhooksWorld(t, log, to, standard(hook))
		time.Sleep(10 * time.Minute)
		expect("docs Ready", "docs Backoff", "docs Ready")
		w.end()
	})
}

// A state that was held back is found after a restart, even if the reader of the log starts later
// than the webhooks.
func TestSettleBeforeTheReaderRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		w := newWebhooksWorld(t, log, to, standard(hook))
		synctest.Wait()
		kept := log.state("docs", event.Ready)
		time.Sleep(30 * time.Second)
		w.end()
		if got := to.ids(); len(got) != 0 {
			t.Fatalf("sent before it had lasted: %v", got)
		}

		reader, sender := mcpevents.NewReader(log, mcpevents.Scope{}), NewSender(nil)
		sender.client.Transport, sender.open.Transport = to, to
		h := NewWebhooks(WebhookOptions{Log: log, Records: recordsOf(log), Reader: reader, Sender: sender})
		h.Apply([]config.Webhook{standard(hook)})
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = h.Run(ctx) })
		time.Sleep(time.Second)
		running.Go(func() { _ = reader.Run(ctx) })
		time.Sleep(2 * time.Minute)
		if got := to.ids(); !slices.Equal(got, []string{kept}) {
			t.Errorf("sent %v, want %s", got, kept)
		}
		cancel()
		running.Wait()
	})
}

// A gap message follows an event that was abandoned. It is repeated until the endpoint accepts it,
// across a restart as well.
func TestHookGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		w := newWebhooksWorld(t, log, to, standard(hook))
		synctest.Wait()
		to.set(func(r received) int {
			if r.id == log.id(1) || r.kind() == "gap" {
				return 503
			}
			return 204
		})
		log.add("file:///a")
		for range 40 {
			time.Sleep(time.Hour)
			log.add("file:///x")
		}
		time.Sleep(time.Minute)
		w.end()
		if logs := w.logs.String(); strings.Count(logs, "could not be delivered") != 1 || !strings.Contains(logs, "hooks.example") || strings.Contains(logs, "/h/7") {
			t.Error(logs)
		}
		if data := string(log.record(t, checkpointKey(FromConfig))); !strings.Contains(data, "gapDue") {
			t.Error(data)
		}
		tried := len(to.all("gap"))
		to.set(func(r received) int {
			if r.kind() == "gap" && len(to.got) < tried+10 {
				return 500
			}
			return 204
		})
		w = newWebhooksWorld(t, log, to, standard(hook))
		time.Sleep(time.Minute)
		log.add("file:///b")
		time.Sleep(time.Minute)
		log.add("file:///c")
		time.Sleep(time.Minute)
		log.add("file:///d")
		time.Sleep(time.Minute)
		all := to.all("")
		if tried == 0 || !slices.ContainsFunc(all, func(r received) bool { return r.kind() == "gap" }) {
			t.Fatalf("%v", all)
		}
		w.end()
		if data := string(log.record(t, checkpointKey(FromConfig))); strings.Contains(data, "gapDue") {
			t.Error(data)
		}
	})
}

// The reference implementation can read the CloudEvents. IDs and data are the same as in all other
// formats.
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		to.types = "application/cloudevents+json"
		conf := standard(hook)
		conf.Format, conf.Settle = config.WebhookCloudEvents, 0
		w := newWebhooksWorld(t, log, to, conf)
		synctest.Wait()
		id := log.add("file:///a b<c>")
		log.state("docs two", event.Ready)
		log.store(event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ListChanged{List: "tools", Added: []string{"run"}}})
		time.Sleep(time.Second)
		w.end()
		all := to.all("")
		if len(all) != 3 {
			t.Fatalf("%v", all)
		}
		slices.SortFunc(all, func(a, b received) int { return strings.Compare(a.id, b.id) })
		for i, r := range all {
			var e cloudevents.Event
			raw, _ := json.Marshal(r.body)
			if err := json.Unmarshal(raw, &e); err != nil || e.Validate() != nil {
				t.Fatalf("%v %v: %s", err, e.Validate(), raw)
			}
			var data map[string]any
			if err := e.DataAs(&data); err != nil || e.Extensions()["cursor"] == nil || e.Time().IsZero() {
				t.Errorf("%v: %s", err, raw)
			}
			want := []string{id + " mcptrack.resource.updated mcptrack://server/docs file:///a b<c>", log.id(2) + " mcptrack.server.state mcptrack://server/docs%20two Ready", log.id(3) + " mcptrack.tools.list_changed mcptrack://server/docs tools"}[i]
			if got := strings.Join([]string{e.ID(), e.Type(), e.Source(), e.Subject()}, " "); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		body, err := cloudGap("msg_gap_1", id)
		var e cloudevents.Event
		if err != nil || json.Unmarshal(body, &e) != nil || e.Validate() != nil || e.Type() != "mcptrack.gap" {
			t.Errorf("%v %s", err, body)
		}
	})
}

// Slack messages are plain text: text from a server cannot mention anybody, create links or styles,
// or be long.
func TestSlack(t *testing.T) {
	t.Parallel()
	scope := mcpevents.Scope{}
	dashboard := ""
	text := func(e event.Event) string {
		t.Helper()
		log := newTestLog()
		log.store(e)
		reader := mcpevents.NewReader(log, scope)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { _ = reader.Run(ctx) })
		for {
			b, _, err := reader.Look(ctx, mcpevents.Position{Epoch: log.Epoch()}, func(*mcpevents.Occurrence) bool { return true }, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Occurrences) == 0 {
				continue
			}
			body, err := formatOf(config.WebhookSlack, dashboard).event(b.Occurrences[0], "c")
			var m struct {
				Text      string
				Mrkdwn    *bool
				LinkNames *bool `json:"link_names"`
			}
			if err != nil || json.Unmarshal(body, &m) != nil || m.Mrkdwn == nil || *m.Mrkdwn || m.LinkNames == nil || *m.LinkNames {
				t.Fatalf("%v %s", err, body)
			}
			return m.Text
		}
	}
	now := time.Now()
	many := make([]string, 100)
	for i := range many {
		many[i] = fmt.Sprintf("tool%02d", i)
	}
	for want, e := range map[string]event.Event{
		"docs: updated file:///guide.md":                                                  {ServerID: "docs", ResourceURI: "file:///guide.md", Payload: event.ResourceUpdated{}},
		"docs: updated x:&lt;!channel&gt;&amp;&lt;@U1&gt;":                                {ServerID: "docs", ResourceURI: "x:<!channel>&<@U1>", Payload: event.ResourceUpdated{}},
		"docs: tools +run &lt;!here&gt; -old":                                             {ServerID: "docs", Payload: event.ListChanged{List: "tools", Added: []string{"run <!here>"}, Removed: []string{"old"}}},
		"docs: retrying (exited &lt;https://evil.example|click&gt;)":                      {ServerID: "docs", Payload: event.ServerState{State: event.Backoff, Reason: "exited <https://evil.example|click>"}},
		"docs: tools +tool00 +tool01 +tool02 +tool03 +tool04 +… 95 more":                  {ServerID: "docs", Payload: event.ListChanged{List: "tools", Added: many}},
		"docs: lock tool/&lt;!here&gt; changed: wording, title; run mcptrack review docs": {ServerID: "docs", Payload: event.LockDrift{Change: event.DriftChanged, Section: "tools", Item: "tool/<!here>", Classes: []event.DriftClass{{Name: "wording"}, {Name: "title"}}}},
		"docs: lock instructions is approved now":                                         {ServerID: "docs", Payload: event.LockDrift{Change: event.DriftApproved, Section: "instructions", Item: "instructions"}},
		"docs: lock: the server no longer differs from the lock":                          {ServerID: "docs", Payload: event.LockDrift{Change: event.DriftResolved}},
		"docs: lock: the server is not in the lock; run mcptrack lock docs":               {ServerID: "docs", Payload: event.LockDrift{Change: event.DriftChanged, Reason: "the server is not in the lock; run mcptrack lock docs"}},
	} {
		e.Timestamp = now
		if got := text(e); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	// With a dashboard, a change has a link. Nothing of its name can end the link or begin another one.
	dashboard = "https://mcptrack.example"
	drift := func(server, item string) string {
		section, _, _ := strings.Cut(item, "/")
		return text(event.Event{ServerID: server, Timestamp: now, Payload: event.LockDrift{Change: event.DriftChanged, Section: section + "s", Item: item, Classes: []event.DriftClass{{Name: "wording"}}}})
	}
	for want, got := range map[string]string{
		"docs: lock tool/search changed: wording; review it: <https://mcptrack.example/?item=tool%2Fsearch&amp;review=1&amp;server=docs>":                            drift("docs", "tool/search"),
		"a&amp;b c: lock tool/x&gt;|&lt;y\"# changed: wording; review it: <https://mcptrack.example/?item=tool%2Fx%3E%7C%3Cy%22%23&amp;review=1&amp;server=a%26b+c>": drift("a&b c", `tool/x>|<y"#`),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := drift("docs", "tool/"+strings.Repeat("x", 300)); !strings.HasSuffix(got, " <https://mcptrack.example/?review=1&amp;server=docs>") {
		t.Error(got)
	}
	if got := drift(strings.Repeat("<", 1000), "tool/search"); !strings.HasSuffix(got, " <https://mcptrack.example/?review=1>") {
		t.Error(got)
	}
	for _, p := range []event.LockDrift{{Change: event.DriftApproved, Section: "tools", Item: "tool/x"}, {Change: event.DriftChanged, Reason: "the server is not in the lock; run mcptrack lock docs"}} {
		if got := text(event.Event{ServerID: "docs", Timestamp: now, Payload: p}); strings.Contains(got, "<") {
			t.Errorf("%s has a link", got)
		}
	}
	dashboard = ""
	long := text(event.Event{ServerID: "docs", Timestamp: now, ResourceURI: "x:" + strings.Repeat("<", 2000), Payload: event.ResourceUpdated{}})
	if len(long) > 4*maxSlack+100 {
		t.Errorf("%d bytes", len(long))
	}
}

// A private address is reached only if the webhook allows it.
func TestHookPrivate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, allow := range []bool{false, true} {
			log, to := newTestLog(), newReceiver(t)
			sender := NewSender(nil)
			to.fixed = true
			sender.open.Transport = to // the guarded client dials
			h := NewWebhooks(WebhookOptions{Log: log, Records: recordsOf(log), Reader: mcpevents.NewReader(log, mcpevents.Scope{}), Sender: sender, Follow: true})
			conf := standard("https://127.0.0.1:9/x")
			conf.AllowPrivate = allow
			h.Apply([]config.Webhook{conf})
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() { _ = h.Run(ctx) })
			synctest.Wait()
			log.add("file:///a")
			time.Sleep(20 * time.Minute)
			cancel()
			running.Wait()
			if got := len(to.ids()); allow != (got == 1) {
				t.Errorf("%d", got)
			}
		}
	})
}

// An in-memory log is closed with the tracker, before its readers end. That is not an error.
func TestHooksEndAfterAnInMemoryLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		w := newWebhooksWorld(t, log, to, standard(hook))
		synctest.Wait()
		log.add("file:///a")
		time.Sleep(time.Second)
		log.add("file:///b")
		synctest.Wait()
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.end()
		if logs := w.logs.String(); logs != "" {
			t.Errorf("logged: %s", logs)
		}
	})
}
