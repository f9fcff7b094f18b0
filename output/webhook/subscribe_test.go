package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/records"
)

// A subscription from challenge to unsubscribe: E6, E8.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	before := w.log.add("file:///before")
	sub := w.subscribe(params(hook, oneSecret))
	challenge := w.to.all("")
	if len(challenge) != 1 || challenge[0].kind() != "verification" || !strings.HasPrefix(challenge[0].id, "msg_verification_") || challenge[0].subscription != sub.ID {
		t.Fatalf("%+v", challenge)
	}
	if sub.Cursor != before || sub.Truncated || sub.RefreshBefore == nil || !strings.HasPrefix(sub.ID, "sub_") || sub.DeliveryStatus != nil {
		t.Errorf("%+v", sub)
	}
	if d := time.Until(*sub.RefreshBefore); d < 23*time.Hour || d > 24*time.Hour {
		t.Errorf("the default is %v", d)
	}
	first := w.log.add("file:///a")
	w.awaits(first)
	got := w.to.all("event")[0]
	if got.body["cursor"] != first || got.body["type"] != nil || got.signatures != 1 || got.subscription != sub.ID {
		t.Errorf("%+v", got)
	}
	// After a refresh with a new secret, both secrets sign for a while.
	w.until("the status", func() bool {
		again := w.subscribe(params(hook, newSecret, `,"ttlMs":600000`))
		if again.ID != sub.ID || time.Until(*again.RefreshBefore) > 10*time.Minute {
			t.Fatalf("%+v", again)
		}
		s := again.DeliveryStatus
		return s != nil && s.Active && s.LastDeliveryAt != nil && s.LastError == nil && again.Cursor == first
	})
	second := w.log.add("file:///b")
	w.awaits(second)
	if got := w.to.all("event")[1]; got.signatures != 2 {
		t.Errorf("%d signatures after a rotation", got.signatures)
	}
	if n := len(w.to.all("verification")); n != 1 {
		t.Errorf("%d challenges for one URL", n)
	}
	if _, err := w.ask(mcp.MethodUnsubscribeEvents, "chat", params(hook, oneSecret)); err != nil {
		t.Error(err)
	}
	_, err := w.ask(mcp.MethodUnsubscribeEvents, "chat", params(hook, oneSecret))
	if code, data := refused(err); code != -32011 || data["kind"] != "subscription" {
		t.Errorf("unsubscribed twice: %v", err)
	}
	w.log.add("file:///c")
	other := w.subscribe(params(hook+"?q", oneSecret)) // a delivery to it shows that the log was read
	w.awaits(w.log.add("file:///d"))
	for _, r := range w.to.all("event") {
		if r.subscription == sub.ID && r.id > second {
			t.Errorf("delivered after unsubscribe: %+v", r)
		}
	}
	if other.ID == sub.ID {
		t.Error("another URL has the same subscription")
	}
}

// E6: no event is sent before the answer is written.
func TestNoEventBeforeAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		defer w.end()
		next := record{ID: "sub_x", Principal: "chat", URL: hook, Name: "resource.updated", Arguments: []byte("{}"), Secret: oneSecret, Expires: time.Now().Add(time.Hour), Cursor: w.log.id(0)}
		_, made, _, err := w.create(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		id := w.log.add("file:///a")
		time.Sleep(answerWait - time.Second)
		if got := w.to.ids(); len(got) > 0 {
			t.Errorf("%v was sent before the answer", got)
		}
		w.answered(made.ID, made.Life)
		synctest.Wait()
		if got := w.to.ids(); !slices.Equal(got, []string{id}) {
			t.Errorf("after the answer %v", got)
		}
	})
}

// countingRecords counts the writes of subscription records.
type countingRecords struct {
	records.Store
	writes atomic.Int64
}

func (r *countingRecords) Put(ctx context.Context, rec records.Record) (uint64, error) {
	if strings.HasPrefix(rec.Key, subscriptionPrefix) {
		r.writes.Add(1)
	}
	return r.Store.Put(ctx, rec)
}

// A log of one process gets one write per events/subscribe.
func TestSubscribeIsOneWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newTestLog()
		counted := &countingRecords{Store: log.records}
		w := newWorldOn(t, log, newReceiver(t), Options{Records: counted})
		defer w.end()
		synctest.Wait() // whether another process may deliver is known now
		for i, url := range []string{hook, hook + "?b", hook} {
			w.subscribe(params(url, oneSecret))
			synctest.Wait()
			if n := counted.writes.Load(); n != int64(i+1) {
				t.Errorf("%d writes for %d requests", n, i+1)
			}
		}
		w.awaits(w.log.add("file:///a"))
	})
}

// A subscription that is being created counts once, and the error contains the limit.
func TestLimitsWhileSubscribing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{MaxEach: 2, MaxTotal: 3})
	reserve := func(client string, n int) (record, func(), error) {
		url := fmt.Sprint(hook, n)
		next := record{ID: subscriptionID(client, url, "resource.updated", nil), Principal: client, URL: url, Name: "resource.updated", Arguments: []byte("{}"), Secret: oneSecret}
		_, release, err := w.reserve(&mcpserver.Request{}, &next)
		return next, release, err
	}
	made, release, err := reserve("a", 1)
	if err != nil {
		t.Fatal(err)
	}
	made.Expires = time.Now().Add(time.Hour)
	if _, _, _, err := w.create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	_, second, err := reserve("a", 2)
	if err != nil {
		t.Fatalf("the first subscription counts twice: %v", err)
	}
	if _, again, err := reserve("a", 2); err != nil { // the same subscription
		t.Error(err)
	} else {
		again()
	}
	check := func(client string, n int, want string) {
		t.Helper()
		_, _, err := reserve(client, n)
		if _, data := refused(err); data["reason"] != want {
			t.Errorf("%v %v, want %s", err, data, want)
		}
	}
	check("a", 3, "a client may have at most 2 webhook subscriptions")
	_, third, err := reserve("b", 1)
	if err != nil {
		t.Fatal(err)
	}
	check("b", 2, "there may be at most 3 webhook subscriptions in total")
	for _, f := range []func(){release, second, third} {
		f()
	}
	if len(w.creating) != 0 {
		t.Errorf("left: %v", w.creating)
	}
	if _, release, err = reserve("a", 3); err != nil {
		t.Error(err)
	} else {
		release()
	}
}

// A subscription has the same ID in every process, however the arguments are written.
func TestSubscriptionID(t *testing.T) {
	t.Parallel()
	id := func(principal, url, arguments string) string {
		f, canonical, err := mcpevents.ParseFilter("resource.updated", json.RawMessage(arguments))
		if err != nil {
			t.Fatal(err)
		}
		return subscriptionID(principal, url, f.Name(), canonical)
	}
	for _, same := range [][2]string{{`{}`, `null`}, {``, `{}`}, {`{"server":"a","uri":"b"}`, "{ \"uri\":\"b\",\n\"server\":\"\\u0061\"}"}} {
		if id("p", hook, same[0]) != id("p", hook, same[1]) {
			t.Errorf("%q and %q have different IDs", same[0], same[1])
		}
	}
	if got := id("chat", hook, `{}`); got != "sub_fed20efd2269c982" {
		t.Errorf("the ID has changed, which ends all subscriptions of clients: %s", got)
	}
	ids := []string{id("p", hook, `{}`), id("q", hook, `{}`), id("p", hook+"/", `{}`), id("p", hook, `{"server":"a"}`), id("p", hook, `{"server":"b"}`)}
	if slices.Sort(ids); len(slices.Compact(ids)) != 5 {
		t.Error("different subscriptions have the same ID")
	}
}

// Invalid requests are rejected before anything is sent: E1, E3, E7, E9.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	for _, c := range []struct {
		identity, params string
		code             int
		data             map[string]any
	}{
		{"", params(hook, oneSecret), -32012, nil},
		{"chat", `{"name":"resource.updated"}`, -32602, nil},
		{"chat", `{"name":"resource.updated","delivery":{"secret":"x"}}`, -32602, nil},
		{"chat", `{"name":"no.such","delivery":{"url":"` + hook + `"}}`, -32011, map[string]any{"kind": "event"}},
		{"chat", strings.Replace(params(hook, oneSecret), "webhook", "pigeon", 1), -32014, map[string]any{"feature": "deliveryMode", "value": "pigeon"}},
		{"chat", params("http://hooks.example/h", oneSecret), -32602, nil},
		{"chat", params(hook, "whsec_short"), -32602, nil},
		{"chat", `{"name":"resource.updated","delivery":{"url":"` + hook + `"}}`, -32602, nil},
		{"chat", params(hook, oneSecret, `,"ttlMs":"long"`), -32602, nil},
	} {
		_, err := w.ask(mcp.MethodSubscribeEvents, c.identity, c.params)
		code, data := refused(err)
		if code != c.code {
			t.Errorf("%s: %v, want %d", c.params, err, c.code)
		}
		for name, want := range c.data {
			if fmt.Sprint(data[name]) != want {
				t.Errorf("%s: %v", c.params, data)
			}
		}
	}
	if got := w.to.all(""); len(got) > 0 {
		t.Errorf("sent: %+v", got)
	}
	_, err := w.ask(mcp.MethodUnsubscribeEvents, "", params(hook, oneSecret))
	if code, _ := refused(err); code != -32012 {
		t.Error(err)
	}
}

// E6: failing challenges, and their rate limit. E5: nothing of the response leaks.
func TestChallengeFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		defer w.end()
		w.to.answer = func(string) string { return `{"challenge":"secret guess"}` }
		_, err := w.ask(mcp.MethodSubscribeEvents, "chat", params(hook, oneSecret))
		if code, data := refused(err); code != -32015 || data["reason"] != ChallengeFailed {
			t.Errorf("%v %v", err, data)
		}
		_, err = w.ask(mcp.MethodSubscribeEvents, "chat", params(hook, oneSecret))
		if code, _ := refused(err); code != -32013 {
			t.Errorf("an immediate second challenge: %v", err)
		}
		time.Sleep(challengeWait)
		for i := range 40 {
			_, err = w.ask(mcp.MethodSubscribeEvents, "chat", params(fmt.Sprint("https://hooks.example/else/", i), oneSecret))
		}
		if code, _ := refused(err); code != -32013 || len(w.to.all("verification")) > hostPerMinute {
			t.Errorf("%d challenges of one host in a minute, %v", len(w.to.all("verification")), err)
		}
		for _, leak := range []string{"guess", oneSecret, "/else/7"} {
			if strings.Contains(w.logs.String(), leak) {
				t.Errorf("the log has %q", leak)
			}
		}
	})
}

// E9: the limits per client and in total apply before anything is sent.
func TestSubscriptionLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{MaxEach: 2, MaxTotal: 3, Allow: urls(t, "https://hooks.example/**")})
	url := func(i int) string { return fmt.Sprint(hook, i) }
	w.subscribe(params(url(1), oneSecret))
	w.subscribe(params(url(2), oneSecret))
	w.subscribe(params(url(2), oneSecret)) // a refresh is always possible
	_, err := w.ask(mcp.MethodSubscribeEvents, "chat", params(url(3), oneSecret))
	if code, data := refused(err); code != -32013 || data["max"] != 2 {
		t.Errorf("%v %v", err, data)
	}
	if _, err := w.ask(mcp.MethodSubscribeEvents, "other", params(url(3), oneSecret)); err != nil {
		t.Error(err)
	}
	_, err = w.ask(mcp.MethodSubscribeEvents, "third", params(url(4), oneSecret))
	if code, data := refused(err); code != -32013 || data["max"] != 3 {
		t.Errorf("%v %v", err, data)
	}
	if n := len(w.to.all("verification")); n != 0 {
		t.Errorf("%d challenges of allowed URLs", n)
	}
}

// Every numeric ttlMs is accepted, and clamped to the minimum and maximum.
func TestTTL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ttl  string
		want time.Duration
	}{
		{``, 24 * time.Hour}, {`null`, 24 * time.Hour}, {`0`, time.Minute}, {`-5`, time.Minute},
		{`90000`, 90 * time.Second}, {`1e300`, 24 * time.Hour}, {`1e999`, 24 * time.Hour}, {`-1e999`, time.Minute}, {`3600000.4`, time.Hour},
	} {
		if got, err := lifetime(json.RawMessage(c.ttl)); err != nil || got != c.want {
			t.Errorf("%q: %v, %v", c.ttl, got, err)
		}
	}
	for _, raw := range []string{`"5"`, `"x"`, `true`, `{}`, `[1]`} {
		if got, err := lifetime(json.RawMessage(raw)); err == nil {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// E1: the subscriptions of a client whose token was revoked end, and the endpoint gets a message.
func TestRevokedToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{})
	sub := w.subscribe(params(hook, oneSecret))
	w.end()
	again := newWorldOn(t, w.log, w.to, Options{Holds: func(name string) bool { return name != "chat" }})
	again.log.add("file:///a")
	again.until("the message that it has ended", func() bool { return len(again.to.all("terminated")) == 1 && again.Stats().Active == 0 })
	failure, _ := again.to.all("terminated")[0].body["error"].(map[string]any)
	if failure["code"] != -32012.0 || failure["message"] != "Forbidden" {
		t.Errorf("%v", failure)
	}
	if len(again.to.ids()) != 0 {
		t.Error("an event was sent to a client without a token")
	}
	if data := w.log.record(t, subscriptionPrefix+sub.ID); data != nil {
		t.Errorf("it is still stored: %s", data)
	}
}

// E2: an event that is hidden after it was found is not sent.
func TestScopeBeforeEachAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shown := true
		w := newWorld(t, Options{Scope: mcpevents.Scope{Item: func(_ string, _ catalog.Kind, key, _ string) (string, bool) { return key, shown }}})
		defer w.end()
		w.subscribe(params(hook, oneSecret))
		w.to.set(func(received) int { shown = false; return 500 })
		w.log.add("file:///a")
		time.Sleep(20 * time.Minute)
		if n := len(w.to.ids()); n != 1 {
			t.Errorf("%d attempts", n)
		}
		if lag := w.Stats().Lag; lag != 0 {
			t.Errorf("it is still pending, for %v", lag)
		}
	})
}

// E2: an event that is hidden while its delivery waits for a slot is not sent.
func TestScopeAfterTheWaitForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hidden atomic.Bool
		w := newWorld(t, Options{Scope: mcpevents.Scope{Item: func(_ string, _ catalog.Kind, key, _ string) (string, bool) { return key, !hidden.Load() }}})
		defer w.end()
		w.subscribe(params(hook, oneSecret))
		var release []func()
		for range promptPerHost {
			f, err := w.opts.Sender.acquire(t.Context(), "hooks.example", new(responder))
			if err != nil {
				t.Fatal(err)
			}
			release = append(release, f)
		}
		w.log.add("file:///a")
		time.Sleep(lateAfter / 2) // it waits
		hidden.Store(true)
		for _, f := range release {
			f()
		}
		time.Sleep(time.Hour)
		if ids := w.to.ids(); len(ids) != 0 || w.Stats().Lag != 0 {
			t.Errorf("sent %v; lag %v", ids, w.Stats().Lag)
		}
	})
}

// E2: a changed list is not retried once one of its items is hidden. A gap message replaces it.
func TestScopeOfAListBeforeEachAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hidden atomic.Bool
		w := newWorld(t, Options{Scope: mcpevents.Scope{Item: func(_ string, _ catalog.Kind, key, _ string) (string, bool) {
			return key, key != "secret" || !hidden.Load()
		}}})
		defer w.end()
		w.subscribe(strings.Replace(params(hook, oneSecret), mcpevents.ResourceUpdated, mcpevents.ListChanged, 1))
		w.to.set(func(r received) int {
			if hidden.Store(true); r.kind() == "event" {
				return 500
			}
			return 204
		})
		w.log.store(event.Event{ServerID: "docs", Timestamp: time.Now(), Payload: event.ListChanged{List: catalog.Tools, Added: []string{"open", "secret"}}})
		time.Sleep(time.Hour)
		if n, gaps := len(w.to.ids()), len(w.to.all("gap")); n != 1 || gaps != 1 {
			t.Errorf("%d attempts and %d gap messages", n, gaps)
		}
	})
}

// E6: at most 30 challenges per host and minute, for all spellings and ports, and a limited number of
// remembered hosts.
func TestChallengesOfAHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := challenges{recent: map[string][]time.Time{}}
		admitted := 0
		for i := range 3 * hostPerMinute {
			host := []string{"hooks.example", "HOOKS.example", "hooks.example."}[i%3]
			if reason, limit := c.admit("chat", fmt.Sprintf("https://%s:%d/", host, 1024+i)); reason == "" {
				admitted++
			} else if reason != "endpoints at a host are verified at most 30 times a minute" || limit != 30 {
				t.Errorf("the reason is %s", reason)
			}
		}
		if admitted != hostPerMinute {
			t.Errorf("%d challenges of one host", admitted)
		}
		for range 3 {
			time.Sleep(challengeWait)
			for i := range maxRemembered {
				c.admit("chat", fmt.Sprintf("https://%d-%d.example/", i, time.Now().Unix()))
			}
		}
		if len(c.recent) > maxRemembered {
			t.Errorf("%d URLs and hosts are remembered", len(c.recent))
		}
		time.Sleep(time.Minute)
		if reason, _ := c.admit("chat", "https://new.example/"); reason != "" {
			t.Errorf("a new host is refused: %s", reason)
		}
	})
}
