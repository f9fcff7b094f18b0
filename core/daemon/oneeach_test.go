package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/session"
)

// asked connects a client that declares capabilities and answers what it is asked with its name.
func (w *world) asked(dir, name, capabilities string) *session.Session {
	w.t.Helper()
	return w.client(ipc.Hello{Folder: dir, Client: name}, nil, session.Options{Era: session.EraLegacy, Client: &session.ClientSide{Capabilities: json.RawMessage(capabilities),
		Request: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"action":"accept","content":{"name":"` + name + `"}}`), nil
		}}})
}

// legacy is for entries of servers that ask in messages of their own.
const legacy = `"protocol":"legacy"`

const askable = `{"elicitation":{},"roots":{"listChanged":true},"sampling":{}}`

// TestDeclared: clients that declare different things share one process, also a command that joins. A question is asked of the
// client that called, or the server is told immediately that the client cannot be asked.
func TestDeclared(t *testing.T) {
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": legacy})
	able, form, plain := w.asked(dir, "able", askable), w.asked(dir, "form", `{"elicitation":{"form":{}}}`), w.asked(dir, "plain", `{}`)
	list := w.client(ipc.Hello{Folder: dir, Join: true}, nil, session.Options{})
	pid := w.call(able, "pid", nil)
	for _, s := range []*session.Session{form, plain, list} {
		if got := w.call(s, "pid", nil); got != pid {
			t.Errorf("process %s, want %s", got, pid)
		}
	}
	for s, want := range map[*session.Session]string{able: `"able"`, form: `"form"`, plain: "it does not support elicitation"} {
		if got := w.call(s, "ask", nil); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestOneEach: a server that asks while calls of several clients are in progress is told immediately that it is
// not clear which one it means. From then on, a new client has a process of its own, also of another
// daemon; those that have used the server continue.
func TestOneEach(t *testing.T) {
	file := filepath.Join(t.TempDir(), daemon.OneEachFile)
	remembering := func(o *daemon.Options) {
		var err error
		if o.OneEach, err = daemon.ReadOneEach(file); err != nil {
			t.Error(err)
		}
	}
	w := start(t, remembering)
	dir := w.folder(map[string]string{"a": legacy})
	ann, bob := w.asked(dir, "ann", askable), w.asked(dir, "bob", askable)
	pid := w.call(bob, "pid", nil)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	calls := filepath.Join(t.TempDir(), "calls")
	waiting.Go(func() {
		_, _ = ann.CallTool(ctx, "wait", map[string]any{"seconds": 3600, "file": calls, "text": "ann"})
	})
	w.until("ann's call is in progress", func() bool { _, err := os.Stat(calls); return err == nil })
	if got := w.call(bob, "ask", nil); !strings.Contains(got, "not clear which client") {
		t.Error(got)
	}
	if st := w.d.Status().Servers; len(st) != 1 || !st[0].OneEach {
		t.Errorf("%+v", st)
	}
	cat := w.asked(dir, "cat", askable)
	if got := w.call(cat, "ask", nil); !strings.Contains(got, `"cat"`) {
		t.Error(got)
	}
	own := w.call(cat, "pid", nil)
	if own == pid {
		t.Error("a new client shares the process")
	}
	if st := w.d.Status().Servers; len(st) != 1 || fmt.Sprint(st[0].Own) != "["+own+"]" {
		t.Errorf("process %s: %+v", own, st)
	}
	if got := w.call(bob, "pid", nil); got != pid {
		t.Error("a client that used the server lost it")
	}
	cancel()
	waiting.Wait()

	w = start(t, remembering)
	dir = w.folder(map[string]string{"b": legacy}) // the same command in another folder
	if first, second := w.call(w.asked(dir, "dan", askable), "pid", nil), w.call(w.asked(dir, "eve", `{}`), "pid", nil); first == second {
		t.Error("it was not remembered")
	}
}

// TestPackages: what needs a process for each client is known by its package, whatever its version and
// arguments.
func TestPackages(t *testing.T) {
	t.Parallel()
	stdio := func(line string) *config.Server {
		words := strings.Fields(line)
		return &config.Server{Transport: config.TransportStdio, Program: config.Program{Command: words[0], Args: words[1:]}}
	}
	remote := &config.Server{Transport: config.TransportHTTP, URL: config.NewSecret("https://example.com/mcp?key=hunter2")}
	file := filepath.Join(t.TempDir(), "f")
	known, err := daemon.ReadOneEach(file)
	must(t, err)
	for _, srv := range []*config.Server{stdio("npx -y @scope/asks@1.0 /a"), stdio("uvx asks-too==2"), stdio("docker run -i img/asks:3"), stdio("/bin/asks --token hunter2"), remote} {
		must(t, known.Add(srv))
	}
	again, err := daemon.ReadOneEach(file)
	must(t, err)
	for _, srv := range []*config.Server{stdio("bunx @scope/asks@latest"), stdio("uvx --from asks_too x"), stdio("docker run img/asks"), stdio("/bin/asks --token hunter2"), remote} {
		if !again.Has(srv) {
			t.Errorf("%s %q is not known", srv.Command, srv.Args)
		}
	}
	for _, srv := range []*config.Server{stdio("npx asks"), stdio("/bin/asks"), stdio("uvx other")} {
		if again.Has(srv) {
			t.Errorf("%s %q is known", srv.Command, srv.Args)
		}
	}
	for n := range 2000 {
		must(t, known.Add(stdio(fmt.Sprint("npx p", n))))
	}
	if known.Has(remote) || !known.Has(stdio("npx p1999")) {
		t.Error("not the oldest were forgotten")
	}
}

// TestQuestions: of many clients that call one server, some of whose calls ask, each gets its own answers: every
// question is answered by the client that called, or refused because it is not clear who called.
func TestQuestions(t *testing.T) {
	clients, calls := 50, 200
	if testing.Short() {
		clients, calls = 8, 25
	}
	w := start(t, nil)
	dir := w.folder(map[string]string{"a": legacy})
	var all sync.WaitGroup
	for n := range clients {
		name := fmt.Sprint("client", n)
		s := w.asked(dir, name, askable)
		all.Go(func() {
			for i := range calls {
				if i%10 != n%10 {
					want := fmt.Sprintf("%s.%d", name, i)
					if got, err := w.tryCall(s, "echo", map[string]any{"text": want}); err != nil || got != want {
						t.Errorf("%s: %s, %v", want, got, err)
					}
				} else if got, err := w.tryCall(s, "ask", nil); err != nil || !strings.Contains(got, `"`+name+`"`) && !strings.Contains(got, "not clear which client") {
					t.Errorf("%s asked: %s, %v", name, got, err)
				}
			}
		})
	}
	all.Wait()
}
