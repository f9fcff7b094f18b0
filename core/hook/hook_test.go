package hook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret   = "0123456789abcdef"
	standard = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// world has one receiver, whose deliveries it collects.
type world struct {
	*testing.T
	r   *Receiver
	log bytes.Buffer

	mu  sync.Mutex
	got []Delivery
}

func newWorld(t *testing.T, hooks ...config.Hook) *world {
	w := &world{T: t}
	w.r = NewReceiver(Options{Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Deliver: func(d Delivery) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.got = append(w.got, d)
	}})
	w.r.Apply(hooks)
	return w
}

func hooked(v config.HookScheme, secrets ...string) config.Hook {
	h := config.Hook{ID: "repo", Verify: v}
	if v == config.HookHMAC {
		h.Header = config.DefaultHookHeader
	}
	for _, s := range secrets {
		h.Secrets = append(h.Secrets, config.NewSecret(s))
	}
	return h
}

// post sends a message and returns the answer.
func (w *world) post(h http.Header, body string) *httptest.ResponseRecorder {
	q := httptest.NewRequest(http.MethodPost, Path+"repo", strings.NewReader(body))
	q.Header = h
	return w.do(q)
}

func (w *world) do(q *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.r.ServeHTTP(rec, q)
	return rec
}

// want checks the answer to a message, and what became of it.
func (w *world) want(name string, rec *httptest.ResponseRecorder, code int, o Outcome) {
	w.Helper()
	st := w.r.Status()[0]
	if rec.Code != code || st.Messages[o] != 1 || len(st.Messages) != 1 {
		w.Errorf("%s: %d, %v", name, rec.Code, st.Messages)
	}
	if refused := rec.Code >= 400; refused && (rec.Body.Len() > 0 || len(w.got) > 0) {
		w.Errorf("%s: refused with %q, %d deliveries", name, rec.Body, len(w.got))
	}
}

func mac256(key, text string) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil))
}

// sign returns the headers of a valid message that was signed at a time.
func sign(v config.HookScheme, key, id string, at time.Time, body string) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	switch v {
	case config.HookStandard:
		s, _ := standardwebhooks.ParseSecret(key)
		signature, _ := standardwebhooks.Sign([]standardwebhooks.Secret{s}, id, at, []byte(body))
		h.Set("Webhook-Id", id)
		h.Set("Webhook-Timestamp", stamp)
		h.Set("Webhook-Signature", signature)
	case config.HookGitHub:
		h.Set("X-GitHub-Delivery", id)
		h.Set("X-Hub-Signature-256", "sha256="+mac256(key, body))
	case config.HookStripe:
		h.Set("Stripe-Signature", "t="+stamp+",v1="+mac256(key, stamp+"."+body)+",v0="+mac256("x", body))
	case config.HookSlack:
		h.Set("X-Slack-Request-Timestamp", stamp)
		h.Set("X-Slack-Signature", "v0="+mac256(key, "v0:"+stamp+":"+body))
	case config.HookHMAC:
		h.Set(config.DefaultHookHeader, mac256(key, body))
	}
	return h
}

func keyOf(v config.HookScheme) string {
	if v == config.HookStandard {
		return standard
	}
	return secret
}

// schemes runs a test for every scheme, with time that passes only when the test sleeps.
func schemes(t *testing.T, test func(t *testing.T, v config.HookScheme, key string)) {
	for _, name := range config.HookSchemes() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, config.HookScheme(name), keyOf(config.HookScheme(name))) })
		})
	}
}

// What the services' documentation and libraries sign is accepted: GitHub's and Slack's examples, and
// the results of the npm packages stripe 23.1.0 and standardwebhooks 1.1.1.
func TestVectors(t *testing.T) {
	const slackBody = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	for name, c := range map[config.HookScheme]struct {
		key, body, id string
		at            int64
		headers       map[string]string
	}{
		config.HookGitHub: {"It's a Secret to Everybody", "Hello, World!", "72d3162e-cc78-11e3-81ab-4c9367dc0958", 1614265330,
			map[string]string{"X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}},
		config.HookSlack: {"8f742231b10e8888abcd99yyyzzz85a5", slackBody, "", 1531420618,
			map[string]string{"X-Slack-Request-Timestamp": "1531420618", "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"}},
		config.HookStripe: {"whsec_test_secret", "{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}", "evt_test_webhook", 1614265330,
			map[string]string{"Stripe-Signature": "t=1614265330,v1=af4ead0627a34a8cca29808e8de9ada8e41a92e6237c63cef6eacf51d36cca34"}},
		config.HookStandard: {standard, `{"test": 2432232314}`, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
			map[string]string{"Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp": "1614265330", "Webhook-Signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}},
	} {
		t.Run(string(name), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Unix(c.at, 0)))
				w := newWorld(t, hooked(name, "another-secret-of-it", c.key))
				if name == config.HookStandard {
					w.r.Apply([]config.Hook{hooked(name, "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", c.key)})
				}
				h := http.Header{}
				for k, v := range c.headers {
					h.Set(k, v)
				}
				w.want("vector", w.post(h, c.body), 202, Accepted)
				if len(w.got) != 1 || w.got[0].ID != c.id || string(w.got[0].Body) != c.body {
					t.Errorf("%+v", w.got)
				}
			})
		})
	}
}

// A message that is wrong in any way is refused with the same answer, and counted by reason.
func TestRefused(t *testing.T) {
	schemes(t, func(t *testing.T, v config.HookScheme, key string) {
		const body = `{"id":"evt_1","event_id":"Ev1"}`
		right := func() http.Header { return sign(v, key, "e-1", time.Now(), body) }
		signatureOf := map[config.HookScheme]string{config.HookStandard: "Webhook-Signature", config.HookGitHub: "X-Hub-Signature-256",
			config.HookStripe: "Stripe-Signature", config.HookSlack: "X-Slack-Signature", config.HookHMAC: "X-Signature-256"}[v]
		type attempt struct {
			name    string
			h       http.Header
			body    string
			code    int
			outcome Outcome
		}
		attempts := []attempt{
			{"right", right(), body, 202, Accepted},
			{"another body", right(), body + " ", 401, Forged},
			{"no body", right(), "", 401, Forged},
			{"another secret", sign(v, map[bool]string{true: "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", false: "fedcba9876543210"}[v == config.HookStandard], "e-1", time.Now(), body), body, 401, Forged},
			{"no headers", http.Header{}, body, 401, Malformed},
		}
		change := func(name string, f func(http.Header), code int, o Outcome) {
			h := right()
			f(h)
			attempts = append(attempts, attempt{name, h, body, code, o})
		}
		value := right().Get(signatureOf)
		change("no signature", func(h http.Header) { h.Del(signatureOf) }, 401, Malformed)
		change("duplicate signature", func(h http.Header) { h.Add(signatureOf, value) }, 401, Malformed)
		if v != config.HookStandard { // whose library ignores what it does not know in a signature
			change("long signature", func(h http.Header) { h.Set(signatureOf, strings.ReplaceAll(value, "=", "=00")+"00") }, 401, Malformed)
			change("no hexadecimal", func(h http.Header) { h.Set(signatureOf, strings.ReplaceAll(value, "=", "=zz")+"zz") }, 401, Malformed)
		} else {
			change("base64 of another alphabet", func(h http.Header) { h.Set(signatureOf, "v1,____"+value[7:]) }, 401, Forged)
			change("id of another message", func(h http.Header) { h.Set("Webhook-Id", "e-2") }, 401, Forged)
			change("two ids", func(h http.Header) { h.Add("Webhook-Id", "e-1") }, 401, Malformed)
			change("long id", func(h http.Header) { h.Set("Webhook-Id", strings.Repeat("x", maxID+1)) }, 401, Malformed)
			change("several signatures", func(h http.Header) { h.Set(signatureOf, "v1,AAAA v2,x "+value) }, 202, Accepted)
		}
		switch v {
		case config.HookGitHub:
			change("no id", func(h http.Header) { h.Del("X-Github-Delivery") }, 401, Malformed)
			change("SHA-1", func(h http.Header) { h.Set(signatureOf, "sha1="+value[7:]) }, 401, Malformed)
		case config.HookStripe:
			change("several signatures", func(h http.Header) {
				h.Set(signatureOf, strings.Replace(value, ",v1=", ",v1="+mac256("old", "x")+", v1=", 1))
			}, 202, Accepted)
			change("two times", func(h http.Header) { h.Set(signatureOf, value+",t=1") }, 401, Malformed)
			change("only an old scheme", func(h http.Header) { h.Set(signatureOf, strings.Replace(value, "v1=", "v0=", 1)) }, 401, Malformed)
			change("many signatures", func(h http.Header) { h.Set(signatureOf, value+strings.Repeat(",v1="+mac256("x", "x"), 20)) }, 401, Malformed)
		case config.HookSlack:
			change("no time", func(h http.Header) { h.Del("X-Slack-Request-Timestamp") }, 401, Malformed)
			change("another time", func(h http.Header) { h.Set("X-Slack-Request-Timestamp", strconv.FormatInt(time.Now().Unix()+1, 10)) }, 401, Forged)
			change("far time", func(h http.Header) { h.Set("X-Slack-Request-Timestamp", "9223372036854775807") }, 401, Malformed)
		case config.HookHMAC:
			change("with a prefix", func(h http.Header) { h.Set(signatureOf, "sha256="+value) }, 202, Accepted)
		}
		if v != config.HookGitHub && v != config.HookHMAC {
			for _, d := range []time.Duration{-301 * time.Second, 302 * time.Second} {
				attempts = append(attempts, attempt{fmt.Sprint("signed ", d), sign(v, key, "e-1", time.Now().Add(d), body), body, 401, Late})
			}
			attempts = append(attempts, attempt{"5 minutes old", sign(v, key, "e-1", time.Now().Add(-5*time.Minute), body), body, 202, Accepted})
		}
		for _, a := range attempts {
			w := newWorld(t, hooked(v, key))
			w.want(a.name, w.post(a.h, a.body), a.code, a.outcome)
			if shown := w.log.String(); strings.Contains(shown, key) || strings.Contains(shown, value) {
				t.Errorf("%s: logged %s", a.name, shown)
			}
		}
	})
}

// A message that was accepted is answered like the first time, and has no effect: also if it is signed
// anew, or has another id that is not signed. It is forgotten only when its time would not be accepted.
func TestReplays(t *testing.T) {
	schemes(t, func(t *testing.T, v config.HookScheme, key string) {
		const body = `{"id":"evt_1","event_id":"Ev1"}`
		w := newWorld(t, hooked(v, key))
		early := sign(v, key, "e-1", time.Now().Add(5*time.Minute), body) // from a clock that is fast
		if rec := w.post(early, body); rec.Code != 202 {
			t.Fatal(rec.Code)
		}
		again := func(name string, h http.Header, n int) {
			t.Helper()
			if rec := w.post(h, body); rec.Code != 202 || len(w.got) != n {
				t.Errorf("%s: %d, %d deliveries", name, rec.Code, len(w.got))
			}
		}
		again("the same", early, 1)
		again("a second attempt", sign(v, key, "e-1", time.Now(), body), 1)
		if v == config.HookGitHub {
			again("another id, which is not signed", sign(v, key, "e-2", time.Now(), body), 1)
			if w.post(sign(v, key, "e-1", time.Now(), body+" "), body+" "); len(w.got) != 1 {
				t.Error("an id was accepted twice")
			}
		}
		time.Sleep(9*time.Minute + 59*time.Second)
		want := map[config.HookScheme]int{config.HookGitHub: 202, config.HookHMAC: 202}[v]
		if rec := w.post(early, body); want != 0 && rec.Code != want || len(w.got) != 1 {
			t.Errorf("after 10 minutes: %d, %d deliveries", rec.Code, len(w.got))
		}
		time.Sleep(2 * time.Second)
		rec := w.post(early, body)
		if n := map[config.HookScheme]int{config.HookHMAC: 2}[v]; len(w.got) != max(n, 1) { // the others are late now, or GitHub's, which is remembered for a day
			t.Errorf("later: %d, %d deliveries", rec.Code, len(w.got))
		}
	})
}

// A message that was refused is not remembered: its sender may repeat it.
func TestRefusedMessagesMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, hooked(config.HookGitHub, secret))
		for i := range burst {
			w.post(sign(config.HookGitHub, secret, fmt.Sprint(i), time.Now(), fmt.Sprint(i)), fmt.Sprint(i))
		}
		last := sign(config.HookGitHub, secret, "last", time.Now(), "last")
		rec := w.post(last, "last")
		if rec.Code != 429 || rec.Header().Get("Retry-After") != "1" || len(w.got) != burst {
			t.Fatalf("%d after %d", rec.Code, len(w.got))
		}
		time.Sleep(time.Second)
		if rec := w.post(last, "last"); rec.Code != 202 || len(w.got) != burst+1 {
			t.Errorf("%d after %d", rec.Code, len(w.got))
		}
	})
}

// If there are too many messages to remember, new ones are refused; old ones are not forgotten.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		first := keysOf(&claim{}, "first", nil)
		m.add(first, config.HookGitHub, time.Now())
		for i := 0; m.add(keysOf(&claim{}, fmt.Sprint(i), fmt.Append(nil, i)), config.HookGitHub, time.Now()); i++ {
		}
		if len(m.order) != maxRemembered || len(m.known) != maxRemembered || !m.knows(first, time.Now()) || m.wait(time.Now()) != atLeast {
			t.Errorf("%d remembered, wait %v", len(m.order), m.wait(time.Now()))
		}
		time.Sleep(atLeast)
		if !m.knows(first, time.Now()) {
			t.Error("forgotten although there is room")
		}
		if !m.add(keysOf(&claim{}, "new", []byte("new")), config.HookGitHub, time.Now()) || m.knows(first, time.Now()) || len(m.order) > maxRemembered {
			t.Error("there is no room after the tolerance")
		}
		time.Sleep(unsignedTime)
		if m.knows(first, time.Now()); len(m.known) != 0 {
			t.Errorf("%d are still remembered", len(m.known))
		}
	})
}

// Slack checks a URL before it uses it. The answer to an unsigned check reveals nothing.
func TestSlackChallenge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body = `{"token":"x","challenge":"3eZbrw1a<B>","type":"url_verification"}`
		w := newWorld(t, hooked(config.HookSlack, secret))
		rec := w.post(sign(config.HookSlack, secret, "", time.Now(), body), body)
		if rec.Code != 200 || rec.Body.String() != `{"challenge":"3eZbrw1a\u003cB\u003e"}` || rec.Header().Get("Content-Type") != "application/json" || len(w.got) != 0 {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
		if rec := w.post(sign(config.HookSlack, "another-secret-of-it", "", time.Now(), body), body); rec.Code != 401 || rec.Body.Len() > 0 {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	})
}

// endless is a body without an end that counts the bytes read.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read += int64(len(p))
	return len(p), nil
}

func TestBoundsOfRequests(t *testing.T) {
	t.Parallel()
	request := func(method, path string, h http.Header, body io.Reader) *http.Request {
		q := httptest.NewRequest(method, path, body)
		q.Header = h
		return q
	}
	valid := sign(config.HookHMAC, secret, "", time.Now(), "x")
	large := strings.Repeat("x", MaxBody)
	chunked := &endless{}
	declared := request("POST", Path+"repo", valid, io.LimitReader(chunked, 0))
	declared.ContentLength = MaxBody + 1
	for _, c := range []struct {
		name    string
		q       *http.Request
		code    int
		outcome Outcome
	}{
		{"largest", request("POST", Path+"repo", sign(config.HookHMAC, secret, "", time.Now(), large), strings.NewReader(large)), 202, Accepted},
		{"one byte more", request("POST", Path+"repo", sign(config.HookHMAC, secret, "", time.Now(), large+"x"), strings.NewReader(large+"x")), 413, TooLarge},
		{"declared", declared, 413, TooLarge},
		{"endless", request("POST", Path+"repo", valid, chunked), 413, TooLarge},
		{"broken off", request("POST", Path+"repo", valid, io.MultiReader(strings.NewReader("x"), failing{})), 401, Malformed},
	} {
		w := newWorld(t, hooked(config.HookHMAC, secret))
		w.want(c.name, w.do(c.q), c.code, c.outcome)
	}
	if chunked.read > 3*MaxBody {
		t.Errorf("%d bytes were read", chunked.read)
	}
	w := newWorld(t, hooked(config.HookHMAC, secret))
	unread := &endless{}
	if rec := w.do(request("POST", Path+"repo", http.Header{}, unread)); rec.Code != 401 || unread.read != 0 {
		t.Errorf("the body of a message without a signature was read: %d", unread.read)
	}
	if rec := w.do(request("GET", Path+"repo", nil, nil)); rec.Code != 405 || rec.Header().Get("Allow") != "POST" {
		t.Error(rec.Code)
	}
	for _, path := range []string{Path, Path + "other", Path + "repo/", Path + "Repo"} {
		if rec := w.do(request("POST", path, valid, strings.NewReader("x"))); rec.Code != 404 {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
	if len(w.got) > 0 {
		t.Errorf("%+v", w.got)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// 10,000 forged messages cause nothing but counts and one warning, and messages that are right are
// accepted among them.
func TestForgeriesDisplaceNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hooked(config.HookGitHub, secret))
	var running sync.WaitGroup
	var accepted, refused, busy atomic.Int64
	for g := range 4 {
		running.Go(func() {
			for i := range 2500 {
				h := sign(config.HookGitHub, "another-secret-of-it", fmt.Sprint(g, "-", i), time.Now(), "x")
				switch w.post(h, "x").Code {
				case 401:
					refused.Add(1)
				case 503:
					busy.Add(1)
				}
				if i%100 == 0 {
					body := fmt.Sprint(g, " ", i)
					if w.post(sign(config.HookGitHub, secret, body, time.Now(), body), body).Code == 202 {
						accepted.Add(1)
					}
				}
			}
		})
	}
	running.Wait()
	if accepted.Load() != 100 || refused.Load() != 10_000 || busy.Load() != 0 || len(w.got) != 100 {
		t.Errorf("%d accepted, %d refused, %d busy, %d deliveries", accepted.Load(), refused.Load(), busy.Load(), len(w.got))
	}
	if e := w.r.endpoints["repo"]; len(e.memory.order) != 200 {
		t.Errorf("%d keys are remembered", len(e.memory.order))
	}
	if n := strings.Count(w.log.String(), "\n"); n != 1 {
		t.Errorf("%d lines: %s", n, &w.log)
	}
}

// Different messages may have the same body: what is signed of them differs.
func TestEqualBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, hooked(config.HookStandard, standard))
		for i := range 3 {
			h := sign(config.HookStandard, standard, fmt.Sprint("msg_", i), time.Now(), "{}")
			for range 2 {
				if rec := w.post(h, "{}"); rec.Code != 202 {
					t.Error(rec.Code)
				}
			}
			time.Sleep(time.Second)
		}
		if n := w.r.Status()[0].Messages; n[Accepted] != 3 || n[Replayed] != 3 {
			t.Error(n)
		}
	})
}

// The hooks of a new config replace those before. A hook that keeps its id keeps what it remembers.
func TestApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, hooked(config.HookGitHub, secret))
		h := sign(config.HookGitHub, secret, "1", time.Now(), "x")
		w.post(h, "x")
		w.r.Apply([]config.Hook{hooked(config.HookGitHub, "another-secret-of-it", secret)})
		if w.post(h, "x"); len(w.got) != 1 {
			t.Error("the message was forgotten")
		}
		w.r.Apply([]config.Hook{hooked(config.HookGitHub, "another-secret-of-it")})
		if rec := w.post(h, "x"); rec.Code != 401 {
			t.Error("a removed secret is accepted")
		}
		missing := hooked(config.HookGitHub)
		missing.Missing = []string{"not approved"}
		w.r.Apply([]config.Hook{missing})
		if rec := w.post(h, "x"); rec.Code != 503 || w.r.Status()[0].Missing == nil {
			t.Error(rec.Code)
		}
		w.r.Apply(nil)
		if rec := w.post(h, "x"); rec.Code != 404 || len(w.r.Status()) != 0 {
			t.Error(rec.Code)
		}
		// Two configs of the daemon may have the same id.
		other := hooked(config.HookSlack, "another-secret-of-it")
		other.Touches = []config.Touch{{Server: "docs", URI: "**"}}
		w.r.Apply([]config.Hook{hooked(config.HookGitHub, secret), other})
		w.post(sign(config.HookSlack, "another-secret-of-it", "", time.Now(), "y"), "y")
		w.post(sign(config.HookGitHub, secret, "2", time.Now(), "y"), "y")
		if n := len(w.got); n != 3 || len(w.got[1].Hooks) != 1 || len(w.got[1].Hooks[0].Touches) != 1 || w.got[2].Hooks[0].Touches != nil {
			t.Errorf("%+v", w.got)
		}
		w.r.opts.Next = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
		if q := httptest.NewRequest("POST", Path+"elsewhere", nil); w.do(q).Code != http.StatusTeapot {
			t.Error("a path of no hook is not passed on")
		}
	})
}

// Whatever the headers are, nothing panics, and nobody without the secret is accepted.
func FuzzClaims(f *testing.F) {
	for _, name := range config.HookSchemes() {
		for _, values := range sign(config.HookScheme(name), keyOf(config.HookScheme(name)), "e-1", time.Unix(1614265330, 0), "x") {
			f.Add(values[0], "1614265330", "e-1", []byte("y"))
		}
	}
	f.Fuzz(func(t *testing.T, signature, stamp, id string, body []byte) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature}, "X-Github-Delivery": {id},
			"X-Hub-Signature-256": {signature}, "Stripe-Signature": {signature}, "X-Slack-Request-Timestamp": {stamp}, "X-Slack-Signature": {signature}, "X-Signature-256": {signature}}
		for _, name := range config.HookSchemes() {
			v := config.HookScheme(name)
			hook := hooked(v, map[bool]string{true: "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX", false: "fedcba9876543210"}[v == config.HookStandard])
			c, ok := claims(h, &hook)
			if ok && c.signed(h, body, &hook) {
				t.Errorf("%s: forged with %q", name, signature)
			}
			if ok && (len(c.macs) > maxMACs || len(c.id) > maxID) {
				t.Errorf("%s: %+v", name, c)
			}
		}
		inBody(body, config.HookSlack)
		inBody(body, config.HookStripe)
	})
}
