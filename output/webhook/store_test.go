package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/records"
)

// When the client has the answer, its subscription or the removal is stored, in a file that only its
// owner can read (E7).
func TestSubscriptionIsDurable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := sqlitelog.Open(t.Context(), sqlitelog.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	deliveries := must(OpenRecords(file))
	w := newWorld(t, Options{Log: file, Records: deliveries})
	sub := w.subscribe(params(hook, oneSecret))
	stored := func() []byte {
		rec, err := deliveries.Get(t.Context(), subscriptionPrefix+sub.ID)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Value
	}
	if stored() == nil {
		t.Error("the subscription is not stored")
	}
	w.end()
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if file, err = sqlitelog.Open(t.Context(), sqlitelog.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	deliveries = must(OpenRecords(file))
	again := newWorldOn(t, w.log, w.to, Options{Log: file, Records: deliveries})
	t.Cleanup(again.end)
	id := w.log.add("file:///a")
	again.awaits(id)
	if refreshed := again.subscribe(params(hook, oneSecret)); refreshed.ID != sub.ID || refreshed.DeliveryStatus == nil {
		t.Errorf("%+v", refreshed)
	}
	if _, err := again.ask(mcp.MethodUnsubscribeEvents, "chat", params(hook, oneSecret)); err != nil || stored() != nil {
		t.Errorf("%v, %s", err, stored())
	}
}

// A stored record that is damaged or of a newer version is reported once, with a remedy and without
// a secret. The process continues, and delivers when the record is repaired. A damaged subscription
// does not affect the others.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{"damaged": `{"secret":"` + oneSecret, "newer": `{"version":2,"secret":"` + oneSecret + `"}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log, to := newTestLog(), newReceiver(t)
				w := newWorldOn(t, log, to, Options{})
				good := w.subscribe(params(hook, oneSecret))
				lost := w.subscribe(params(hook+"?q", oneSecret))
				time.Sleep(2 * time.Second)
				w.end()
				missed := log.add("file:///a")
				page := log.record(t, checkpointKey(FromSubscription))
				log.put(t, subscriptionPrefix+lost.ID, []byte(bad))
				log.put(t, checkpointKey(FromSubscription), []byte(bad))
				again := newWorldOn(t, log, to, Options{})
				time.Sleep(time.Minute)
				if len(to.ids()) > 0 {
					t.Error("it delivers without watermarks")
				}
				logs := again.logs.String()
				if strings.Count(logs, "cannot deliver webhooks") != 1 || !strings.Contains(logs, "record subscriptions:") ||
					strings.Count(logs, "subscription is ignored") != 1 || !strings.Contains(logs, lost.ID) || strings.Contains(logs, "whsec") {
					t.Error(logs)
				}
				log.put(t, checkpointKey(FromSubscription), page)
				time.Sleep(time.Minute)
				if got := to.all("event"); len(got) != 1 || got[0].id != missed || got[0].subscription != good.ID {
					t.Errorf("%+v", got)
				}
				if made := again.subscribe(params(hook+"?q", oneSecret)); made.ID != lost.ID || made.DeliveryStatus != nil {
					t.Errorf("%+v", made)
				}
				again.end()
				if logs := again.logs.String(); strings.Count(logs, "subscription is ignored") != 1 {
					t.Error(logs)
				}
			})
		})
	}
}

// A damaged checkpoint of the config does not stop the process.
func TestDamagedConfigCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		log.put(t, checkpointKey(FromConfig), []byte("{"))
		w := newWebhooksWorld(t, log, to, standard(hook))
		time.Sleep(time.Minute)
		if logs := w.logs.String(); strings.Count(logs, "record config") != 1 {
			t.Error(logs)
		}
		log.put(t, checkpointKey(FromConfig), nil)
		time.Sleep(time.Minute)
		id := log.add("file:///a")
		time.Sleep(time.Second)
		w.end()
		if got := to.ids(); !slices.Equal(got, []string{id}) {
			t.Errorf("%v", got)
		}
	})
}

// fullRecords is a store whose disk can be full.
type fullRecords struct {
	records.Store
	full     atomic.Bool
	attempts atomic.Int32
}

func (r *fullRecords) Put(ctx context.Context, rec records.Record) (uint64, error) {
	r.attempts.Add(1)
	if r.full.Load() {
		return 0, errors.New("disk full")
	}
	return r.Store.Put(ctx, rec)
}

// Watermarks are stored at most once a second, and at the end. A failure is logged once, and retried.
// A subscription that cannot be stored is not created.
func TestSaving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		disk := &fullRecords{Store: log.records}
		w := newWorldOn(t, log, to, Options{Records: disk})
		sub := w.subscribe(params(hook, oneSecret))
		stored := func() string {
			p := positions(t, log.records, FromSubscription)
			if len(p) != 1 || p[0].ID != sub.ID {
				t.Fatalf("%+v", p)
			}
			return p[0].Cursor
		}
		time.Sleep(2 * time.Second)
		disk.attempts.Store(0)
		for range 100 {
			log.add("file:///a")
			time.Sleep(100 * time.Millisecond)
		}
		if n := disk.attempts.Load(); n < 5 || n > 11 {
			t.Errorf("saved %d times in 10 s", n)
		}
		time.Sleep(2 * time.Second)
		before := stored()
		if before != log.id(100) {
			t.Error(before)
		}
		disk.full.Store(true)
		last := log.add("file:///b")
		disk.attempts.Store(0)
		time.Sleep(10 * time.Second)
		if n := disk.attempts.Load(); n < 9 || n > 11 || stored() != before {
			t.Errorf("%d attempts in 10 s, stored %s", n, stored())
		}
		if logs := w.logs.String(); strings.Count(logs, "cannot store") != 1 {
			t.Error(logs)
		}
		if _, err := w.ask(mcp.MethodSubscribeEvents, "chat", params(hook+"?q", oneSecret)); err == nil || strings.Contains(err.Error(), "disk") || w.Stats().Active != 1 {
			t.Errorf("%v, %+v", err, w.Stats())
		}
		disk.full.Store(false)
		time.Sleep(2500 * time.Millisecond)
		if stored() != last {
			t.Error(stored())
		}
		last = log.add("file:///c")
		synctest.Wait()
		w.end()
		if stored() != last {
			t.Errorf("at the end %s is stored", stored())
		}
	})
}

// A checkpoint fits into a NATS message: to fit, it omits the states that were sent last. If it still
// does not fit, saving fails.
func TestCheckpointIsBounded(t *testing.T) {
	t.Parallel()
	sent := map[string]string{}
	for i := range maxStates {
		sent[fmt.Sprintf("%064d", i)] = string(event.Ready)
	}
	one := progress{Key: "k", Cursor: "a-1", GapDue: true, Sent: sent, Held: []string{"a-2"}}
	for _, n := range []int{1, 2} {
		data := must(encodeCheckpoint(FromConfig, slices.Repeat([]progress{one}, n)))
		p, err := parseCheckpoint(records.Record{Value: data})
		if err != nil || len(data) > maxCheckpoint || len(p) != n || p[0].Cursor != "a-1" || !p[0].GapDue || len(p[0].Held) != 1 || (len(p[0].Sent) > 0) != (n == 1) {
			t.Errorf("%d: %v, %d webhooks", n, err, len(p))
		}
	}
	one.Sent, one.Held = nil, []string{strings.Repeat("x", maxCheckpoint)}
	if _, err := encodeCheckpoint(FromConfig, []progress{one}); err == nil || !strings.Contains(err.Error(), "too many webhooks") {
		t.Error(err)
	}
	// The maximum number of subscriptions fits.
	all := slices.Repeat([]progress{{ID: "sub_0123456789abcdef", Life: strings.Repeat("x", 26), Cursor: newTestLog().id(1 << 50), Missed: 1 << 50, GapDue: true,
		Status: status{Suspended: true, SuspendedAt: 1 << 50, LastDelivery: time.Now().UTC(), LastError: ConnectionRefused, FailedSince: time.Now().UTC()}}}, 1000)
	if data, err := encodeCheckpoint(FromSubscription, all); err != nil || len(data) > maxCheckpoint/2 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// What an earlier version stored is read.
func TestEarlierCheckpoints(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{
		`{"version":1,"holder":"X","webhooks":[{"key":"k","url":"u","cursor":"a-1","gapDue":true,"held":["a-2"]}]}`,
		`{"version":1,"holder":"X","advances":[{"id":"sub_1","life":"l","cursor":"a-1","missed":2,"gapDue":true,"status":{"lastError":"timeout"}}]}`,
	} {
		p, err := parseCheckpoint(records.Record{Value: []byte(stored)})
		if err != nil || len(p) != 1 || p[0].Cursor != "a-1" || !p[0].GapDue || (p[0].Key == "k") == (p[0].Missed == 2) {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

// With keys, plain records are rejected, as anybody who can write to the cluster could have made
// them. Without keys, encrypted records are rejected.
func TestPlainAndEncryptedRecordsAreNotMixed(t *testing.T) {
	t.Parallel()
	r := record{ID: "sub_1", Name: "resource.updated", Arguments: json.RawMessage(`{}`), Secret: oneSecret}
	for _, try := range []struct{ seals, opens *Keys }{{nil, keys(t, 1)}, {keys(t, 1), nil}} {
		data, err := try.seals.seal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := try.opens.open("sub_1", data); err == nil {
			t.Errorf("opened: %+v", got)
		}
	}
	data, _ := (*Keys)(nil).seal(r)
	if _, err := (*Keys)(nil).open("sub_2", data); !errors.Is(err, errDamaged) {
		t.Error(err)
	}
}

// If the process that writes the answer ends, the next process delivers.
func TestUnansweredIsDeliveredAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{})
		next := record{ID: "sub_x", Principal: "chat", URL: hook, Name: "resource.updated", Arguments: []byte("{}"), Secret: oneSecret, Expires: time.Now().Add(24 * time.Hour), Cursor: w.log.id(0)}
		if _, _, _, err := w.create(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		id := w.log.add("file:///a")
		time.Sleep(answerWait - time.Second)
		w.end()
		if got := w.to.ids(); len(got) > 0 {
			t.Errorf("%v was sent before the answer", got)
		}
		again := newWorldOn(t, w.log, w.to, Options{})
		time.Sleep(2 * time.Second)
		again.end()
		if got := w.to.ids(); !slices.Equal(got, []string{id}) {
			t.Errorf("after the restart %v", got)
		}
	})
}

// The progress of a webhook that was removed from the config while no process ran is deleted.
// Without webhooks nothing is written.
func TestRemovedBeforeTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log, to := newTestLog(), newReceiver(t)
		none := func() {
			w := newWebhooksWorld(t, log, to)
			synctest.Wait()
			w.end()
		}
		none()
		if data := log.record(t, checkpointKey(FromConfig)); data != nil {
			t.Errorf("stored without webhooks: %s", data)
		}
		w := newWebhooksWorld(t, log, to, standard(hook))
		synctest.Wait()
		w.end()
		log.add("file:///a")
		none()
		w = newWebhooksWorld(t, log, to, standard(hook))
		synctest.Wait()
		id := log.add("file:///b")
		time.Sleep(time.Second)
		w.end()
		if got := to.ids(); !slices.Equal(got, []string{id}) {
			t.Errorf("%v", got)
		}
	})
}

// When a process ends, it stores the watermarks of the config.
func TestHooksAreSavedAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := newTestLog()
		w := newWebhooksWorld(t, log, newReceiver(t), standard(hook))
		time.Sleep(2500 * time.Millisecond)
		id := log.add("file:///a")
		synctest.Wait()
		w.end()
		if p := positions(t, log.records, FromConfig); len(p) != 1 || p[0].Cursor != id {
			t.Errorf("%+v", p)
		}
	})
}

// An idle subscription takes about 8 KiB, including its goroutine.
func TestIdleSubscriptionIsSmall(t *testing.T) {
	const n = 300
	used := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	w := newWorld(t, Options{Allow: urls(t, "https://**"), MaxEach: n})
	subscribe := func(i int) {
		if _, err := w.ask(mcp.MethodSubscribeEvents, "chat", params(fmt.Sprintf("https://hooks.example/h/%d", i), oneSecret)); err != nil {
			t.Fatal(err)
		}
	}
	subscribe(0)
	before := used()
	for i := range n - 1 {
		subscribe(i + 1)
	}
	working := func() (working int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, sub := range w.byID {
			if sub.stop != nil {
				working++
			}
		}
		return working
	}
	w.until("a worker for each", func() bool { return working() == n })
	each := (int64(used()) - int64(before)) / (n - 1)
	t.Logf("%d bytes", each)
	// A little more, as the runtime decides how large stacks are.
	if limit := int64(9 << 10); each > limit && !raceEnabled {
		t.Errorf("%d bytes for each subscription, more than %d", each, limit)
	}
}
