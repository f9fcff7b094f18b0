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

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
)

// keyFile writes a file of keys, each of one repeated byte.
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

// with calls f with the subscription of an id that a process knows, and reports false
// without one.
func (w *world) with(id string, f func(*subscription) bool) bool {
	w.Subscriptions.mu.Lock()
	defer w.Subscriptions.mu.Unlock()
	sub := w.byID[id]
	return sub != nil && f(sub)
}

func (w *world) delivers() bool {
	w.Subscriptions.mu.Lock()
	defer w.Subscriptions.mu.Unlock()
	return w.Subscriptions.ctx != nil
}

// E7: on a cluster subscriptions are stored encrypted as a whole, and opened under their id
// only. A key that is missing is named with what to do; one that is replaced still opens.
func TestKeys(t *testing.T) {
	t.Parallel()
	r := record{ID: "sub_1", Principal: "chat", URL: hook, Name: "resource.updated", Arguments: json.RawMessage(`{}`), Secret: oneSecret, progress: progress{Cursor: "a-1", Missed: 3}}
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
		if err != nil || got.Secret != oneSecret || got.Cursor != "a-1" || got.Missed != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := keys(t, 1).open("sub_2", data); !errors.Is(err, errDamaged) {
		t.Errorf("it was opened under another id: %v", err)
	}
	var s sealed
	_ = json.Unmarshal(data, &s)
	s.Data[len(s.Data)-1] ^= 1
	changed, _ := json.Marshal(s)
	if _, err := keys(t, 1).open("sub_1", changed); !errors.Is(err, errDamaged) {
		t.Errorf("it was opened although it was changed: %v", err)
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
		t.Error("a key that others can read was read")
	}
}

// Any process answers, and one delivers: what one makes, refreshes or removes the one that
// delivers does. When that one ends, the next goes on where it was. Nothing of a
// subscription can be read on the cluster.
func TestSubscriptionsOnACluster(t *testing.T) {
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
	eventually(t, "the other process says who delivers", func() bool {
		d := other.Deliveries()[0]
		return !d.Own && d.Process != "" && d.Waiting == "" && d.Source == FromSubscription
	})
	eventually(t, "the other process knows how far it is", func() bool {
		return other.with(sub.ID, func(sub *subscription) bool { return sub.Cursor == want[19] && !sub.Status.LastDelivery.IsZero() })
	})
	again := other.subscribe(params(hook, newSecret))
	if again.ID != sub.ID || again.Cursor != want[19] || again.DeliveryStatus == nil || !again.DeliveryStatus.Active {
		t.Errorf("the refresh says %+v", again)
	}
	eventually(t, "the refresh arrived", func() bool {
		return holder.with(sub.ID, func(sub *subscription) bool { return sub.Refreshes == 1 })
	})
	deliver(1)
	if all := to.all("event"); all[len(all)-1].signatures != 2 {
		t.Errorf("it is signed by %d secrets after a rotation", all[len(all)-1].signatures)
	}
	raw := openLog(t, url).Records(recordsName)
	rec, err := raw.Get(t.Context(), keyOfSubscription+sub.ID)
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
		return third.with(sub.ID, func(sub *subscription) bool { return sub.answered && sub.Cursor == want[40] })
	})
	if _, err := third.ask(mcp.MethodUnsubscribeEvents, "chat", params(hook, newSecret)); err != nil {
		t.Error(err)
	}
	if _, err := third.ask(mcp.MethodUnsubscribeEvents, "chat", params(hook, newSecret)); err == nil {
		t.Error("it is removed twice")
	}
	eventually(t, "it ends", func() bool { return !other.with(sub.ID, func(*subscription) bool { return true }) })
	if _, err := New(t.Context(), Options{Log: openLog(t, url), Keys: keys(t, 2)}); err != nil {
		t.Errorf("with another key, and nothing stored: %v", err)
	}
	other.subscribe(params(hook, oneSecret))
	if _, err := New(t.Context(), Options{Log: openLog(t, url), Keys: keys(t, 2)}); err == nil || !strings.Contains(err.Error(), "--events-key-file") {
		t.Errorf("with another key: %v", err)
	}
}

// Limits hold for all processes together, also if they are asked at the same time.
func TestLimitsOnACluster(t *testing.T) {
	t.Parallel()
	url, log, to := journaltest.Store(t), newTestLog(), newReceiver(t)
	opts := Options{Allow: urls(t, "https://hooks.example/**"), MaxEach: 5, MaxTotal: 100}
	nodes := []*world{node(t, url, log, to, opts), node(t, url, log, to, opts)}
	var asking sync.WaitGroup
	var mu sync.Mutex
	made, refused := 0, 0
	for i := range 16 {
		asking.Go(func() {
			_, err := nodes[i%2].ask(mcp.MethodSubscribeEvents, "chat", params(fmt.Sprint(hook, i), oneSecret))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				made++
			case strings.Contains(err.Error(), string(mcpevents.ResourceExhausted)):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	asking.Wait()
	if made != 5 || refused != 11 {
		t.Errorf("%d were made and %d refused", made, refused)
	}
}

// A process whose watermarks another one took goes on from what that one had; and one that
// cannot read a subscription leaves the deliveries to others, and says why.
func TestOnlyWhoKnowsAllDelivers(t *testing.T) {
	t.Parallel()
	url, log, to := journaltest.Store(t), newTestLog(), newReceiver(t)
	w := node(t, url, log, to, Options{Allow: urls(t, "https://hooks.example/**")})
	sub := w.subscribe(params(hook, oneSecret))
	first := log.add("file:///a")
	eventually(t, "it is delivered", func() bool {
		return w.with(sub.ID, func(sub *subscription) bool { return sub.Cursor == first })
	})
	next := newPage(openLog(t, url).Records(recordsName), pageOfSubscriptions)
	if _, _, err := next.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It ends then, and takes over again, as it is the only one that wants the lease.
	second := log.add("file:///b")
	eventually(t, "it goes on", func() bool {
		s, _, err := next.read(t.Context())
		return err == nil && len(s.Advances) == 1 && s.Advances[0].Cursor == second
	})
	// A subscription that only another key opens.
	data, err := keys(t, 2).seal(record{ID: "sub_2"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next.records.Put(t.Context(), journal.Record{Key: keyOfSubscription + "sub_2", Value: data}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it leaves the deliveries to others", func() bool {
		return !w.delivers() && strings.Contains(w.Deliveries()[0].Waiting, "--events-key-file")
	})
	rec, err := next.records.Get(t.Context(), keyOfSubscription+"sub_2")
	if err != nil || next.records.Remove(t.Context(), rec) != nil {
		t.Fatal(err)
	}
	eventually(t, "it delivers again", func() bool { return w.delivers() && w.Deliveries()[0].Waiting == "" })
}

// A process that does not know of all subscriptions makes none: it cannot know the limits.
func TestNoneIsMadeByWhoIsLate(t *testing.T) {
	t.Parallel()
	late, err := New(t.Context(), Options{Log: openLog(t, journaltest.Store(t)), Keys: keys(t, 1), MaxEach: 1})
	if err != nil {
		t.Fatal(err)
	} // and it follows nothing from here on, as it does not run
	made := record{ID: "sub_1", Principal: "chat", URL: hook, Name: "resource.updated", Arguments: json.RawMessage(`{}`), Secret: oneSecret}
	if _, _, err := late.keep(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if _, err := late.records.Put(t.Context(), journal.Record{Key: keyOfSubscription + "sub_2", Value: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	late.opts.MaxEach = 100
	made.ID = "sub_3"
	if _, _, err := late.keep(ctx, made); err == nil {
		t.Error("it was made")
	}
	if rec, err := late.records.Get(t.Context(), keyOfSubscription+"sub_3"); err != nil || rec.Value != nil {
		t.Errorf("%s, %v", rec.Value, err)
	}
}

// A process that gets the lease when it cannot read all subscriptions any more leaves their
// watermarks as they are.
func TestLeaseWithoutTheKeyKeepsWatermarks(t *testing.T) {
	t.Parallel()
	url := journaltest.Store(t)
	s, err := New(t.Context(), Options{Log: openLog(t, url), Keys: keys(t, 1), Reader: mcpevents.NewReader(newTestLog(), mcpevents.Scope{}), Sender: NewSender(local())})
	if err != nil {
		t.Fatal(err)
	}
	other := newPage(openLog(t, url).Records(recordsName), pageOfSubscriptions)
	data, err := keys(t, 2).seal(record{ID: "sub_2", Life: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.records.Put(t.Context(), journal.Record{Key: keyOfSubscription + "sub_2", Value: data}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	far := advance{ID: "sub_2", Life: "a", progress: progress{Cursor: "a-7"}}
	if err := other.save(t.Context(), func() stored { return stored{Advances: []advance{far}} }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	following.Go(func() { s.records.Follow(ctx, s.takeOver) })
	if err := s.turn(ctx, nil); err != nil {
		t.Fatal(err)
	}
	now, _, err := other.read(t.Context())
	if err != nil || len(now.Advances) != 1 || now.Advances[0].Cursor != far.Cursor {
		t.Errorf("%+v, %v", now, err)
	}
}
