package webhook

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/mcpevents"
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

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within a minute: " + what)
		}
	}
}

// A page is saved only by who loaded it last: one that has lost its lease moves no
// watermark back. An answer that was lost takes nothing from its holder.
func TestPageIsSavedByItsHolder(t *testing.T) {
	t.Parallel()
	url, ctx := journaltest.Store(t), t.Context()
	pages := []*page{}
	for range 2 {
		pages = append(pages, newPage(openLog(t, url).Records(recordsName), pageOfConfig))
	}
	at := func(cursor string) func() stored {
		return func() stored { return stored{Webhooks: []mark{{Key: "k", Cursor: cursor}}} }
	}
	for i, p := range pages {
		s, _, err := p.load(ctx)
		if err != nil || i == 0 && s.Webhooks != nil || i > 0 && s.Webhooks[0].Cursor != "a-2" {
			t.Fatalf("%+v, %v", s, err)
		}
		if i == 0 {
			if err := errors.Join(p.save(ctx, at("a-1")), p.save(ctx, at("a-2"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := pages[0].save(ctx, at("a-1")); !errors.Is(err, errTaken) {
		t.Errorf("a late save: %v", err)
	}
	pages[1].revision-- // as if the answer to the load had been lost
	if err := pages[1].save(ctx, at("a-3")); err != nil {
		t.Error(err)
	}
	if s, _, err := pages[0].read(ctx); err != nil || len(s.Webhooks) != 1 || s.Webhooks[0].Cursor != "a-3" {
		t.Errorf("%+v, %v", s, err)
	}
}

// hooksOn runs the webhooks of a process on a cluster.
func hooksOn(t *testing.T, shared *natslog.Log, log *testLog, to *receiver, all ...config.Webhook) (h *Hooks, end func()) {
	t.Helper()
	to.fixed = true
	sender := NewSender(nil)
	sender.client.Transport, sender.open.Transport = to, to
	h = NewHooks(HookOptions{Log: shared, Reader: mcpevents.NewReader(log, mcpevents.Scope{}), Sender: sender, Follow: true})
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

// Of the processes on a cluster one delivers the webhooks of the config; when it ends or
// another one has taken over, that one goes on where it was.
func TestHooksOnACluster(t *testing.T) {
	t.Parallel()
	url, log, to := journaltest.Store(t), newTestLog(), newReceiver(t)
	var all []*Hooks
	var ends []func()
	for range 2 {
		h, end := hooksOn(t, openLog(t, url), log, to, standard(hook))
		all, ends = append(all, h), append(ends, end)
	}
	other, endOther := hooksOn(t, openLog(t, url), log, to) // has none, so it does not deliver
	defer endOther()
	holder := func() int {
		return slices.IndexFunc(all, func(h *Hooks) bool { return len(h.Endpoints()) > 0 && h.Deliveries()[0].Own })
	}
	eventually(t, "one delivers", func() bool { return holder() >= 0 })
	first := holder()
	at := func(h *Hooks) string {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.active) == 0 {
			return ""
		}
		return h.active[0].Cursor
	}
	eventually(t, "it begins", func() bool { return at(all[first]) != "" })
	var want []string
	for range 20 {
		want = append(want, log.add("file:///a"))
	}
	eventually(t, "all", func() bool { return at(all[first]) == want[19] })
	eventually(t, "the other one says who delivers", func() bool {
		d := all[1-first].Deliveries()[0]
		return !d.Own && d.Process != "" && d.Source == FromConfig && len(all[1-first].Endpoints()) == 0
	})
	// Another process loads the watermarks, as when this one was stopped for longer than
	// its lease: it ends, and then one of them begins again.
	intruder := newPage(openLog(t, url).Records(recordsName), pageOfConfig)
	if _, _, err := intruder.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	want = append(want, log.add("file:///a"))
	eventually(t, "one more", func() bool { return slices.Contains(to.ids(), want[20]) })
	eventually(t, "one delivers again, and has stored how far it is", func() bool {
		s, _, err := intruder.read(t.Context())
		return holder() >= 0 && err == nil && s.Holder != intruder.holder && len(s.Webhooks) == 1 && s.Webhooks[0].Cursor == want[20]
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
	if d := other.Deliveries()[0]; d.Own {
		t.Errorf("one without webhooks delivers: %+v", d)
	}
}

// A process that takes over delivers to the webhooks that the config has then, and so continues
// those that were added while it waited.
func TestTakeOverAfterTheConfigChanged(t *testing.T) {
	t.Parallel()
	url, log, to := journaltest.Store(t), newTestLog(), newReceiver(t)
	one, two := standard(hook), standard(hook+"?two")
	one.URIs, two.URIs = []string{"file:///one"}, []string{"file:///two"}
	first, end := hooksOn(t, openLog(t, url), log, to, one)
	begun := func(n int) func() bool {
		return func() bool {
			first.mu.Lock()
			defer first.mu.Unlock()
			return len(first.active) == n && !slices.ContainsFunc(first.active, func(k *target) bool { return k.Cursor == "" })
		}
	}
	eventually(t, "it begins", begun(1))
	second, _ := hooksOn(t, openLog(t, url), log, to, one)
	eventually(t, "the other one waits for the lease", func() bool { return len(second.wanted) == 0 })
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

// A process whose webhooks were removed while it waited for the lease leaves the watermarks of the
// others as they are.
func TestTurnWithoutWebhooksKeepsWatermarks(t *testing.T) {
	t.Parallel()
	shared := openLog(t, journaltest.Store(t))
	p := newPage(shared.Records(recordsName), pageOfConfig)
	if _, _, err := p.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.save(t.Context(), func() stored { return stored{Webhooks: []mark{{Key: "k", Cursor: "a-7"}}} }); err != nil {
		t.Fatal(err)
	}
	h := NewHooks(HookOptions{Log: shared, Reader: mcpevents.NewReader(newTestLog(), mcpevents.Scope{}), Sender: NewSender(nil)})
	h.latest = []config.Webhook{standard(hook)}
	h.Apply(nil)
	if err := h.run(t.Context(), nil, func() {}); err != nil {
		t.Fatal(err)
	}
	if s, _, err := p.read(t.Context()); err != nil || len(s.Webhooks) != 1 || s.Webhooks[0].Cursor != "a-7" {
		t.Errorf("%+v, %v", s, err)
	}
}
