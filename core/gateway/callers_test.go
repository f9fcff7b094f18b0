package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// These methods are what the tool of asking asks for.
const (
	samples = "sampling/createMessage"
	elicits = "elicitation/create"
)

// together is a legacy server whose session all clients share.
type together struct {
	*fixture
	*asking
	folder  string   // in which the clients work
	oneEach []string // servers that turned out to need a session for each client
}

// inTogether runs a test with a server that is shared as change says.
func inTogether(t *testing.T, change func(*together, *Shared), test func(w *together)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &together{fixture: newFixture(t), asking: &asking{}, folder: t.TempDir()}
		w.dial = w.asking.Dial
		w.opts.Callers = NewCallers()
		shared := Shared{Folder: w.folder}
		if change != nil {
			change(w, &shared)
		}
		w.opts.Callers.Serve(map[string]Shared{"docs": shared}, func(server string) { w.oneEach = append(w.oneEach, server) })
		w.start(sessiontest.Entry("docs"))
		test(w)
	})
}

// noSessions makes it impossible to open a session for a single client.
func noSessions(w *together, _ *Shared) {
	w.opts.Dial = func(context.Context, config.Server, session.Options) (*session.Session, error) {
		return nil, errors.New("only one instance can run")
	}
}

// person is a client that answers with its name.
type person struct {
	*session.Session
	w     *fixture
	name  string
	notes messages

	mu    sync.Mutex
	root  string
	pause time.Duration // before an answer
	asked []string
}

// all is what a person declares that can be asked for everything.
const all = `{"elicitation":{},"roots":{"listChanged":true},"sampling":{}}`

func (w *together) person(name, capabilities, root string) *person {
	w.Helper()
	p := &person{w: w.fixture, name: name, root: root}
	p.Session = w.clientOf(session.EraLegacy, &session.ClientSide{Capabilities: json.RawMessage(capabilities), Message: p.notes.add,
		Request: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.asked = append(p.asked, method)
			select {
			case <-time.After(p.pause):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			if method == mcp.MethodListRoots {
				return json.RawMessage(`{"roots":[{"uri":"` + p.root + `"}]}`), nil
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

// wants checks what the server gets, within no time, when a person makes it ask.
func (p *person) wants(method, want string) {
	p.w.Helper()
	began := time.Now()
	if got := p.calls(method); !strings.Contains(got, want) || time.Since(began) > time.Second {
		p.w.Errorf("%s of %s, after %s: %s, want %s", method, p.name, time.Since(began), got, want)
	}
}

// by is part of the answer of a person.
func by(name string) string { return `"by":"` + name + `"` }

func (w *together) wantSessions(want int) {
	w.Helper()
	synctest.Wait()
	w.asking.mu.Lock()
	defer w.asking.mu.Unlock()
	if len(w.conns) != want {
		w.Errorf("%d sessions, want %d", len(w.conns), want)
	}
}

// told returns the last answer that the server has got in a session.
func (w *together) told(session int) string {
	c := w.conns[session]
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.told) == 0 {
		return ""
	}
	return c.told[len(c.told)-1]
}

func uriOf(folder string) string {
	if folder = filepath.ToSlash(folder); !strings.HasPrefix(folder, "/") {
		folder = "/" + folder
	}
	return "file://" + folder
}

// Clients share one session, whatever they declare, and see the same tools. What the server asks because of
// a call is asked of the client that called, or the server is told immediately what that client lacks. Log
// messages reach the client that called.
func TestCallersShareASession(t *testing.T) {
	inTogether(t, nil, func(w *together) {
		ann, bob, cat := w.person("ann", all, ""), w.person("bob", `{"elicitation":{"form":{}}}`, ""), w.person("cat", `{}`, "")
		for _, p := range []*person{ann, bob, cat} {
			w.wantKeys(p.Session, catalog.Tools, "ask", "sample")
		}
		for range 2 {
			ann.wants(samples, by("ann"))
			ann.wants(elicits, by("ann"))
			bob.wants(elicits, by("bob"))
			bob.wants(samples, "it does not support sampling")
			cat.wants(elicits, "it does not support elicitation")
			cat.wants("something/else", "it does not support this method")
		}
		modern := w.clientOf(session.EraModern, &session.ClientSide{Capabilities: json.RawMessage(`{"sampling":{}}`)})
		if got, err := asks(w.Context(), modern, samples, "{}", nil); err != nil || !strings.Contains(string(got["inputRequests"]), samples) {
			w.Errorf("a modern client that can be asked: %s, %v", encode(got), err)
		} else if got, err = asks(w.Context(), modern, samples, "{}", map[string]any{"requestState": got["requestState"], "inputResponses": map[string]any{"q1": map[string]string{"by": "modern"}}}); err != nil || !strings.Contains(string(encode(got)), by("modern")) {
			w.Errorf("its answer: %s, %v", encode(got), err)
		}
		if got, err := ask(w.Context(), w.client(session.EraModern), samples, "{}", ""); err != nil || !strings.Contains(got, "it does not support sampling") {
			w.Errorf("a modern client: %s, %v", got, err)
		}
		w.wantSessions(1)
		if !strings.Contains(w.conns[0].capabilities, `"extensions"`) || len(w.oneEach) != 0 {
			w.Errorf("declared %s; %q", w.conns[0].capabilities, w.oneEach)
		}
		for _, p := range []*person{ann, bob, cat} {
			for _, note := range p.notes.take() {
				if !strings.Contains(note, p.name) {
					w.Errorf("%s got %s", p.name, note)
				}
			}
		}
	})
}

// If requests of several clients are in progress, a question is refused immediately, and nobody is asked. From
// then on, a new client has a session of its own; those that have used the shared one continue.
func TestCallersThatCannotBeToldApart(t *testing.T) {
	inTogether(t, nil, func(w *together) {
		ann, bob := w.person("ann", all, ""), w.person("bob", all, "")
		var calls sync.WaitGroup
		calls.Go(func() { ann.calls("sleep") })
		synctest.Wait()
		bob.wants(samples, "requests of several clients are in progress")
		bob.wants(samples, "requests of several clients are in progress")
		if !slices.Equal(w.oneEach, []string{"docs"}) || len(ann.asked)+len(bob.asked) > 0 {
			w.Errorf("%q; asked %q and %q", w.oneEach, ann.asked, bob.asked)
		}
		cat := w.person("cat", `{"sampling":{}}`, "")
		cat.wants(samples, by("cat"))
		w.wantSessions(2)
		calls.Wait()
		bob.wants(samples, by("bob"))
		ann.wants(samples, by("ann"))
		w.wantSessions(2)
		for _, p := range []*person{ann, bob, cat} {
			_ = p.Close()
		}
		synctest.Wait()
		w.person("dan", all, "").wants(samples, by("dan")) // has the shared session
		w.wantSessions(2)
		w.person("eve", all, "").wants(samples, by("eve"))
		w.wantSessions(3)
	})
	inTogether(t, noSessions, func(w *together) {
		w.opts.Callers.Serve(map[string]Shared{"docs": {OneEach: true}}, nil)
		for _, name := range []string{"ann", "bob"} { // share nevertheless
			w.person(name, all, "").wants(samples, by(name))
		}
	})
}

// A question while no request is in progress is for the only client, if there is one.
func TestQuestionsWithoutARequest(t *testing.T) {
	inTogether(t, nil, func(w *together) {
		question := func() string {
			got := make(chan json.RawMessage, 1)
			c := w.conns[0]
			c.mu.Lock()
			c.last++
			c.asked[c.last] = got
			id := c.last
			c.mu.Unlock()
			c.send(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{}}`, id, elicits)
			return string(<-got)
		}
		if got := question(); !strings.Contains(got, "not clear which client") {
			w.Error(got)
		}
		ann := w.person("ann", all, "")
		if got := question(); !strings.Contains(got, by("ann")) {
			w.Error(got)
		}
		bob := w.person("bob", all, "")
		if got := question(); !strings.Contains(got, "no request of a client is in progress") || len(w.oneEach) > 0 {
			w.Error(got, w.oneEach)
		}
		for _, p := range []*person{ann, bob} {
			p.notes.take()
		}
		w.conns[0].send(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"e1"}}`)
		w.conns[0].send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"nobody called"}}`)
		synctest.Wait()
		for _, p := range []*person{ann, bob} {
			if heard := p.notes.take(); len(heard) != 1 || !strings.Contains(heard[0], "e1") {
				w.Errorf("%s heard %q", p.name, heard)
			}
		}
	})
}

// The server is told immediately that the client that it asks has cancelled its call or left. For a while, what
// it asks because of a cancelled call is asked of nobody else.
func TestAskedCallersThatLeave(t *testing.T) {
	inTogether(t, nil, func(w *together) {
		ann, bob := w.person("ann", all, ""), w.person("bob", all, "")
		answer := func(leave func()) string {
			synctest.Wait()
			leave()
			synctest.Wait() // no time passes
			return w.told(0)
		}
		for _, p := range []*person{ann, bob} {
			p.pause = time.Minute
		}
		var calls sync.WaitGroup
		defer calls.Wait()
		ctx, cancel := context.WithCancel(w.Context())
		calls.Go(func() { _, _ = ask(ctx, ann.Session, samples, "{}", "") })
		if got := answer(cancel); !strings.Contains(got, "has ended") {
			w.Error("cancelled:", got)
		}
		w.advance(time.Second)
		bob.wants(samples, "another client's request, which was cancelled")
		if len(w.oneEach) > 0 || len(bob.asked) > 0 {
			w.Errorf("%q; bob was asked %q", w.oneEach, bob.asked)
		}
		w.advance(maxLate + time.Millisecond)
		calls.Go(func() { bob.calls(samples) })
		if got := answer(func() { _ = bob.Close() }); !strings.Contains(got, "has ended") && !strings.Contains(got, "disconnected") {
			w.Error("left:", got)
		}
	})
}

// A client that does not answer what its roots are delays one call, and not those after it, until it says that
// its roots have changed.
func TestCallersWithoutAnAnswer(t *testing.T) {
	inTogether(t, func(w *together, _ *Shared) { w.roots = true }, func(w *together) {
		mute := w.person("mute", all, uriOf(w.folder))
		mute.pause = time.Hour
		mute.calls("")
		for range 2 {
			mute.wants(mcp.MethodListRoots, "no client of this session")
		}
		mute.pause = 0
		if _, err := mute.Do(w.Context(), session.Request{Method: mcp.NotificationRootsChanged}); err != nil {
			w.Fatal(err)
		}
		mute.wants(mcp.MethodListRoots, uriOf(w.folder))
	})
}

// A server that asks for roots is told the folder of its clients if it is the root of the first of them: also
// if the server asked earlier. Clients without roots have another session then, or the first, and a client
// with other roots has a session of its own, in which the server is told these.
func TestCallersInAFolder(t *testing.T) {
	inTogether(t, func(w *together, _ *Shared) { w.roots = true }, func(w *together) {
		none := w.person("none", `{"sampling":{}}`, "")
		none.calls("")
		if got := w.told(0); !strings.Contains(got, "no client of this session") {
			w.Errorf("without roots, the server was told %s", got)
		}
		eve := w.person("eve", all, uriOf(w.folder))
		eve.wants(mcp.MethodListRoots, uriOf(w.folder))
		w.wantSessions(2)
		none.wants(mcp.MethodListRoots, "no client of this session") // keeps what the server has done without roots
		_, _ = none.Close(), eve.Close()
		w.advance(time.Minute)

		ann := w.person("ann", all, uriOf(w.folder)+"/")
		ann.calls("")
		if got := w.told(0); !strings.Contains(got, uriOf(w.folder)) {
			w.Errorf("the server was told %s", got)
		}
		plain := w.person("plain", `{"sampling":{}}`, "")
		plain.calls("")
		w.wantSessions(3)
		bob := w.person("bob", all, uriOf(w.folder)+`"},{"uri":"file:///elsewhere`)
		bob.calls("")
		w.wantSessions(4)
		if got := w.told(3); !strings.Contains(got, "elsewhere") {
			w.Errorf("the other session was told %s", got)
		}
		ann.wants(mcp.MethodListRoots, uriOf(w.folder))
		plain.wants(mcp.MethodListRoots, "does not support roots")
		bob.wants(mcp.MethodListRoots, "file:///elsewhere")
		w.wantSessions(4)

		ann.mu.Lock()
		ann.root = "file:///new"
		ann.mu.Unlock()
		if _, err := ann.Do(w.Context(), session.Request{Method: mcp.NotificationRootsChanged}); err != nil {
			w.Fatal(err)
		}
		ann.wants(mcp.MethodListRoots, "file:///new")
		w.wantSessions(5)
		_ = w.conns[0].out.Close() // the shared session, which is opened again
		w.advance(time.Minute)
		w.person("dan", all, uriOf(w.folder)).calls("")
		if got := w.told(5); !strings.Contains(got, uriOf(w.folder)) {
			w.Errorf("the new session was told %s", got)
		}
	})
	inTogether(t, func(w *together, s *Shared) {
		w.roots = true
		noSessions(w, s)
	}, func(w *together) {
		w.person("bob", all, "file:///elsewhere").wants("", "its roots are not the folder")
	})
}

// A server that clients in several folders share is told no roots, and a server that one client has is
// told the roots of this client.
func TestCallersWithoutACommonFolder(t *testing.T) {
	inTogether(t, func(w *together, s *Shared) { w.roots, s.Folder = true, "" }, func(w *together) {
		w.person("ann", all, uriOf(w.folder)).wants(mcp.MethodListRoots, "no client of this session")
		w.wantSessions(1)
	})
	inTogether(t, func(w *together, s *Shared) { s.Alone = true }, func(w *together) {
		ann := w.person("ann", all, "file:///a")
		for range 2 {
			ann.wants(mcp.MethodListRoots, "file:///a")
		}
		if _, err := ann.Do(w.Context(), session.Request{Method: mcp.NotificationRootsChanged}); err != nil {
			w.Fatal(err)
		}
		w.wantSessions(1)
		if n := w.conns[0].rootsChanged; n != 1 {
			w.Errorf("the server was told %d times that the roots have changed", n)
		}
	})
}

// Clients share a session whatever log levels they set. The server is told the most verbose one, also in a new
// session. Each client gets what it wants.
func TestCallersWithALogLevel(t *testing.T) {
	inTogether(t, nil, func(w *together) {
		told := func(want string) {
			w.Helper()
			synctest.Wait()
			if got := w.conns[len(w.conns)-1].level; got != want {
				w.Errorf("the server was told %q, want %q", got, want)
			}
		}
		hears := func(p *person, want ...string) {
			w.Helper()
			var call sync.WaitGroup
			call.Go(func() { p.calls("sleep") })
			synctest.Wait()
			for _, level := range []string{"debug", "info", "error", "own"} {
				w.conns[len(w.conns)-1].send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":1}}`, level)
			}
			call.Wait()
			got := p.notes.take()
			for i, note := range got {
				_, note, _ = strings.Cut(note, `"level":"`)
				got[i], _, _ = strings.Cut(note, `"`)
			}
			if !slices.Equal(got, want) {
				w.Errorf("%s heard %q, want %q", p.name, got, want)
			}
		}
		ann, bob := w.person("ann", all, ""), w.person("bob", all, "")
		ann.level("error")
		hears(ann, "error", "own")
		told("error")
		bob.level("info")
		hears(bob, "info", "error", "own")
		told("info")
		hears(ann, "error", "own")
		bob.level("debug")
		bob.calls("")
		told("debug")
		bob.level("warning")
		hears(bob, "error", "own")
		told("debug")
		cat := w.person("cat", all, "") // sets none
		hears(cat, "debug", "info", "error", "own")
		_, _ = bob.Close(), cat.Close()
		_ = w.conns[0].out.Close()
		w.advance(time.Minute)
		ann.calls("")
		told("error")
		w.wantSessions(2)
	})
}

// What a server logs before it responds arrives before the response.
func TestCallersReceiveLogsInOrder(t *testing.T) {
	inTogether(t, nil, func(w *together) {
		ann := w.person("ann", all, "")
		for range 5 {
			ann.calls("log")
			if got := len(ann.notes.take()); got != 100 {
				w.Errorf("%d log messages arrived before the response", got)
			}
		}
	})
}

// Of the levels that two clients set at the same time, the most verbose one stays.
func TestCallersThatSetLogLevelsTogether(t *testing.T) {
	inTogether(t, nil, func(w *together) {
		ann, bob := w.person("ann", all, ""), w.person("bob", all, "")
		ann.level("debug")
		bob.level("error")
		w.conns[0].levelPause = time.Second
		var calls sync.WaitGroup
		calls.Go(func() { ann.calls("") })
		synctest.Wait()
		calls.Go(func() { bob.calls("") })
		calls.Wait()
		if got := w.conns[0].level; got != "debug" {
			w.Errorf("the server was told %q at last", got)
		}
	})
}

// level sets the log level.
func (p *person) level(level string) {
	p.w.Helper()
	if _, err := p.Do(p.w.Context(), session.Request{Method: mcp.MethodSetLevel, Params: map[string]json.RawMessage{"level": quote(level)}}); err != nil {
		p.w.Fatal(err)
	}
}

// A modern server gets the log level of a legacy client with each of its requests.
func TestLogLevelForAModernServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &together{fixture: newFixture(t)}
		docs := w.Serve("docs", session.EraModern)
		docs.SetList(catalog.Tools, tool("dig"))
		docs.Capabilities["logging"] = map[string]any{}
		w.opts.Callers = NewCallers()
		w.opts.Callers.Serve(map[string]Shared{"docs": {}}, nil)
		w.start(sessiontest.Entry("docs"))
		ann := w.person("ann", all, "")
		ann.level("info")
		docs.Fail(sessiontest.Fault{Method: "tools/call", Delay: time.Second})
		var call sync.WaitGroup
		call.Go(func() { _, _ = w.do(ann.Session, "tools/call", `{"name":"dig"}`) })
		synctest.Wait()
		docs.Broadcast(map[string]any{"jsonrpc": "2.0", "method": mcp.NotificationMessage, "params": map[string]any{"level": "info", "data": 1}})
		call.Wait()
		if got := string(fields(w.last("docs", "tools/call")["_meta"])[mcp.MetaLogLevel]); got != `"info"` {
			t.Errorf("the server got %s", got)
		}
		if heard := ann.notes.take(); len(heard) != 1 {
			t.Errorf("ann heard %q", heard)
		}
	})
}

// What a question needs is declared by the client that is asked, as far as its revision of MCP has it.
func TestLacking(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ capabilities, method, params, want string }{
		{`{"sampling":{}}`, samples, `{}`, ""},
		{`{"sampling":{}}`, samples, `{"tools":[]}`, "tools in sampling"},
		{`{"sampling":{"tools":{}}}`, samples, `{"tools":[]}`, ""},
		{`{"elicitation":{}}`, elicits, `{"mode":"form"}`, ""},
		{`{"elicitation":{}}`, elicits, `{"mode":"url"}`, "elicitation with a URL"},
		{`{"elicitation":{"url":{}}}`, elicits, `{"mode":"url"}`, ""},
		{`{"elicitation":{"url":{}}}`, elicits, `{}`, "elicitation with a form"},
		{`{"elicitation":null}`, elicits, `{}`, "elicitation"},
		{`{}`, mcp.MethodListRoots, ``, "roots"},
	} {
		if got := lacking(json.RawMessage(c.capabilities), c.method, json.RawMessage(c.params)); got != c.want {
			t.Errorf("%s, %s %s: %q, want %q", c.capabilities, c.method, c.params, got, c.want)
		}
	}
}
