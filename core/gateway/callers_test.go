package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

const askable = `{"elicitation":{},"roots":{"listChanged":true},"sampling":{}}`

// together runs a test with a legacy server whose session is shared by clients that declare askable.
func together(t *testing.T, test func(a *asking, w *fixture)) {
	t.Helper()
	togetherWith(t, nil, test)
}

// togetherWith is like together, with dial for the sessions of single clients.
func togetherWith(t *testing.T, dial session.DialFunc, test func(a *asking, w *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, w := &asking{}, newFixture(t)
		w.dial, w.opts.Dial = a.Dial, dial
		w.opts.Callers, w.opts.Capabilities = NewCallers(), Shareable(json.RawMessage(askable))
		w.opts.Callers.Serve(map[string]json.RawMessage{"docs": w.opts.Capabilities})
		w.start(sessiontest.Entry("docs"))
		test(a, w)
	})
}

// person is a client that answers with its name.
type person struct {
	*session.Session
	w     *fixture
	name  string
	notes messages

	pause time.Duration // before an answer

	mu    sync.Mutex
	roots string
	asked []string
}

func (w *fixture) person(name, roots string) *person {
	w.Helper()
	p := &person{w: w, name: name, roots: roots}
	p.Session = w.clientOf(session.EraLegacy, &session.ClientSide{Capabilities: json.RawMessage(askable), Message: p.notes.add,
		Request: func(_ context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			time.Sleep(p.pause)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.asked = append(p.asked, method)
			if method == "roots/list" {
				return json.RawMessage(`{"roots":[{"uri":"` + p.roots + `"}]}`), nil
			}
			return json.RawMessage(`{"by":"` + name + `"}`), nil
		}})
	return p
}

// calls calls the tool ask, see asking. It returns the answer that the server got.
func (p *person) calls(method string) string {
	got, err := ask(p.w.Context(), p.Session, method, "{}", p.name+" calls")
	if err != nil {
		return err.Error()
	}
	return got
}

// by reports whether a server got the answer of a person.
func by(name, got string) bool { return strings.Contains(got, `"by":"`+name+`"`) }

func (w *fixture) wantSessions(a *asking, want int) {
	w.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.conns) != want {
		w.Errorf("%d sessions, want %d", len(a.conns), want)
	}
}

// Clients that declare the same use one session, in which the server knows what they declare. No
// other session is opened to learn what it offers them. Its messages reach the client that called.
func TestCallersShareASession(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		ann, bob := w.person("ann", "file:///a"), w.person("bob", "file:///b")
		w.wantKeys(ann.Session, catalog.Tools, "ask", "sample")
		for _, p := range []*person{ann, bob, ann} {
			if got := p.calls(""); !strings.Contains(got, `"content":[]`) {
				w.Error(got)
			}
			synctest.Wait()
		}
		w.wantSessions(a, 1)
		if conns, _ := a.of(`"sampling":{}`); len(conns) != 1 || !strings.Contains(conns[0].capabilities, `"extensions"`) {
			w.Errorf("declared: %+v", conns)
		}
		plain := w.client(session.EraLegacy) // declares less than the session
		if got, err := ask(w.Context(), plain, "", "{}", ""); err != nil || !strings.Contains(got, "content") {
			w.Errorf("%s, %v", got, err)
		}
	})
}

// What a server asks is asked of the client that called, also when several clients call a tool that
// asks for the first time. From then on, one client uses the shared session.
func TestCallersAreAskedForTheirCalls(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		people := []*person{w.person("ann", ""), w.person("bob", ""), w.person("cat", "")}
		var all sync.WaitGroup
		for _, p := range people {
			all.Go(func() {
				for _, method := range []string{"sampling/createMessage", "elicitation/create", "sampling/createMessage"} {
					if got := p.calls(method); !by(p.name, got) {
						w.Errorf("%s: %s", p.name, got)
					}
				}
			})
		}
		all.Wait()
		w.wantSessions(a, 3) // the first client uses the shared one
		for _, p := range people {
			if n := len(p.asked); n != 3 {
				w.Errorf("%s was asked %q", p.name, p.asked)
			}
			for _, note := range p.notes.take() {
				if !strings.Contains(note, p.name) {
					w.Errorf("%s got %s", p.name, note)
				}
			}
			_ = p.Close()
		}
		w.advance(time.Second)
		for _, name := range []string{"dan", "eve"} { // dan gets the shared session
			p := w.person(name, "")
			if got := p.calls("sampling/createMessage"); !by(name, got) {
				w.Error(got)
			}
			if name == "dan" {
				w.wantSessions(a, 3)
			}
		}
		w.wantSessions(a, 4)
	})
}

// A server that asks for roots is shared by clients that have the same.
func TestCallersWithTheSameRootsShare(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		ann, bob, cat := w.person("ann", "file:///a"), w.person("bob", "file:///a"), w.person("cat", "file:///c")
		wants := func(p *person, uri string) {
			t.Helper()
			if got := p.calls("roots/list"); !strings.Contains(got, uri+`"`) {
				w.Errorf("%s: the server was told %s, want %s", p.name, got, uri)
			}
		}
		for range 2 {
			wants(ann, "file:///a")
			wants(bob, "file:///a")
		}
		if len(ann.asked) != 1 || len(bob.asked) != 1 {
			w.Errorf("asked %q and %q", ann.asked, bob.asked)
		}
		w.wantSessions(a, 1)
		wants(cat, "file:///c")
		w.wantSessions(a, 2)

		bob.mu.Lock()
		bob.roots = "file:///b"
		bob.mu.Unlock()
		if _, err := bob.Do(w.Context(), session.Request{Method: "notifications/roots/list_changed"}); err != nil {
			w.Fatal(err)
		}
		wants(bob, "file:///b")
		wants(ann, "file:///a")
		w.wantSessions(a, 3)
	})
}

// Clients whose roots are asked for during their first calls, simultaneously, are not confused.
func TestCallersWithOtherRoots(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		var all sync.WaitGroup
		for i := range 4 {
			p := w.person(fmt.Sprint("p", i), fmt.Sprint("file:///", i))
			all.Go(func() {
				if got := p.calls("roots/list"); !strings.Contains(got, p.roots+`"`) {
					w.Errorf("%s: %s", p.name, got)
				}
			})
		}
		all.Wait()
		w.wantSessions(a, 4)
	})
}

// A client that has a session of its own keeps it, with what the server keeps there for the client.
func TestCallersKeepTheirSessions(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		ann, bob := w.person("ann", ""), w.person("bob", "")
		for _, p := range []*person{ann, bob} {
			if got := p.calls("sampling/createMessage"); !by(p.name, got) {
				w.Errorf("%s: %s", p.name, got)
			}
		}
		a.mu.Lock()
		_ = a.conns[0].out.Close() // the shared session, which is opened again
		a.mu.Unlock()
		w.advance(debounce + time.Millisecond)
		if got := bob.calls("sampling/createMessage"); !by("bob", got) {
			w.Error(got)
		}
		_ = ann.Close()
		w.advance(2 * maxLate)
		if got := bob.calls("sampling/createMessage"); !by("bob", got) {
			w.Error(got)
		}
		if got := w.person("dan", "").calls("sampling/createMessage"); !by("dan", got) {
			w.Error(got)
		}
		w.wantSessions(a, 3) // dan now uses ann's
	})
}

// A client for which the server cannot be started again does not use what it keeps for other roots.
func TestCallersWithOtherRootsDoNotIntrude(t *testing.T) {
	fails := func(context.Context, config.Server, session.Options) (*session.Session, error) {
		return nil, errors.New("only one instance can run")
	}
	togetherWith(t, fails, func(a *asking, w *fixture) {
		ann, bob, cat := w.person("ann", "file:///a"), w.person("bob", "file:///a"), w.person("cat", "file:///c")
		for _, method := range []string{"sampling/createMessage", "roots/list"} {
			ann.calls(method)
		}
		if got := bob.calls("sampling/createMessage"); !by("bob", got) {
			w.Error(got)
		}
		if got := cat.calls("roots/list"); !strings.Contains(got, "its roots are not") {
			w.Error(got)
		}
		w.wantSessions(a, 1)
	})
}

// If several clients have a call in progress, a question waits until it is clear which of them it is
// for. Clients that come meanwhile have sessions of their own.
func TestCallersWaitUntilItIsClear(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		ann, bob, cat := w.person("ann", ""), w.person("bob", ""), w.person("cat", "")
		ann.calls("") // the tool does not ask always
		var all sync.WaitGroup
		all.Go(func() { ann.calls("sleep") })
		w.advance(9500 * time.Millisecond) // of 10 s
		all.Go(func() {
			began := time.Now()
			if got := bob.calls("sampling/createMessage"); !by("bob", got) || time.Since(began) < 400*time.Millisecond {
				w.Errorf("after %s: %s", time.Since(began), got)
			}
		})
		synctest.Wait()
		if got := cat.calls("sampling/createMessage"); !by("cat", got) {
			w.Error(got)
		}
		w.wantSessions(a, 2)
		all.Wait()
		if len(ann.asked) > 0 {
			w.Errorf("ann was asked %q", ann.asked)
		}
	})
}

// If it does not become clear, the server is told so, and it is clear from then on.
func TestCallersThatCannotBeToldApart(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		ann, bob := w.person("ann", ""), w.person("bob", "")
		ann.calls("")
		var all sync.WaitGroup
		for _, p := range []*person{ann, bob} {
			all.Go(func() {
				if got := p.calls("sampling/createMessage"); !strings.Contains(got, "several clients") {
					// the other was refused first, and left this one alone
					if !by(p.name, got) {
						w.Errorf("%s: %s", p.name, got)
					}
				}
			})
			synctest.Wait()
		}
		all.Wait()
		for _, p := range []*person{bob, ann} {
			if got := p.calls("sampling/createMessage"); !by(p.name, got) {
				w.Errorf("%s: %s", p.name, got)
			}
		}
		w.wantSessions(a, 2)
	})
}

// A question that a cancelled call still causes is asked of nobody.
func TestCallersAreNotAskedForTheCallsOfOthers(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		ann, bob := w.person("ann", ""), w.person("bob", "")
		ann.calls("")
		bob.calls("")
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if got, err := ask(ctx, ann.Session, "late sampling/createMessage", "{}", ""); err == nil {
			w.Error(got)
		}
		for range 2 {
			bob.calls("sleep")
		}
		if len(ann.asked)+len(bob.asked) > 0 {
			w.Errorf("asked %q and %q", ann.asked, bob.asked)
		}
		if got := bob.calls("sampling/createMessage"); !by("bob", got) {
			w.Error(got)
		}
	})
}

// The end of an elicitation is announced to the client that was asked, although none of its calls is in
// progress.
func TestCallersHearOfTheirElicitations(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		ann, bob := w.person("ann", ""), w.person("bob", "")
		bob.calls("")
		if got := ann.calls("elicitation/create"); !by("ann", got) {
			w.Error(got)
		}
		synctest.Wait()
		ann.notes.take()
		bob.notes.take()
		a.conns[0].send(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`)
		a.conns[0].send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"nobody called"}}`)
		synctest.Wait()
		if heard, other := ann.notes.take(), bob.notes.take(); len(heard) != 1 || !strings.Contains(heard[0], "e1") || len(other) != 0 {
			w.Errorf("ann heard %q, bob %q", heard, other)
		}
	})
}

// A new session with the server has not been told any roots.
func TestCallersAfterAReconnect(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		ann := w.person("ann", "file:///a")
		ann.calls("roots/list")
		_ = ann.Close()
		_ = a.conns[0].out.Close()
		w.advance(time.Minute)
		cat := w.person("cat", "file:///c")
		if got := cat.calls("roots/list"); !strings.Contains(got, "file:///c") {
			w.Error(got)
		}
		w.wantSessions(a, 2)
	})
}

// A client that sets a log level has a session of its own.
func TestCallersWithALogLevel(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		ann := w.person("ann", "")
		if _, err := ann.Do(w.Context(), session.Request{Method: "logging/setLevel", Params: map[string]json.RawMessage{"level": json.RawMessage(`"error"`)}}); err != nil {
			w.Fatal(err)
		}
		ann.calls("")
		w.wantSessions(a, 2)
		if a.conns[0].level != "" || a.conns[1].level != "error" {
			w.Errorf("levels %q and %q", a.conns[0].level, a.conns[1].level)
		}
	})
}

// Nobody is asked for the call of a client that cannot be asked.
func TestCallersAreNotAskedForOthers(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		ann := w.person("ann", "file:///a")
		ann.calls("")
		plain := map[string]*session.Session{"legacy": w.client(session.EraLegacy), "modern": w.client(session.EraModern)}
		for _, method := range []string{"sampling/createMessage", "roots/list"} {
			for era, c := range plain {
				if got, err := ask(w.Context(), c, method, "{}", ""); err != nil || !strings.Contains(got, "-32601") {
					w.Errorf("%s, %s: %s, %v", era, method, got, err)
				}
			}
		}
		if len(ann.asked) > 0 {
			w.Errorf("ann was asked %q", ann.asked)
		}
		w.wantSessions(a, 1)
	})
}

// Clients whose own sessions cannot be opened use the shared one, and are asked for their calls only.
func TestCallersWithoutSessionsOfTheirOwn(t *testing.T) {
	fails := func(context.Context, config.Server, session.Options) (*session.Session, error) {
		return nil, errors.New("only one instance can run")
	}
	togetherWith(t, fails, func(a *asking, w *fixture) {
		ann, bob := w.person("ann", ""), w.person("bob", "")
		for _, p := range []*person{ann, bob, ann, bob} {
			if got := p.calls("sampling/createMessage"); !by(p.name, got) {
				w.Errorf("%s: %s", p.name, got)
			}
		}
		var all sync.WaitGroup
		all.Go(func() { ann.calls("sleep") })
		w.advance(9500 * time.Millisecond) // of 10 s
		all.Go(func() {
			if got := bob.calls("sampling/createMessage"); !by("bob", got) {
				w.Error(got)
			}
		})
		all.Wait()
		w.wantSessions(a, 1)
	})
}

// A client shares sessions only if it declares something, and runs no tasks for servers.
func TestShareable(t *testing.T) {
	for capabilities, want := range map[string]string{
		`{}`:                           "",
		`{"experimental":{"x":{}}}`:    "",
		`{"roots":{},"sampling":null}`: `{"roots":{}}`,
		`{ "sampling": {"tools": {}}, "roots": {"listChanged": true}, "extensions": {"x": {}} }`: `{"roots":{"listChanged":true},"sampling":{"tools":{}}}`,
		`{"sampling":{},"tasks":{"requests":{}}}`:                                                "",
		`{"sampling":{"x":"` + strings.Repeat("x", maxShareable) + `"}}`:                         "",
		`[]`: "",
		``:   "",
	} {
		if got := Shareable(json.RawMessage(capabilities)); string(got) != want {
			t.Errorf("%.100s: %s, want %s", capabilities, got, want)
		}
	}
}
