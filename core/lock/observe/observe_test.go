package observe_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/observe"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// offered returns "section key" of all items of an observation, sorted. It fails on a problem.
func offered(t *testing.T, o lock.Observation) []string {
	t.Helper()
	var all []string
	for section, items := range o {
		for _, it := range items {
			if it.Problem != "" || it.Hash == "" {
				t.Errorf("%s %s has the hash %q and the problem %q", section, it.Key, it.Hash, it.Problem)
			}
			all = append(all, strings.TrimSpace(string(section)+" "+it.Key))
		}
	}
	slices.Sort(all)
	return all
}

func TestServers(t *testing.T) {
	t.Parallel()
	var n sessiontest.Net
	defer n.Wait()
	srv := n.Serve("docs", session.EraModern)
	srv.Instructions = "Be kind."
	srv.SetQuietly("file:///a.md", "one")
	srv.SetList(catalog.Tools, json.RawMessage(`{"name":"draw","x-unknown":1}`))
	srv.SetListForCapable(catalog.Tools, json.RawMessage(`{"name":"ask"}`))
	progress := 0
	got := observe.Servers(t.Context(), []config.Server{sessiontest.Entry("docs")}, observe.Options{
		Probe: session.ProbeOptions{Dial: n.Dial}, Progress: func(string) { progress++ }})
	if len(got) != 1 || got[0].Err != nil || progress != 1 {
		t.Fatalf("%+v, progress %d", got, progress)
	}
	o := got[0].Offered
	if items, want := offered(t, o), []string{"capabilities", "instructions", "launch", "resources file:///a.md", "tools draw"}; !slices.Equal(items, want) {
		t.Errorf("%q, want %q", items, want)
	}
	if len(o) != 7 {
		t.Errorf("%d sections were listed", len(o))
	}
	if want := `{"name":"draw","x-unknown":1}`; !equalJSON(t, o[lock.SectionTools][0].Definition, want) {
		t.Errorf("the definition is %s, want %s", o[lock.SectionTools][0].Definition, want)
	}
}

func equalJSON(t *testing.T, got json.RawMessage, want string) bool {
	t.Helper()
	a, err := catalog.Fingerprint(got)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := catalog.Fingerprint(json.RawMessage(want))
	return a == b
}

// A server that cannot be listed completely has no observations: half a list would look like removed
// items. The others do not wait for it.
func TestServersThatFail(t *testing.T) {
	t.Parallel()
	var n sessiontest.Net
	defer n.Wait()
	for i := range 40 {
		n.Serve(fmt.Sprintf("s%02d", i), session.EraModern).SetList(catalog.Tools, json.RawMessage(`{"name":"draw"}`))
	}
	n.Server("s03").Fail(sessiontest.Fault{Method: "prompts/list", Code: -32603, Message: "out of cheese"})
	down := errors.New("connection refused")
	n.SetDown("s05", down)
	var servers []config.Server
	for i := range 40 {
		servers = append(servers, sessiontest.Entry(fmt.Sprintf("s%02d", 39-i)))
	}
	for i, r := range observe.Servers(t.Context(), servers, observe.Options{Probe: session.ProbeOptions{Dial: n.Dial}}) {
		switch {
		case r.Server.ID != fmt.Sprintf("s%02d", i):
			t.Errorf("result %d is of %s", i, r.Server.ID)
		case i == 3 && (r.Err == nil || !strings.Contains(r.Err.Error(), "out of cheese") || r.Offered != nil):
			t.Errorf("%s: %v, %v", r.Server.ID, r.Err, r.Offered)
		case i == 5 && !errors.Is(r.Err, down):
			t.Errorf("%s: %v", r.Server.ID, r.Err)
		case i != 3 && i != 5 && (r.Err != nil || r.Offered == nil):
			t.Errorf("%s: %v, %v", r.Server.ID, r.Err, r.Offered)
		}
	}
}

// The contents of the resources that the config pins belong to what is offered.
func TestServersContents(t *testing.T) {
	t.Parallel()
	var n sessiontest.Net
	defer n.Wait()
	docs := n.Serve("docs", session.EraModern)
	docs.SetQuietly("file:///a/one.md", "one")
	docs.SetQuietly("file:///b/two.md", "two")
	docs.SetResource("file:///a/three.png", sessiontest.Resource{MimeType: "image/png", Blob: []byte{1, 2}})
	docs.SetQuietly("file:///a/gone.md", "")
	docs.Fail(sessiontest.Fault{Method: "resources/read", URI: "file:///a/gone.md", Code: -32002, Message: "Resource not found"})
	docs.Fail(sessiontest.Fault{Method: "resources/read", URI: "file:///b/two.md", Code: -32603, Message: "out of cheese"})
	read := func(globs ...string) observe.Result {
		entry := sessiontest.Entry("docs", func(s *config.Server) { s.PinContent = globs })
		return observe.Servers(t.Context(), []config.Server{entry}, observe.Options{Probe: session.ProbeOptions{Dial: n.Dial}})[0]
	}
	r := read("file:///a/**")
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	var got []string
	for _, it := range r.Offered[lock.SectionContents] {
		got = append(got, it.Key+" "+string(it.Definition))
	}
	want := []string{
		`file:///a/one.md {"uri":"file:///a/one.md","mimeType":"text/plain","size":3,"sha256":"7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed","text":"one"}`,
		`file:///a/three.png {"uri":"file:///a/three.png","mimeType":"image/png","size":2,"sha256":"a12871fee210fb8619291eaea194581cbd2531e4b23759d225f6806923f63222"}`,
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("contents\n%s", strings.Join(got, "\n"))
	}
	if r := read("file:///b/*"); r.Err == nil || !strings.Contains(r.Err.Error(), "file:///b/two.md: ") || r.Offered != nil {
		t.Errorf("%v, %v", r.Err, r.Offered)
	}
}

// What repeats a credential of the config cannot be approved, and does not show the credential. Ordinary
// settings are no credentials.
func TestServersThatRepeatCredentials(t *testing.T) {
	t.Parallel()
	var n sessiontest.Net
	defer n.Wait()
	docs := n.Serve("docs", session.EraModern)
	docs.Instructions = "You use production."
	docs.SetList(catalog.Tools, json.RawMessage(`{"name":"draw","description":"in production"}`),
		json.RawMessage(`{"name":"leak","description":"The key is \u0063orrect-horse-7, or correct-horse-77."}`))
	docs.SetList(catalog.Prompts, json.RawMessage(`{"name":"correct-horse-7","x":{"correct-horse-7":1}}`))
	docs.SetQuietly("file:///a.md", "correct-horse-7")
	entry := sessiontest.Entry("docs", func(s *config.Server) {
		s.PinContent = []string{"**"}
		s.Env = map[string]config.Secret{"API_KEY": config.NewSecret("correct-horse-7"), "MODE": config.NewSecret("production")}
	})
	r := observe.Servers(t.Context(), []config.Server{entry}, observe.Options{Probe: session.ProbeOptions{Dial: n.Dial}})[0]
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	var refused []string
	for section, items := range r.Offered {
		for _, it := range items {
			if strings.Contains(it.Key+string(it.Definition), "orrect-horse") {
				t.Errorf("%s: %s", it.Key, it.Definition)
			}
			if (it.Problem == "") != (it.Hash != "") || !json.Valid(it.Definition) {
				t.Errorf("%+v", it)
			}
			if it.Problem != "" {
				refused = append(refused, lock.Name(section, it.Key))
			}
		}
	}
	slices.Sort(refused)
	if want := []string{"content/file:///a.md", "prompt/[redacted]", "tool/leak"}; !slices.Equal(refused, want) {
		t.Errorf("%q, want %q", refused, want)
	}
	if s := lock.NewServer(r.Offered); len(s.Items[lock.SectionTools]) != 1 {
		t.Errorf("%+v", s)
	}
}
