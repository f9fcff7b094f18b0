package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/session"
)

// referenceWorld is a gateway over server-everything, which lists more tools for clients that can
// be asked, with a client of either kind.
type referenceWorld struct {
	*outside
	tools   string // a file with the names of further tools
	clients map[string]*session.Session
}

func newReferenceWorld(t *testing.T) *referenceWorld {
	file := filepath.Join(t.TempDir(), "tools")
	w := &referenceWorld{newOutside(t, Options{}, nodeServer(t, "everything", "everything_more.mjs", file)), file, map[string]*session.Session{}}
	w.clients["plain"] = w.over(session.EraLegacy, nil)
	w.clients["capable"] = w.over(session.EraLegacy, &session.ClientSide{Capabilities: json.RawMessage(`{"sampling":{},"elicitation":{},"roots":{}}`),
		Request: func(context.Context, string, json.RawMessage) (json.RawMessage, error) { return nil, notFound() }})
	w.eventually("more tools", func() bool { return w.has("capable", catalog.Tools, "trigger-sampling-request") }) // a slow machine lists the common tools first
	w.quiet()
	for _, c := range w.clients {
		if _, err := c.Subscribe(t.Context(), session.Filter{Tools: true, Resources: true}); err != nil {
			t.Fatal(err)
		}
		c.Signals().Take()
	}
	return w
}

func (w *referenceWorld) has(who string, k catalog.Kind, key string) bool {
	w.Helper()
	list, err := w.clients[who].List(w.Context(), k)
	if err != nil {
		w.Fatal(err)
	}
	_, ok := list.Get(key)
	return ok
}

// quiet waits until no probe is in progress or due, and the last result is served.
func (w *referenceWorld) quiet() {
	w.Helper()
	w.eventually("no probe", func() bool {
		s := &w.gateway.variants
		snap := w.gateway.tracker.Snapshot()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, of := range s.byKey {
			for id, p := range of.probes {
				st, _ := snap.Server(id)
				if p.running || p.due(p.srv, st.Lists) {
					return false
				}
			}
		}
		return true
	})
	if err := w.gateway.flush(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// wantAdded checks that all clients are notified once that a list changed, and that they find an
// item in it then and after the next probe.
func (w *referenceWorld) wantAdded(k catalog.Kind, key string) {
	w.Helper()
	for who, c := range w.clients {
		w.eventually(who+" is notified", func() bool { return strings.Contains(received(c), string(k)) })
		if !w.has(who, k, key) {
			w.Errorf("%s is notified, but %s is not listed", who, key)
		}
	}
	w.quiet()
	for who, c := range w.clients {
		if !w.has(who, k, key) {
			w.Errorf("%s is not listed for %s after the probe", key, who)
		}
		if again := received(c); again != "" {
			w.Errorf("%s is notified again: %s", who, again)
		}
	}
	if !w.has("capable", catalog.Tools, "trigger-sampling-request") || w.has("plain", catalog.Tools, "trigger-sampling-request") {
		w.Error("the tools for clients that can be asked are gone, or for all")
	}
}

// An item that a server adds or removes changes for all clients in the same step, even if some of
// them see more, and they can call it. An item that only the shared session lists stays.
func TestReferenceServerChangesForAll(t *testing.T) {
	t.Parallel()
	w := newReferenceWorld(t)
	for n := range 3 {
		name := fmt.Sprint("more-", n)
		if err := errors.Join(os.WriteFile(w.tools+".new", []byte(name+"\n"), 0o600), os.Rename(w.tools+".new", w.tools)); err != nil {
			t.Fatal(err)
		}
		w.wantAdded(catalog.Tools, name)
		for who, c := range w.clients {
			w.eventually(who+" calls it", func() bool { // each session of the server notices it separately
				got, err := w.do(c, "tools/call", `{"name":"`+name+`","arguments":{}}`, "")
				if err != nil && strings.Contains(err.Error(), `unknown tool "`) {
					t.Errorf("%s: %v", who, err)
				}
				return err == nil && strings.Contains(string(got["content"]), "this is "+name)
			})
		}
		if n > 0 && w.has("capable", catalog.Tools, fmt.Sprint("more-", n-1)) {
			t.Error("the former one is still listed")
		}
	}
	const file = "demo://resource/session/f.gz"
	if got, err := w.do(w.clients["plain"], "tools/call", `{"name":"gzip-file-as-resource","arguments":{"name":"f.gz","data":"data:text/plain;base64,aGk=","outputType":"resourceLink"}}`, ""); err != nil || got["isError"] != nil {
		t.Fatalf("%s, %v", encode(got), err)
	}
	w.wantAdded(catalog.Resources, file)
}
