package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/records"
	ourwebhooks "github.com/mcptrack/mcptrack/core/standardwebhooks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	oneSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
)

// testLog is an in-memory log, for tests in fake time. It outlives a simulated process: a restart is
// another Subscriptions or Webhooks on the same log.
type testLog struct {
	*journal.Memory
	records records.Store
}

func newTestLog() *testLog {
	return &testLog{journal.NewMemory(journal.MemoryOptions{}), must(records.Open(""))}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// recordsOf returns the records of a log, which outlive a simulated process.
func recordsOf(log journal.Log) records.Store {
	if l, ok := log.(*testLog); ok {
		return l.records
	}
	return must(OpenRecords(log))
}

// id returns the ID of the event with this number.
func (l *testLog) id(seq uint64) string { return event.FormatID(l.Epoch(), seq) }

// store stores an event and returns its ID.
func (l *testLog) store(e event.Event) string {
	e.Cause = event.CauseNotify
	return l.Publish(e).ID
}

// add stores an update of a resource and returns its ID.
func (l *testLog) add(uri string) string {
	return l.store(event.Event{ServerID: "docs", ResourceURI: uri, Timestamp: time.Now(), Payload: event.ResourceUpdated{}})
}

// positions returns the stored positions of a source.
func positions(t testing.TB, store records.Store, source Source) []progress {
	t.Helper()
	rec, err := store.Get(t.Context(), checkpointKey(source))
	if err != nil {
		t.Fatal(err)
	}
	return must(parseCheckpoint(rec))
}

// record returns the value of a record of this package; nil if there is none.
func (l *testLog) record(t testing.TB, key string) []byte {
	t.Helper()
	rec, err := l.records.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return rec.Value
}

// put replaces a record of this package; nil removes it.
func (l *testLog) put(t testing.TB, key string, value []byte) { replace(t, l.records, key, value) }

func replace(t testing.TB, store records.Store, key string, value []byte) {
	t.Helper()
	for {
		rec, err := store.Get(t.Context(), key)
		if rec.Value = value; err == nil && value == nil {
			err = store.Remove(t.Context(), rec)
		} else if err == nil {
			_, err = store.Put(t.Context(), rec)
		}
		if err == nil {
			return
		}
		if err != records.ErrChanged {
			t.Fatal(err)
		}
	}
}

// received is a POST that a receiver got.
type received struct {
	id, subscription string
	signatures       int
	body             map[string]any
	at               time.Time
}

func (r received) kind() string {
	if kind, ok := r.body["type"].(string); ok {
		return kind
	}
	return "event"
}

// receiver is an endpoint that responds as the AI SDK was observed to. It is a transport, so that it
// needs neither a network nor real time.
type receiver struct {
	t testing.TB

	mu      sync.Mutex
	secrets []string
	got     []received
	status  func(r received) int // of events and gaps; nil: 204
	answer  func(challenge string) string
	arrived chan struct{}
	answers bool // also messages that are not Standard Webhooks
	retry   string
	fixed   bool   // the webhook is from a config: there is no subscription
	types   string // the accepted media type; "": application/json
	// silent reports whether the endpoint with a path never responds; nil: all respond.
	silent func(path string) bool
	open   atomic.Int64 // requests to such endpoints that are in progress
}

func newReceiver(t testing.TB) *receiver {
	return &receiver{t: t, secrets: []string{oneSecret, newSecret}, arrived: make(chan struct{}, 100_000)}
}

func (v *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	body := []byte{}
	if q.Body != nil {
		body, _ = io.ReadAll(q.Body)
		_ = q.Body.Close()
	}
	if err := q.Context().Err(); err != nil {
		return nil, err
	}
	if v.silent != nil && v.silent(q.URL.Path) {
		v.open.Add(1)
		defer v.open.Add(-1)
		<-q.Context().Done()
		return nil, q.Context().Err()
	}
	status, text := v.serve(q.Header, body)
	h := http.Header{"X-Secret": {"a response that must not leak"}}
	if v.retry != "" {
		h.Set("Retry-After", v.retry)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(text)), Request: q}, nil
}

func (v *receiver) serve(h http.Header, body []byte) (int, string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if h.Get("Content-Type") != cmp.Or(v.types, "application/json") || len(body) > ourwebhooks.MaxBody {
		return 415, ""
	}
	good := false
	for _, s := range v.secrets {
		wh, err := standardwebhooks.NewWebhook(s)
		good = good || err == nil && wh.VerifyIgnoringTimestamp(body, h) == nil
	}
	if !good {
		return 401, "bad signature"
	}
	r := received{id: h.Get("webhook-id"), subscription: h.Get(ourwebhooks.SubscriptionHeader), signatures: len(strings.Fields(h.Get("webhook-signature"))), at: time.Now()}
	if json.Unmarshal(body, &r.body) != nil {
		return 400, ""
	}
	v.got = append(v.got, r)
	if v.answers {
		if v.status != nil {
			return v.status(r), ""
		}
		return 204, ""
	}
	v.arrived <- struct{}{}
	if r.kind() == "verification" {
		nonce, _ := r.body["challenge"].(string)
		if v.answer != nil {
			return 200, v.answer(nonce)
		}
		return 200, fmt.Sprintf(`{"challenge":%q}`, nonce)
	}
	if id := cmp.Or(r.body["eventId"], r.body["id"]); r.kind() == "event" && (r.id != id || (r.subscription == "") != v.fixed) {
		return 400, ""
	}
	if v.status != nil {
		return v.status(r), "this must not leak"
	}
	return 204, ""
}

func (v *receiver) set(f func(r received) int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.status = f
}

// all returns what was received, of one kind if kind is not "".
func (v *receiver) all(kind string) (out []received) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.got {
		if kind == "" || r.kind() == kind {
			out = append(out, r)
		}
	}
	return out
}

func (v *receiver) count() int { return len(v.all("")) }

func (v *receiver) ids() (ids []string) {
	for _, r := range v.all("event") {
		ids = append(ids, r.id)
	}
	return ids
}

// world is a running Subscriptions on an in-memory log.
type world struct {
	*testing.T
	log  *testLog
	to   *receiver
	logs *lines
	*Subscriptions
	end func()
}

func newWorld(t *testing.T, opts Options) *world {
	t.Helper()
	return newWorldOn(t, newTestLog(), newReceiver(t), opts)
}

func newWorldOn(t *testing.T, log *testLog, to *receiver, opts Options) *world {
	t.Helper()
	w := &world{T: t, log: log, to: to, logs: &lines{}}
	opts.Reader = mcpevents.NewReader(log, opts.Scope)
	if opts.Log == nil {
		opts.Log = log
	}
	if opts.Records == nil {
		opts.Records = recordsOf(opts.Log)
	}
	if opts.Sender == nil {
		opts.Sender = NewSender(local())
		opts.Sender.client.Transport = to
	}
	opts.Logger = slog.New(slog.NewTextHandler(w.logs, nil))
	var err error
	if w.Subscriptions, err = New(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = opts.Reader.Run(ctx) })
	running.Go(func() { _ = w.Subscriptions.Run(ctx) })
	w.end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(w.end)
	return w
}

// lines collects log lines of several goroutines.
type lines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

const hook = "https://hooks.example/h/7"

func params(url, secret string, more ...string) string {
	return fmt.Sprintf(`{"name":"resource.updated","arguments":{},"delivery":{"mode":"webhook","url":%q,"secret":%q},"cursor":null%s}`, url, secret, strings.Join(more, ""))
}

type subscribed struct {
	ID             string
	RefreshBefore  *time.Time
	Cursor         string
	Truncated      bool
	DeliveryStatus *struct {
		Active         bool
		LastDeliveryAt *string
		LastError      *string
	}
}

func (w *world) ask(method, identity, params string) (out subscribed, err error) {
	w.Helper()
	raw, err := w.Handle(w.Context(), &mcpserver.Request{Method: method, Identity: identity, Params: json.RawMessage(params)})
	if err != nil {
		return out, err
	}
	if !strings.Contains(string(raw), `"refreshBefore"`) && method == mcp.MethodSubscribeEvents {
		w.Errorf("no refreshBefore: %s", raw)
	}
	return out, json.Unmarshal(raw, &out)
}

func (w *world) subscribe(params string) subscribed {
	w.Helper()
	out, err := w.ask(mcp.MethodSubscribeEvents, "chat", params)
	if err != nil {
		w.Fatalf("%s: %v", params, err)
	}
	return out
}

// refused returns the code and data of an error.
func refused(err error) (int, map[string]any) {
	e, ok := err.(*mcpserver.Error)
	if !ok {
		return 0, nil
	}
	data, _ := e.Data.(map[string]any)
	return e.Code, data
}

// until polls a condition until it holds.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatalf("not within 30 s: %s; received %v", what, w.to.all(""))
		}
	}
}

func (w *world) awaits(ids ...string) {
	w.Helper()
	w.until(fmt.Sprint("deliveries of ", ids), func() bool {
		got := w.to.ids()
		return !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(got, id) })
	})
}
