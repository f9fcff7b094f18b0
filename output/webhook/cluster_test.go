package webhook

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/records"
)

func openLog(t *testing.T, url string) *natslog.Log {
	t.Helper()
	l, err := natslog.Open(t.Context(), natslog.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// eventually polls a condition in real time, as the cluster is a real NATS server.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// A process saves no positions after another process has saved, so it moves no watermark back without
// having read the newer one.
func TestRealPositionsOfAnotherProcessAreKept(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	var all []*Webhooks
	for range 2 {
		shared := openLog(t, url)
		h := NewWebhooks(WebhookOptions{Log: shared, Records: recordsOf(shared)})
		h.Apply([]config.Webhook{standard(hook)})
		all = append(all, h)
	}
	save := func(h *Webhooks, cursor string) error {
		h.locked(func() { h.endpoints[0].Cursor, h.changed = cursor, true })
		return h.save(t.Context())
	}
	if err := errors.Join(save(all[0], "a-1"), save(all[0], "a-2")); err != nil {
		t.Fatal(err)
	}
	if err := save(all[1], "a-1"); !errors.Is(err, errSuperseded) {
		t.Errorf("a late save: %v", err)
	}
	if p := positions(t, recordsOf(openLog(t, url)), FromConfig); len(p) != 1 || p[0].Cursor != "a-2" {
		t.Errorf("%+v", p)
	}
}

// webhooksOn runs the webhooks of a process on a cluster.
func webhooksOn(t *testing.T, shared *natslog.Log, log *testLog, to *receiver, all ...config.Webhook) (h *Webhooks, end func()) {
	t.Helper()
	to.fixed = true
	sender := NewSender(nil)
	sender.client.Transport, sender.open.Transport = to, to
	h = NewWebhooks(WebhookOptions{Log: shared, Records: recordsOf(shared), Reader: mcpevents.NewReader(log, mcpevents.Scope{}), Sender: sender, Follow: true})
	h.Apply(all)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = h.Run(ctx) })
	end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(end)
	return h, end
}

// On a cluster one process delivers the webhooks of the config. When it ends or is superseded,
// another process continues at its position.
func TestRealHooksOnACluster(t *testing.T) {
	t.Parallel()
	url, log, to := journaltest.Store(t), newTestLog(), newReceiver(t)
	var all []*Webhooks
	var ends []func()
	for range 2 {
		h, end := webhooksOn(t, openLog(t, url), log, to, standard(hook))
		all, ends = append(all, h), append(ends, end)
	}
	other, endOther := webhooksOn(t, openLog(t, url), log, to) // it has no webhooks, so it does not deliver
	defer endOther()
	holder := func() int {
		return slices.IndexFunc(all, func(h *Webhooks) bool { return len(h.Endpoints()) > 0 && h.Deliverers()[0].Own })
	}
	eventually(t, "one delivers", func() bool { return holder() >= 0 })
	first := holder()
	at := func(h *Webhooks) string {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.ctx == nil {
			return ""
		}
		return h.endpoints[0].Cursor
	}
	eventually(t, "it begins", func() bool { return at(all[first]) != "" })
	var want []string
	for range 20 {
		want = append(want, log.add("file:///a"))
	}
	eventually(t, "all", func() bool { return at(all[first]) == want[19] })
	eventually(t, "the other process reports who delivers", func() bool {
		d := all[1-first].Deliverers()[0]
		return !d.Own && d.Process != "" && d.Source == FromConfig && len(all[1-first].Endpoints()) == 0
	})
	// Another process saves the checkpoint, as if the first one was stopped for longer than its
	// lease. The first one ends, and one of the two begins again.
	store := recordsOf(openLog(t, url))
	replace(t, store, checkpointKey(FromConfig), must(encodeCheckpoint(FromConfig, positions(t, store, FromConfig))))
	want = append(want, log.add("file:///a"))
	eventually(t, "one more", func() bool { return slices.Contains(to.ids(), want[20]) })
	eventually(t, "one delivers again, and has stored its position", func() bool {
		p := positions(t, store, FromConfig)
		return holder() >= 0 && len(p) == 1 && p[0].Cursor == want[20]
	})
	first = holder()
	ends[first]()
	for range 20 {
		want = append(want, log.add("file:///a"))
	}
	eventually(t, "the next one delivers", func() bool { return at(all[1-first]) == want[40] })
	ids := to.ids()
	for _, id := range want {
		if !slices.Contains(ids, id) {
			t.Errorf("%s was not delivered", id)
		}
	}
	if gaps := to.all("gap"); len(gaps) > 0 {
		t.Errorf("%d gaps", len(gaps))
	}
	if d := other.Deliverers()[0]; d.Own {
		t.Errorf("a process without webhooks delivers: %+v", d)
	}
}

// A process that takes over delivers to the webhooks of its current config, including those added
// while it waited.
func TestRealTakeOverAfterTheConfigChanged(t *testing.T) {
	t.Parallel()
	url, log, to := journaltest.Store(t), newTestLog(), newReceiver(t)
	one, two := standard(hook), standard(hook+"?two")
	one.URIs, two.URIs = []string{"file:///one"}, []string{"file:///two"}
	first, end := webhooksOn(t, openLog(t, url), log, to, one)
	begun := func(n int) func() bool {
		return func() bool {
			first.mu.Lock()
			defer first.mu.Unlock()
			return len(first.endpoints) == n && !slices.ContainsFunc(first.endpoints, func(e *endpoint) bool { return e.Cursor == "" })
		}
	}
	eventually(t, "it begins", begun(1))
	second, _ := webhooksOn(t, openLog(t, url), log, to, one)
	first.Apply([]config.Webhook{one, two})
	second.Apply([]config.Webhook{one, two})
	eventually(t, "the new one begins", begun(2))
	to.set(func(received) int { return 503 })
	id := log.add("file:///two")
	eventually(t, "an attempt", func() bool { return slices.Contains(to.ids(), id) })
	end()
	to.set(nil)
	tried := len(to.ids())
	eventually(t, "the next one delivers it", func() bool { return slices.Contains(to.ids()[tried:], id) })
}

// A process whose webhooks were removed while it waited for the lease keeps the stored watermarks.
func TestRealLeaseWithoutWebhooksKeepsWatermarks(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	shared := openLog(t, url)
	store := recordsOf(shared)
	replace(t, store, checkpointKey(FromConfig), must(encodeCheckpoint(FromConfig, []progress{{Key: "k", Cursor: "a-7"}})))
	h := NewWebhooks(WebhookOptions{Log: shared, Records: store, Reader: mcpevents.NewReader(newTestLog(), mcpevents.Scope{}), Sender: NewSender(nil)})
	h.Apply([]config.Webhook{standard(hook)})
	other := openLog(t, url)
	lease, err := other.Lease(t.Context(), h.leaseName(), natslog.LeaseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	led := make(chan error, 1)
	go func() { led <- h.lead(t.Context()) }()
	h.Apply(nil)
	lease.Release()
	if err := <-led; err != errIdle {
		t.Error(err)
	}
	if p := positions(t, store, FromConfig); len(p) != 1 || p[0].Cursor != "a-7" {
		t.Errorf("%+v", p)
	}
}

// keyFile writes a key file. Each key is one repeated byte.
func keyFile(t *testing.T, bytes ...byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys")
	var text strings.Builder
	for _, b := range bytes {
		fmt.Fprintln(&text, base64.StdEncoding.EncodeToString(slices.Repeat([]byte{b}, keyBytes)))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func keys(t *testing.T, bytes ...byte) *Keys {
	t.Helper()
	k, err := ReadKeys(keyFile(t, bytes...))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// node is the world of one process on a cluster.
func node(t *testing.T, url string, log *testLog, to *receiver, opts Options) *world {
	t.Helper()
	opts.Log, opts.Keys = openLog(t, url), keys(t, 1)
	return newWorldOn(t, log, to, opts)
}

// with calls f with the subscription that has this ID; false if the process knows none.
func (w *world) with(id string, f func(*endpoint) bool) bool {
	w.Subscriptions.mu.Lock()
	defer w.Subscriptions.mu.Unlock()
	e := w.byID[id]
	return e != nil && f(e)
}

func (w *world) delivers() bool {
	w.Subscriptions.mu.Lock()
	defer w.Subscriptions.mu.Unlock()
	return w.Subscriptions.ctx != nil
}

// E7: on a cluster subscriptions are encrypted completely, and can be opened only under their own
// ID. The error for a missing key says what to do; an old key still decrypts.
func TestKeys(t *testing.T) {
	t.Parallel()
	r := record{ID: "sub_1", Principal: "chat", URL: hook, Name: "resource.updated", Arguments: json.RawMessage(`{}`), Secret: oneSecret, Cursor: "a-1"}
	data, err := keys(t, 1).seal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"whsec", "hooks.example", "chat", base64.StdEncoding.EncodeToString([]byte("hooks.ex"))[:8]} {
		if strings.Contains(string(data), part) {
			t.Errorf("%q is readable: %s", part, data)
		}
	}
	for _, k := range []*Keys{keys(t, 1), keys(t, 2, 1)} {
		got, err := k.open("sub_1", data)
		if err != nil || got.Secret != oneSecret || got.Cursor != "a-1" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := keys(t, 1).open("sub_2", data); !errors.Is(err, errDamaged) {
		t.Errorf("opened under another ID: %v", err)
	}
	var s sealed
	_ = json.Unmarshal(data, &s)
	s.Data[len(s.Data)-1] ^= 1
	changed, _ := json.Marshal(s)
	if _, err := keys(t, 1).open("sub_1", changed); !errors.Is(err, errDamaged) {
		t.Errorf("opened although it was changed: %v", err)
	}
	if _, err := keys(t, 2).open("sub_1", data); err == nil || !strings.Contains(err.Error(), s.Key) || !strings.Contains(err.Error(), "--events-key-file") {
		t.Errorf("with another key: %v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v", keys(t, 1), keys(t, 1), keys(t, 1)); strings.Trim(text, "[redact] ") != "" {
		t.Errorf("keys are printed: %s", text)
	}
	for _, text := range []string{"", "short", "AAAA\n", base64.StdEncoding.EncodeToString(make([]byte, 32)) + " more\n"} {
		path := keyFile(t)
		_ = os.WriteFile(path, []byte(text), 0o600)
		if _, err := ReadKeys(path); err == nil || text != "" && strings.Contains(err.Error(), strings.TrimSpace(text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	path := keyFile(t, 1)
	_ = os.Chmod(path, 0o644)
	if _, err := ReadKeys(path); err == nil {
		t.Error("a key file that others can read was accepted")
	}
}

// Every process answers clients, and one delivers, including subscriptions that other processes
// created, refreshed or removed. When it ends, the next process continues at its position. A
// subscription cannot be read on the cluster.
func TestRealSubscriptionsOnACluster(t *testing.T) {
	t.Parallel()
	url, log, to := journaltest.Store(t), newTestLog(), newReceiver(t)
	opts := Options{Allow: urls(t, "https://hooks.example/**")}
	nodes := []*world{node(t, url, log, to, opts), node(t, url, log, to, opts)}
	eventually(t, "one delivers", func() bool { return nodes[0].delivers() || nodes[1].delivers() })
	holder, other := nodes[0], nodes[1]
	if other.delivers() {
		holder, other = other, holder
	}
	sub := other.subscribe(params(hook, oneSecret))
	var want []string
	deliver := func(n int) {
		t.Helper()
		for range n {
			want = append(want, log.add("file:///a"))
		}
		eventually(t, "they are delivered", func() bool { // several are sent at a time, so not in order
			got := to.ids()
			return !slices.ContainsFunc(want, func(id string) bool { return !slices.Contains(got, id) })
		})
	}
	deliver(20)
	eventually(t, "the other process names the one that delivers", func() bool {
		d := other.Deliverers()[0]
		return !d.Own && d.Process != "" && d.Waiting == "" && d.Source == FromSubscription
	})
	eventually(t, "the other process knows the position", func() bool {
		return other.with(sub.ID, func(sub *endpoint) bool { return sub.Cursor == want[19] && !sub.Status.LastDelivery.IsZero() })
	})
	again := other.subscribe(params(hook, newSecret))
	if again.ID != sub.ID || again.Cursor != want[19] || again.DeliveryStatus == nil || !again.DeliveryStatus.Active {
		t.Errorf("the refresh says %+v", again)
	}
	eventually(t, "the refresh arrived", func() bool {
		return holder.with(sub.ID, func(sub *endpoint) bool { return sub.sub.Refreshes == 1 })
	})
	deliver(1)
	if all := to.all("event"); all[len(all)-1].signatures != 2 {
		t.Errorf("it is signed by %d secrets after a rotation", all[len(all)-1].signatures)
	}
	raw := recordsOf(openLog(t, url))
	rec, err := raw.Get(t.Context(), subscriptionPrefix+sub.ID)
	if err != nil || rec.Value == nil || strings.Contains(string(rec.Value), "whsec") || strings.Contains(string(rec.Value), "example") {
		t.Errorf("%v %s", err, rec.Value)
	}
	holder.end()
	deliver(20)
	if !other.delivers() {
		t.Error("nobody delivers")
	}
	counts := map[string]int{}
	for _, r := range to.all("") {
		counts[r.kind()]++
	}
	if counts["gap"] != 0 || counts["event"] < 41 {
		t.Errorf("%v", counts)
	}
	third := node(t, url, log, to, opts)
	eventually(t, "a new process knows it", func() bool {
		return third.with(sub.ID, func(sub *endpoint) bool { return sub.Cursor == want[40] })
	})
	if _, err := third.ask(mcp.MethodUnsubscribeEvents, "chat", params(hook, newSecret)); err != nil {
		t.Error(err)
	}
	if _, err := third.ask(mcp.MethodUnsubscribeEvents, "chat", params(hook, newSecret)); err == nil {
		t.Error("it is removed twice")
	}
	eventually(t, "it ends", func() bool { return !other.with(sub.ID, func(*endpoint) bool { return true }) })
	if _, err := New(t.Context(), Options{Log: openLog(t, url), Records: recordsOf(openLog(t, url)), Keys: keys(t, 2)}); err != nil {
		t.Errorf("with another key, and nothing stored: %v", err)
	}
	other.subscribe(params(hook, oneSecret))
	if _, err := New(t.Context(), Options{Log: openLog(t, url), Records: recordsOf(openLog(t, url)), Keys: keys(t, 2)}); err == nil || !strings.Contains(err.Error(), "--events-key-file") {
		t.Errorf("with another key: %v", err)
	}
}

// A process whose checkpoint another one saved resumes from the stored position. A process that
// cannot read a subscription leaves the deliveries to others, and reports why.
func TestRealOnlyAProcessThatCanReadAllDelivers(t *testing.T) {
	t.Parallel()
	url, log, to := journaltest.Store(t), newTestLog(), newReceiver(t)
	w := node(t, url, log, to, Options{Allow: urls(t, "https://hooks.example/**")})
	sub := w.subscribe(params(hook, oneSecret))
	first := log.add("file:///a")
	eventually(t, "it is delivered", func() bool {
		return w.with(sub.ID, func(sub *endpoint) bool { return sub.Cursor == first })
	})
	store := recordsOf(openLog(t, url))
	replace(t, store, checkpointKey(FromSubscription), must(encodeCheckpoint(FromSubscription, positions(t, store, FromSubscription))))
	// It ends and takes over again, as no other process wants the lease.
	second := log.add("file:///b")
	eventually(t, "it resumes", func() bool {
		p := positions(t, store, FromSubscription)
		return len(p) == 1 && p[0].Cursor == second
	})
	// A subscription that only another key opens.
	data, err := keys(t, 2).seal(record{ID: "sub_2"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(t.Context(), records.Record{Key: subscriptionPrefix + "sub_2", Value: data}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it leaves the deliveries to others", func() bool {
		return !w.delivers() && strings.Contains(w.Deliverers()[0].Waiting, "--events-key-file")
	})
	rec, err := store.Get(t.Context(), subscriptionPrefix+"sub_2")
	if err != nil || store.Remove(t.Context(), rec) != nil {
		t.Fatal(err)
	}
	eventually(t, "it delivers again", func() bool { return w.delivers() && w.Deliverers()[0].Waiting == "" })
}

// A process that gets the lease but can no longer read all subscriptions keeps the stored
// watermarks.
func TestRealLeaseWithoutTheKeyKeepsWatermarks(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	s, err := New(t.Context(), Options{Log: openLog(t, url), Records: recordsOf(openLog(t, url)), Keys: keys(t, 1), Reader: mcpevents.NewReader(newTestLog(), mcpevents.Scope{}), Sender: NewSender(local())})
	if err != nil {
		t.Fatal(err)
	}
	store := recordsOf(openLog(t, url))
	data, err := keys(t, 2).seal(record{ID: "sub_2", Life: "a"})
	if err != nil {
		t.Fatal(err)
	}
	replace(t, store, subscriptionPrefix+"sub_2", data)
	replace(t, store, checkpointKey(FromSubscription), must(encodeCheckpoint(FromSubscription, []progress{{ID: "sub_2", Life: "a", Cursor: "a-7"}})))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { s.records.Follow(ctx, s.applyChanges) })
	if _, ok := errors.AsType[*otherKeyError](s.lead(ctx)); !ok {
		t.Error("it delivers")
	}
	if p := positions(t, store, FromSubscription); len(p) != 1 || p[0].Cursor != "a-7" {
		t.Errorf("%+v", p)
	}
}
