package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/events"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/serve"
)

func TestMain(m *testing.M) {
	if work := os.Getenv(childVariable); work != "" {
		if err := deliverAsChild(work); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const (
	epoch     = "00000000000000aa"
	oneSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
)

// memoryLog is a log in memory, so that tests can run in fake time.
type memoryLog struct {
	mu      sync.Mutex
	entries []journal.Entry
	first   uint64 // the first that is still there
	moved   chan struct{}
}

func newMemoryLog() *memoryLog { return &memoryLog{first: 1, moved: make(chan struct{})} }

func (l *memoryLog) source() events.Source {
	return events.Source{Bounds: l.bounds, Follow: l.follow, Read: l.read, Resume: l.resume, Since: l.since}
}

// add stores an update of a resource and returns its id.
func (l *memoryLog) add(uri string) string {
	return l.store(event.Event{ServerID: "docs", ResourceURI: uri, Timestamp: time.Now(), Payload: event.ResourceUpdated{}})
}

// expire removes all entries.
func (l *memoryLog) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first = uint64(len(l.entries) + 1)
}

func (l *memoryLog) bounds(context.Context) (journal.Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return journal.Bounds{Epoch: epoch, First: l.first, Last: uint64(len(l.entries))}, nil
}

func (l *memoryLog) get(seq uint64) (e journal.Entry, ok bool, moved chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seq > uint64(len(l.entries)) {
		return e, false, l.moved
	}
	if seq < l.first {
		gap := event.Gap{Reason: journal.ReasonRetention}
		return journal.Entry{ID: event.FormatID(epoch, l.first-1), Seq: l.first - 1, Gap: &gap}, true, nil
	}
	return l.entries[seq-1], true, nil
}

func (l *memoryLog) follow(ctx context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for {
			e, ok, moved := l.get(from)
			if ok {
				if from = e.Seq + 1; !yield(e, nil) {
					return
				}
				continue
			}
			select {
			case <-moved:
			case <-ctx.Done():
				yield(journal.Entry{}, context.Cause(ctx))
				return
			}
		}
	}
}

func (l *memoryLog) read(_ context.Context, from uint64) iter.Seq2[journal.Entry, error] {
	return func(yield func(journal.Entry, error) bool) {
		for {
			e, ok, _ := l.get(from)
			if from = e.Seq + 1; !ok || !yield(e, nil) {
				return
			}
		}
	}
}

func (l *memoryLog) resume(ctx context.Context, id string) (journal.Resumption, error) {
	b, _ := l.bounds(ctx)
	r := journal.Resumption{From: b.First, Next: b.Last + 1}
	e, seq, err := event.ParseID(id)
	switch {
	case err != nil:
		r.Gap = &event.Gap{Reason: journal.ReasonInvalid}
	case e != epoch:
		r.Gap = &event.Gap{Reason: journal.ReasonEpoch}
	case seq > b.Last:
		r.Gap = &event.Gap{Reason: journal.ReasonAhead}
	case seq+1 < b.First:
		r.Gap = &event.Gap{Reason: journal.ReasonRetention}
	default:
		r.From = seq + 1
	}
	return r, nil
}

func (l *memoryLog) since(_ context.Context, t time.Time) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		if !e.Stored.Before(t) {
			return e.Seq, nil
		}
	}
	return uint64(len(l.entries) + 1), nil
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

// receiver is an endpoint that answers as the AI SDK was measured to. It is a transport,
// so that it needs neither network nor real time.
type receiver struct {
	t testing.TB

	mu        sync.Mutex
	secrets   []string
	got       []received
	status    func(r received) int // of events and gaps; nil: 204
	answer    func(challenge string) string
	arrived   chan struct{}
	retry     string
	wellKnown string
	ownIDs    bool   // messages have ids of their own
	fixed     bool   // of a config: there is no subscription
	types     string // the media type that is taken; "": application/json
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
	status, text := v.serve(q.Method, q.URL.Path, q.Header, body)
	h := http.Header{"X-Secret": {"an answer that nobody may see"}}
	if v.retry != "" {
		h.Set("Retry-After", v.retry)
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(text)), Request: q}, nil
}

func (v *receiver) serve(method, path string, h http.Header, body []byte) (int, string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if method == http.MethodGet && path == wellKnown && v.wellKnown != "" {
		return 200, v.wellKnown
	}
	if h.Get("Content-Type") != cmp.Or(v.types, "application/json") || len(body) > maxBody {
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
	r := received{id: h.Get("webhook-id"), subscription: h.Get(headerSubscription), signatures: len(strings.Fields(h.Get("webhook-signature"))), at: time.Now()}
	if json.Unmarshal(body, &r.body) != nil {
		return 400, ""
	}
	v.got = append(v.got, r)
	v.arrived <- struct{}{}
	if r.kind() == "verification" {
		nonce, _ := r.body["challenge"].(string)
		if v.answer != nil {
			return 200, v.answer(nonce)
		}
		return 200, fmt.Sprintf(`{"challenge":%q}`, nonce)
	}
	if id := cmp.Or(r.body["eventId"], r.body["id"]); r.kind() == "event" && (r.id != id && !v.ownIDs || (r.subscription == "") != v.fixed) {
		return 400, ""
	}
	if v.status != nil {
		return v.status(r), "nobody may see this"
	}
	return 204, ""
}

func (v *receiver) set(f func(r received) int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.status = f
}

// all returns what came, of a kind if one is given.
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

func (v *receiver) ids() (ids []string) {
	for _, r := range v.all("event") {
		ids = append(ids, r.id)
	}
	return ids
}

// world is a set of subscriptions over a log in memory.
type world struct {
	*testing.T
	log  *memoryLog
	to   *receiver
	logs *bytes.Buffer
	*Subscriptions
	end func()
}

func newWorld(t *testing.T, opts Options) *world {
	t.Helper()
	return newWorldOn(t, newMemoryLog(), newReceiver(t), opts)
}

func newWorldOn(t *testing.T, log *memoryLog, to *receiver, opts Options) *world {
	t.Helper()
	w := &world{T: t, log: log, to: to, logs: &bytes.Buffer{}}
	opts.Reader = events.NewReader(log.source(), opts.Scope)
	if opts.Sender == nil {
		opts.Sender = NewSender(local())
		opts.Sender.client.Transport = to
	}
	opts.Logger = slog.New(slog.NewTextHandler(&locked{w: w.logs}, nil))
	var err error
	if w.Subscriptions, err = New(opts); err != nil {
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

// locked is a writer for several goroutines.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
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
	raw, err := w.Handle(w.Context(), &serve.Request{Method: method, Identity: identity, Params: json.RawMessage(params)})
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
	e, ok := err.(*serve.Error)
	if !ok {
		return 0, nil
	}
	data, _ := e.Data.(map[string]any)
	return e.Code, data
}

// until waits for a condition, which is looked at whenever something arrives and now and
// then.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			w.Fatalf("never happened: %s; got %v", what, w.to.all(""))
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
