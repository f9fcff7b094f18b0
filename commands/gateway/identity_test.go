package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

const identityToken = "token-of-the-gateway"

// identityWorld runs gateway --events, several times with one log, over servers in this process.
type identityWorld struct {
	*testing.T
	dir     string
	entries []byte   // the config as newIdentityWorld wrote it
	log     []string // the flags that say where the log is
	servers map[string]*sessiontest.Fake
	url     string
	stop    func()
	mu      sync.Mutex
	got     map[string]map[string]string // the data of each event, by delivery way and id
	said    string                       // what the gateway has logged
}

func newIdentityWorld(t *testing.T, ids ...string) *identityWorld {
	w := &identityWorld{T: t, dir: t.TempDir(), servers: map[string]*sessiontest.Fake{}, got: map[string]map[string]string{}}
	entries := map[string]any{}
	for _, id := range ids {
		s := sessiontest.New()
		ts := httptest.NewServer(s)
		t.Cleanup(func() { s.Disconnect(); ts.CloseClientConnections(); ts.Close() })
		w.servers[id], entries[id] = s, map[string]any{"url": ts.URL, "type": "http", "trackResources": true, "trackTools": true}
		s.SetQuietly("x://"+id+"/r1", "one")
	}
	raw, err := json.Marshal(map[string]any{"mcpServers": entries})
	if err != nil {
		t.Fatal(err)
	}
	w.log = []string{"--data-dir", filepath.Join(w.dir, "log"), "--durability", "interval"}
	w.entries = raw
	w.save("mcp.json", string(raw))
	w.save("token", identityToken)
	return w
}

func (w *identityWorld) save(name, text string) {
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
}

// start runs the gateway until w.stop.
func (w *identityWorld) start() {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	lines, errs := io.Pipe()
	code := make(chan int, 1) // sent to once
	env := &cli.Env{In: strings.NewReader(""), Out: io.Discard, Err: errs, Version: "test", LookupEnv: func(k string) (string, bool) {
		if k != "HOME" {
			return "", false
		}
		return w.dir, true
	}}
	go func() {
		code <- commands.Main(ctx, env, append([]string{"--config", filepath.Join(w.dir, "mcp.json"), "gateway", "--addr", "127.0.0.1:0", "--events",
			"--token-file", filepath.Join(w.dir, "token"), "--events-allow", "http://127.0.0.1:*", "--wait", "3s"}, w.log...))
		_ = errs.Close()
	}()
	listening := make(chan string, 1) // sent to at most once, then closed
	go func() {
		defer close(listening)
		for printed := bufio.NewScanner(lines); printed.Scan(); {
			w.Log(printed.Text())
			w.mu.Lock()
			w.said += printed.Text() + "\n"
			w.mu.Unlock()
			if url, ok := strings.CutPrefix(printed.Text(), "listening on "); ok {
				listening <- url
			}
		}
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if got := <-code; got != cli.ExitOK {
			w.Errorf("exit %d", got)
		}
		for range listening { // until the log ends
		}
	})
	w.Cleanup(w.stop)
	var ok bool
	if w.url, ok = <-listening; !ok {
		w.Fatal("it does not listen")
	}
}

func (w *identityWorld) post(ctx context.Context, method string, params map[string]any) *http.Response {
	w.Helper()
	params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": map[string]any{"name": "t", "version": "1"}, "io.modelcontextprotocol/clientCapabilities": map[string]any{}}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		w.Fatal(err)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(string(body)))
	if err != nil {
		w.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + identityToken,
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method} {
		q.Header.Set(name, value)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// ask returns the result of a request.
func (w *identityWorld) ask(method string, params map[string]any, result any) {
	w.Helper()
	p := w.post(w.Context(), method, params)
	defer func() { _ = p.Body.Close() }()
	raw, err := io.ReadAll(p.Body)
	if err != nil {
		w.Fatal(err)
	}
	_, data, stream := strings.Cut(string(raw), "data: ")
	if !stream {
		data = string(raw)
	}
	var answer struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&answer); err != nil || answer.Error != nil {
		w.Fatalf("%s: %s, %v", method, raw, err)
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		w.Fatal(err)
	}
}

// occurred is an event as a client receives it.
type occurred struct {
	EventID, Name string
	Data          json.RawMessage
}

func (w *identityWorld) add(way string, o occurred) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.got[way] == nil {
		w.got[way] = map[string]string{}
	}
	if was, again := w.got[way][o.EventID]; again && was != string(o.Data) {
		w.Errorf("%s: %s was %s and is %s", way, o.EventID, was, o.Data)
	}
	w.got[way][o.EventID] = string(o.Data)
}

func (w *identityWorld) of(way string) map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.got[way])
}

func types() []string { return []string{"resource.updated", "list.changed"} }

// poll returns what was stored after a cursor, by id; "" returns nothing and a cursor.
func (w *identityWorld) poll(from string) (all map[string]string, cursor string) {
	w.Helper()
	all = map[string]string{}
	for _, name := range types() {
		params := map[string]any{"name": name, "maxEvents": 500}
		if from != "" {
			params["cursor"] = from
		}
		var got struct {
			Events []occurred
			Cursor string
		}
		w.ask("events/poll", params, &got)
		cursor = got.Cursor
		for _, o := range got.Events {
			all[o.EventID] = string(o.Data)
		}
	}
	return all, cursor
}

// stream records the events after a cursor until the gateway ends.
func (w *identityWorld) stream(way, cursor string) {
	var reading sync.WaitGroup
	for _, name := range types() {
		p := w.post(w.Context(), "events/stream", map[string]any{"name": name, "cursor": cursor})
		reading.Go(func() {
			defer func() { _ = p.Body.Close() }()
			for lines := bufio.NewScanner(p.Body); lines.Scan(); {
				var m struct{ Params occurred }
				if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(data), &m) == nil && m.Params.EventID != "" {
					w.add(way, m.Params)
				}
			}
		})
	}
	w.Cleanup(reading.Wait)
}

// hook subscribes a webhook. Its endpoint refuses the first delivery of three events, which are retried.
func (w *identityWorld) hook() {
	w.Helper()
	var mu sync.Mutex
	refused := map[string]bool{}
	ts := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var o occurred
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.EventID == "" {
			return
		}
		w.add("webhook", o)
		mu.Lock()
		defer mu.Unlock()
		if !refused[o.EventID] && len(refused) < 3 {
			refused[o.EventID] = true
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	w.Cleanup(ts.Close)
	for _, name := range types() {
		w.ask("events/subscribe", map[string]any{"name": name, "delivery": map[string]any{"mode": "webhook", "url": ts.URL + "/" + name, "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}, &struct{}{})
	}
}

func (w *identityWorld) eventually(what string, ok func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) { // the gateway answers over TCP, in real time
		if time.Now().After(deadline) {
			w.Fatalf("not within a minute: %s\n%v", what, w.got)
		}
	}
}

// listed returns the URIs that the gateway lists.
func (w *identityWorld) listed() (uris []string) {
	w.Helper()
	var got struct{ Resources []struct{ URI string } }
	w.ask("resources/list", map[string]any{}, &got)
	for _, r := range got.Resources {
		uris = append(uris, r.URI)
	}
	slices.Sort(uris)
	return uris
}

// wantListed waits until the gateway lists these resources besides the initial ones.
func (w *identityWorld) wantListed(more ...string) {
	w.Helper()
	want := append([]string{"x://a/r1", "x://b/r1"}, more...)
	slices.Sort(want)
	w.eventually(fmt.Sprint("listed ", want), func() bool { return slices.Equal(w.listed(), want) })
}

// awaitEvent waits until a streamed event has the URI as a member of its data, or in a list there.
func (w *identityWorld) awaitEvent(server, member, uri string) {
	w.Helper()
	w.eventually(fmt.Sprint(server, " ", member, " ", uri), func() bool {
		for _, raw := range w.of("stream") {
			var data map[string]any
			if json.Unmarshal([]byte(raw), &data) != nil || data["server"] != server {
				continue
			}
			if all, ok := data[member].([]any); ok && slices.Contains(all, any(uri)) || data[member] == uri {
				return true
			}
		}
		return false
	})
}

// Events name a resource by the URI under which the gateway lists it, from the first event on. An event
// keeps its bytes: in every delivery way, in retries, and after a restart.
func TestResourcesHaveOneIdentity(t *testing.T) {
	w := newIdentityWorld(t, "a", "b")
	w.start()
	_, begin := w.poll("")
	w.hook()
	w.stream("stream", begin)
	a, b := w.servers["a"], w.servers["b"]
	rounds := 10
	if testing.Short() {
		rounds = 1
	}
	for n := range rounds {
		uri := fmt.Sprintf("x://a/n%d", n)
		a.Set(uri, "one")
		w.awaitEvent("a", "added", uri)
		w.wantListed(uri)
		a.Set(uri, "two")
		w.awaitEvent("a", "uri", uri)
		a.Remove(uri)
		w.awaitEvent("a", "removed", uri)
	}
	a.Set("x://both", "one")
	w.awaitEvent("a", "added", "x://both")
	// The URI becomes ambiguous, and unambiguous again.
	b.Set("x://both", "other")
	w.awaitEvent("b", "added", "mcptrack://server/b/x://both")
	w.wantListed("mcptrack://server/a/x://both", "mcptrack://server/b/x://both")
	a.Set("x://both", "two")
	w.awaitEvent("a", "uri", "mcptrack://server/a/x://both")
	a.Remove("x://both")
	w.awaitEvent("a", "removed", "mcptrack://server/a/x://both")
	w.wantListed("x://both")
	b.Set("x://both", "more")
	w.awaitEvent("b", "uri", "x://both")
	a.Set("x://both", "two") // as before it was removed, so that there is no further event
	w.awaitEvent("a", "added", "mcptrack://server/a/x://both")
	w.wantListed("mcptrack://server/a/x://both", "mcptrack://server/b/x://both")

	before, _ := w.poll(begin)
	same := func(way string, got map[string]string) {
		t.Helper()
		if !maps.Equal(got, before) {
			t.Errorf("by %s %v, polled %v", way, got, before)
		}
	}
	w.eventually("all by stream", func() bool { return len(w.of("stream")) >= len(before) })
	same("stream", w.of("stream"))
	w.eventually("all by webhook", func() bool { return len(w.of("webhook")) >= len(before) })
	same("webhook", w.of("webhook"))
	w.stop()

	// After a restart, b keeps the URIs that it listed, even while it cannot be reached.
	b.Fail(sessiontest.Fault{Status: http.StatusServiceUnavailable})
	w.start()
	got, _ := w.poll(begin)
	same("poll after the restart", got)
	w.stream("stream after the restart", begin)
	w.eventually("all by stream after the restart", func() bool { return len(w.of("stream after the restart")) >= len(before) })
	same("stream after the restart", w.of("stream after the restart"))
	if uris := w.listed(); !slices.Contains(uris, "mcptrack://server/a/x://both") {
		t.Errorf("while b is away: %v", uris)
	}
	w.stop()
}

// Gateways that share a log give every event the same bytes, whichever gateway stored it, and the URIs in
// events match the lists of all gateways.
func TestRealGatewaysAgreeOnIdentities(t *testing.T) {
	w := newIdentityWorld(t, "a", "b")
	w.log = []string{"--nats", journaltest.Store(t)}
	var urls []string
	for range 2 {
		w.start()
		urls = append(urls, w.url)
	}
	_, begin := w.poll("")
	w.stream("stream", begin)
	a, b := w.servers["a"], w.servers["b"]
	n := 0
	w.eventually("one of them stores the events of each", func() bool { // earlier content causes no event
		n++
		a.Set("x://a/begin", fmt.Sprint(n))
		b.Set("x://b/begin", fmt.Sprint(n))
		got, _ := w.poll(begin)
		all := fmt.Sprint(got)
		return strings.Contains(all, "x://a/begin") && strings.Contains(all, "x://b/begin")
	})
	everywhere := func(uris ...string) { // what a gateway stores depends on what it has listed
		for _, w.url = range urls {
			w.wantListed(append(uris, "x://a/begin", "x://b/begin")...)
		}
	}
	a.Set("x://both", "one")
	w.awaitEvent("a", "added", "x://both")
	everywhere("x://both")
	b.Set("x://both", "other")
	w.awaitEvent("b", "added", "mcptrack://server/b/x://both")
	everywhere("mcptrack://server/a/x://both", "mcptrack://server/b/x://both")
	a.Set("x://both", "two")
	w.awaitEvent("a", "uri", "mcptrack://server/a/x://both")
	b.Remove("x://both")
	w.awaitEvent("b", "removed", "mcptrack://server/b/x://both")
	everywhere("x://both")
	a.Set("x://both", "three")
	w.awaitEvent("a", "uri", "x://both")
	want, _ := w.poll(begin)
	for _, w.url = range urls {
		w.eventually("the same events", func() bool {
			got, _ := w.poll(begin)
			for id, data := range got {
				if want[id] != data {
					t.Fatalf("%s is %s and %s", id, data, want[id])
				}
			}
			return len(got) == len(want)
		})
	}
}

// What a webhook did not accept before a restart is sent after it: the gateway reads no event before it exports its
// servers.
func TestWebhookContinuesAfterARestart(t *testing.T) {
	w := newIdentityWorld(t, "a")
	accept := make(chan struct{})                                         // closed when the endpoint accepts
	refused, accepted := make(chan string, 1000), make(chan string, 1000) // event ids; sent to by the endpoint, never closed
	ts := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-accept:
			accepted <- r.Header.Get("Webhook-Id")
		default:
			rw.WriteHeader(http.StatusServiceUnavailable)
			refused <- r.Header.Get("Webhook-Id")
		}
	}))
	t.Cleanup(ts.Close)
	w.save("mcp.json", strings.TrimSuffix(string(w.entries), "}")+`,"webhooks":[{"url":"`+ts.URL+`","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw","types":["resource.updated"],"allowPrivate":true}]}`)
	w.start()
	id := ""
	for n := 0; id == ""; n++ {
		w.servers["a"].Set("x://a/r1", fmt.Sprint("changed ", n)) // the first may come before the resource is first read
		select {
		case id = <-refused:
		case <-time.After(2 * time.Second):
		}
	}
	w.stop()
	close(accept)
	w.start()
	select {
	case got := <-accepted:
		if got != id {
			t.Errorf("%s instead of %s", got, id)
		}
	case <-time.After(time.Minute):
		t.Error("it was passed over")
	}
	w.stop()
}
