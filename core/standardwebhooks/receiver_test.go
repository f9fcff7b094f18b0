package standardwebhooks

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const event = `{"eventId":"e-1","name":"resource.updated","data":{"uri":"a:b"},"cursor":"1"}`

// post returns a valid request for a test to break.
func post(t *testing.T, s *Slot, body string, at time.Time, secrets ...Secret) *http.Request {
	t.Helper()
	if secrets == nil {
		secrets = []Secret{s.secret}
	}
	signature, err := Sign(secrets, "e-1", at, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	q := httptest.NewRequest(http.MethodPost, s.URL(), strings.NewReader(body))
	q.Header = http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Webhook-Id": {"e-1"}, "Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)},
		"Webhook-Signature": {signature}, http.CanonicalHeaderKey("X-MCP-Subscription-Id"): {"sub_1"}}
	return q
}

func answer(r *Receiver, q *http.Request) (int, string) {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w.Code, w.Body.String()
}

// open returns a slot whose owner accepts all events.
func open(t *testing.T, active bool) (*Receiver, *Slot, func() int) {
	t.Helper()
	r := NewReceiver("https://hooks.example", NewKey())
	s, err := r.Open(t.Context(), "docs", "resource.updated")
	if err != nil {
		t.Fatal(err)
	}
	if active {
		s.Activate("sub_1")
	}
	var mu sync.Mutex
	taken := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case m := <-s.Messages():
				mu.Lock()
				taken++
				mu.Unlock()
				m.Done(!bytes.Contains(m.Body, []byte("invalid")))
			case <-s.ended:
				return
			}
		}
	})
	t.Cleanup(func() { s.Close(); wg.Wait() })
	return r, s, func() int { mu.Lock(); defer mu.Unlock(); return taken }
}

// endless is a body of a gigabyte that counts the bytes read.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	if e.read >= 1<<30 {
		return 0, io.EOF
	}
	e.read += int64(len(p))
	return len(p), nil
}

func TestReceiverChecks(t *testing.T) {
	t.Parallel()
	r, s, taken := open(t, true)
	other, _ := newSecret()
	now := time.Now()
	with := func(body string, change func(*http.Request)) *http.Request {
		q := post(t, s, body, now)
		if change != nil {
			change(q)
		}
		return q
	}
	huge := &endless{}
	for _, c := range []struct {
		name   string
		q      *http.Request
		want   int
		taken  int
		answer string
	}{
		{"right", with(event, nil), 204, 1, ""},
		{"two signatures", post(t, s, event, now, other, s.secret), 204, 1, ""},
		{"GET", with(event, func(q *http.Request) { q.Method = "GET" }), 405, 0, ""},
		{"another path", with(event, func(q *http.Request) { q.URL.Path = Path + strings.Repeat("0", 32) }), 404, 0, ""},
		{"no path", with(event, func(q *http.Request) { q.URL.Path = Path }), 404, 0, ""},
		{"declared 1 GiB", with(event, func(q *http.Request) { q.ContentLength = 1 << 30 }), 413, 0, ""},
		{"sent 1 GiB", with(event, func(q *http.Request) { q.Body, q.ContentLength = io.NopCloser(huge), -1 }), 413, 0, ""},
		{"text", with(event, func(q *http.Request) { q.Header.Set("Content-Type", "text/plain") }), 415, 0, ""},
		{"no signature", with(event, func(q *http.Request) { q.Header.Del("Webhook-Signature") }), 400, 0, ""},
		{"no id", with(event, func(q *http.Request) { q.Header.Del("Webhook-Id") }), 400, 0, ""},
		{"two ids", with(event, func(q *http.Request) { q.Header.Add("Webhook-Id", "e-2") }), 400, 0, ""},
		{"no number", with(event, func(q *http.Request) { q.Header.Set("Webhook-Timestamp", "now") }), 400, 0, ""},
		{"far time", with(event, func(q *http.Request) { q.Header.Set("Webhook-Timestamp", "9223372036854775807") }), 400, 0, ""},
		{"another secret", post(t, s, event, now, other), 401, 0, ""},
		{"another body", with(event, func(q *http.Request) { q.Body = io.NopCloser(strings.NewReader(event + " ")) }), 401, 0, ""},
		{"another id", with(event, func(q *http.Request) { q.Header.Set("Webhook-Id", "e-2") }), 401, 0, ""},
		{"old", post(t, s, event, now.Add(-302*time.Second)), 401, 0, ""},
		{"of the future", post(t, s, event, now.Add(400*time.Second)), 401, 0, ""},
		{"no JSON", with("x", nil), 400, 0, ""},
		{"null", with("null", nil), 400, 0, ""},
		{"type of another form", with(`{"type":1}`, nil), 400, 0, ""},
		{"challenge", with(`{"type":"verification","challenge":"<n>"}`, nil), 200, 0, `{"challenge":"\u003cn\u003e"}`},
		{"challenge without a nonce", with(`{"type":"verification"}`, nil), 400, 0, ""},
		{"no subscription", with(event, func(q *http.Request) { q.Header.Del("X-MCP-Subscription-Id") }), 400, 0, ""},
		{"another subscription", with(event, func(q *http.Request) { q.Header.Set("X-MCP-Subscription-Id", "sub_2") }), 400, 0, ""},
		{"unknown type", with(`{"type":"news"}`, nil), 204, 0, ""},
		{"gap", with(`{"type":"gap","cursor":"9"}`, nil), 204, 1, ""},
		{"no event", with(`{"invalid":1}`, nil), 400, 1, ""},
	} {
		before := taken()
		code, text := answer(r, c.q)
		if code != c.want || text != c.answer || taken()-before != c.taken {
			t.Errorf("%s: %d %q, %d taken", c.name, code, text, taken()-before)
		}
	}
	if huge.read > 4*MaxBody {
		t.Errorf("%d bytes were read", huge.read)
	}
}

// Before the subscription, a challenge is answered and everything else must be retried. After Close
// the path is unknown.
func TestReceiverBeforeTheSubscription(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t, false)
	if code, _ := answer(r, post(t, s, event, time.Now())); code != 503 {
		t.Error(code)
	}
	if code, _ := answer(r, post(t, s, `{"type":"verification","challenge":"n"}`, time.Now())); code != 200 {
		t.Error(code)
	}
	s.Close()
	if code, _ := answer(r, post(t, s, event, time.Now())); code != 404 {
		t.Error(code)
	}
	if len(r.slots) != 0 || len(r.senders) != 0 {
		t.Errorf("closed slots are kept: %v, %v", r.slots, r.senders)
	}
}

// Of 1000 concurrent messages each is accepted or must be retried, and at most perServer bodies are
// held.
func TestReceiverInParallel(t *testing.T) {
	t.Parallel()
	r, s, taken := open(t, true)
	var mu sync.Mutex
	codes := map[int]int{}
	var wg sync.WaitGroup
	for range 1000 {
		q := post(t, s, event, time.Now())
		wg.Go(func() {
			code, _ := answer(r, q)
			mu.Lock()
			codes[code]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if codes[204] != taken() || codes[204]+codes[503] != 1000 || codes[204] == 0 {
		t.Errorf("%v, %d taken", codes, taken())
	}
	for range perServer { // simulates endless bodies
		s.sender.busy <- struct{}{}
	}
	if code, _ := answer(r, post(t, s, event, time.Now())); code != 503 {
		t.Error(code)
	}
	if len(s.sender.busy) != perServer {
		t.Error("a rejected message still counts")
	}
}

// A path is the same after a restart, and differs between subscriptions. Others cannot read the key.
// Every slot has a new secret.
func TestKeyIsKept(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	at := func(server, subscription string) (string, string) {
		key, err := LoadKey(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewReceiver("https://h.example/", key).Open(t.Context(), server, subscription)
		if err != nil {
			t.Fatal(err)
		}
		return s.URL(), s.Secret()
	}
	url, secret := at("a", "b")
	if u, s := at("a", "b"); u != url || s == secret || !strings.HasPrefix(u, "https://h.example/hooks/") {
		t.Errorf("%s %s", url, u)
	}
	if _, err := ParseSecret(secret); err != nil {
		t.Error(err)
	}
	if u, s := at("a", "c"); u == url || s == secret {
		t.Error("two subscriptions share a path or a secret")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if err := os.WriteFile(file, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(file); err == nil {
		t.Error("an invalid key is used")
	}
}

// A message that one owner of a slot has accepted does not reach the next owner, who does not know
// its ID.
func TestReplay(t *testing.T) {
	t.Parallel()
	r, s, _ := open(t, true)
	replayed := post(t, s, event, time.Now())
	if code, _ := answer(r, replayed); code != 204 {
		t.Fatal(code)
	}
	s.Close()
	next, err := r.Open(t.Context(), "docs", "resource.updated")
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	next.Activate("sub_1")
	replayed.Body = io.NopCloser(strings.NewReader(event))
	if code, _ := answer(r, replayed); next.URL() != s.URL() || code != 401 {
		t.Error(code)
	}
}

func TestCheckOrigin(t *testing.T) {
	t.Parallel()
	for origin, ok := range map[string]bool{
		"https://h.example": true, "https://h.example/": true, "https://h.example:8443": true, "http://127.0.0.1:8722": true, "http://[::1]:8722": true,
		"http://h.example": false, "http://localhost:1": false, "https://h.example/x": false, "https://h.example?x": false, "https://h.example#": false, "https://u@h.example": false,
		"https://h.example:80": false, "https://": false, "h.example": false, "": false, "ftp://h.example": false,
	} {
		if err := CheckOrigin(origin); (err == nil) != ok {
			t.Errorf("%s: %v", origin, err)
		}
	}
}
