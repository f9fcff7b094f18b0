//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// printed runs commands and checks the JSON that they print.
type printed struct {
	*testing.T
	home, dir string
}

// decode returns the values in text: one document, or NDJSON.
func (d printed) decode(what string, text []byte) (docs []any) {
	d.Helper()
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var doc any
		switch err := dec.Decode(&doc); err {
		case nil:
			docs = append(docs, doc)
		case io.EOF:
			if len(docs) == 1 {
				if list, ok := docs[0].([]any); ok {
					return list
				}
			}
			return docs
		default:
			d.Fatalf("%s: %v in %s", what, err, text)
		}
	}
}

// prints runs a command with --json and returns the elements that it prints.
func (d printed) prints(code int, args ...string) []any {
	d.Helper()
	cmd := mcptrackCommand(d.Context(), append(args, "--json")...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "HOME="+d.home, "XDG_STATE_HOME="+d.home, "XDG_CONFIG_HOME="+d.home, "XDG_CACHE_HOME="+d.home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		d.Fatalf("%q ended with %d, want %d:\n%s%s", args, got, code, &out, &errs)
	}
	return d.decode(strings.Join(args, " "), out.Bytes())
}

// gets requests a path of a serve-sse and returns the elements of the response.
func (d printed) gets(address string) []any {
	d.Helper()
	q, err := http.NewRequestWithContext(d.Context(), http.MethodGet, address, nil)
	if err != nil {
		d.Fatal(err)
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		d.Fatal(err)
	}
	defer p.Body.Close()
	body, err := io.ReadAll(p.Body)
	if err != nil || p.StatusCode != http.StatusOK {
		d.Fatalf("%s: %s %v", address, p.Status, err)
	}
	return d.decode(address, body)
}

// member returns a member of the only element of docs, as a list.
func (d printed) member(docs []any, name string) []any {
	d.Helper()
	if len(docs) != 1 {
		d.Fatalf("%d documents, want 1", len(docs))
	}
	list, ok := docs[0].(map[string]any)[name].([]any)
	if !ok {
		d.Fatalf("no list %s in %v", name, docs[0])
	}
	return list
}

// A rule checks one element; it returns what is wrong, or "".
type rule func(m map[string]any) string

// states are the states of servers in JSON.
func states() []string {
	return []string{"Ready", "Connecting", "Backoff", "Unsupported", "NeedsAuth", "Unconfigured", "Unapproved", "Disabled", "Stopping"}
}

// aboutServer returns the rule for documents about a server itself. allowed are the values of state.
func aboutServer(allowed ...string) rule {
	return func(m map[string]any) string {
		if id, _ := m["id"].(string); id == "" || m["serverId"] != nil {
			return "has no id, or has serverId"
		}
		if state, has := m["state"]; has && !slices.Contains(allowed, fmt.Sprint(state)) {
			return fmt.Sprintf("has the state %v", state)
		}
		return ""
	}
}

// ofServer is the rule for documents about something of a server.
func ofServer(m map[string]any) string {
	if id, _ := m["serverId"].(string); id == "" {
		return "has no serverId"
	}
	for _, name := range []string{"uri", "uriTemplate", "name"} {
		if s, _ := m[name].(string); s != "" {
			return ""
		}
	}
	return "has neither uri nor name"
}

// aFinding is the rule for what audit finds on a server or an item of it.
func aFinding(m map[string]any) string {
	server, _ := m["serverId"].(string)
	if id, _ := m["id"].(string); server == "" || id == "" || m["uri"] != nil || m["name"] != nil {
		return "has no serverId or no id of a rule, or has uri or name"
	}
	return ""
}

// anEvent is the rule for events.
func anEvent(m map[string]any) string {
	typ, _ := m["type"].(string)
	if id, _ := m["serverId"].(string); typ == "" || id == "" || m["uri"] != nil {
		return "has no type or no serverId, or has uri"
	}
	if uri, _ := m["resourceUri"].(string); strings.HasPrefix(typ, "resource.") && uri == "" {
		return "has no resourceUri"
	}
	allowed := append(states(), "Pending")
	if typ == "lock.drift" { // the state of an item
		allowed = []string{"changed", "approved", "resolved"}
	}
	if state, has := m["state"]; has && !slices.Contains(allowed, fmt.Sprint(state)) {
		return fmt.Sprintf("has the state %v", state)
	}
	return ""
}

// foreign returns a member, at any depth, with another name for serverId, uri or resourceUri.
func foreign(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			switch strings.ReplaceAll(strings.ToLower(name), "_", "") {
			case "server", "resource", "serverid", "resourceuri":
				if name != "serverId" && name != "resourceUri" {
					return name
				}
			}
			if strings.HasSuffix(name, "Schema") {
				continue // written by the server
			}
			if found := foreign(value); found != "" {
				return found
			}
		}
	case []any:
		for _, value := range v {
			if found := foreign(value); found != "" {
				return found
			}
		}
	}
	return ""
}

// follow checks that there are at least n elements, and that each follows the rule. A nil rule checks
// only the names of members.
func (d printed) follow(what string, elements []any, n int, is rule) {
	d.Helper()
	if len(elements) < n {
		d.Errorf("%s: %d elements, want at least %d", what, len(elements), n)
	}
	for _, e := range elements {
		m, ok := e.(map[string]any)
		if !ok {
			d.Errorf("%s: %v is no object", what, e)
			continue
		}
		if name := foreign(m); name != "" {
			d.Errorf("%s: a member is named %s in %v", what, name, m)
		}
		if is == nil {
			continue
		}
		if wrong := is(m); wrong != "" {
			d.Errorf("%s: %s: %v", what, wrong, m)
		}
	}
}

// TestDocuments: in the JSON of every command and of serve-sse, documents about a server have id,
// documents about something of a server have serverId and uri or name, events have serverId and
// resourceUri, and the states are those of events.
func TestDocuments(t *testing.T) {
	t.Parallel()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(locked.Close)
	d := printed{t, t.TempDir(), t.TempDir()}
	demo, all := filepath.Join(d.dir, "demo.json"), filepath.Join(d.dir, "all.json")
	save(t, demo, config(`"demo": `+demoEntry(t, markOf(t), "")))
	save(t, all, config(
		`"demo": `+demoEntry(t, markOf(t), `, "trackResources": true, "trackTools": true`),
		`"dies": {"command": "sh", "args": ["-c", "exit 3"], "trackResources": true}`,
		`"locked": {"url": "`+locked.URL+`/mcp", "trackResources": true}`,
		`"none": {"command": "/nowhere/server", "trackResources": true}`,
		`"off": {"command": "sh", "disabled": true}`,
		fmt.Sprintf(`"up": {"command": %q, "args": ["gateway", "--stdio", "--config", %q, "--events", "--data-dir", %q]}`, mcptrackPath(t), demo, filepath.Join(d.dir, "up"))))

	kinds := filepath.Join(d.dir, "kinds.json")
	save(t, kinds, config(`"demo": `+demoEntry(t, markOf(t), ""),
		fmt.Sprintf(`"up": {"command": %q, "args": ["gateway", "--stdio", "--config", %q, "--events", "--data-dir", %q]}`, mcptrackPath(t), demo, filepath.Join(d.dir, "kinds"))))

	// The servers and what they offer.
	server, listed := aboutServer(states()...), append(states(), "Failed")
	servers := d.prints(4, "list", "--config", all)
	d.follow("list", servers, 5, aboutServer(listed...))
	seen := map[string]any{}
	for _, s := range servers {
		seen[s.(map[string]any)["id"].(string)] = s.(map[string]any)["state"]
	}
	if want := "map[demo:Ready dies:Failed locked:NeedsAuth none:Unconfigured up:Ready]"; fmt.Sprint(seen) != want {
		t.Errorf("list: states %v, want %s", seen, want)
	}
	for kind, n := range map[string]int{"resources": 8, "templates": 2, "prompts": 1, "tools": 4, "events": 1} {
		d.follow("list "+kind, d.prints(0, "list", kind, "--config", kinds), n, ofServer)
	}
	audit := d.prints(0, "audit", "--config", demo)
	d.follow("servers of audit", d.member(audit, "servers"), 1, server)
	d.follow("findings of audit", d.member(audit, "findings"), 3, aFinding)
	d.follow("validate", d.member(d.prints(0, "validate", all), "files"), 1, func(m map[string]any) string {
		d.follow("servers of validate", m["servers"].([]any), 6, server)
		return ""
	})

	// The lock, and what differs from it.
	d.follow("servers of lock", d.member(d.prints(0, "lock", "--config", demo), "servers"), 1, aboutServer())
	pinned := filepath.Join(d.dir, "pinned.json")
	save(t, pinned, config(`"demo": `+demoEntry(t, markOf(t), `, "pinContent": ["vault://note/guide.md"]`)))
	anItem := func(m map[string]any) string {
		return ofServer(map[string]any{"serverId": m["serverId"], "name": m["item"]})
	}
	d.follow("changes of verify", d.member(d.prints(7, "verify", "--config", pinned), "items"), 1, anItem)
	d.follow("changes of review", d.member(d.prints(7, "review", "--config", pinned), "items"), 1, anItem)
	d.follow("changes of reject", d.member(d.prints(0, "reject", "demo", "--config", pinned), "items"), 1, anItem)
	d.follow("changes of approve", d.member(d.prints(0, "approve", "demo:content/vault://note/guide.md", "--config", pinned), "items"), 1, anItem)

	// Logins, whose state is not the state of the server.
	d.follow("auth", d.prints(0, "auth", "--config", all), 1, aboutServer("none"))
	d.follow("logout", d.prints(0, "logout", "locked", "--config", all), 1, server)

	// Events and messages.
	d.follow("watch", d.prints(0, "watch", "--config", all, "--count", "2", "--timeout", "5m"), 3, anEvent)
	d.follow("subscribe", d.prints(0, "subscribe", "demo", "--config", all, "--count", "2", "--timeout", "5m"), 3, anEvent)
	d.follow("inject --dry-run", d.prints(0, "inject", "--config", all, "--count", "2", "--timeout", "5m", "--dry-run"), 2, nil)

	// A running serve-sse and its log.
	data := filepath.Join(d.dir, "events")
	s := serveBeside(t, "--config", all, "--data-dir", data)
	s.events(8, "")
	const clock = "vault://note/clock.md"
	waitFor(t, "two versions of the clock", func() bool {
		versions, _ := d.gets(s.url + "/api/history?server=demo&uri=" + clock)[0].(map[string]any)["versions"].([]any)
		return len(versions) > 1
	})
	d.follow("status", d.member(d.prints(0, "status", s.url), "servers"), 4, server)
	d.follow("tail", d.prints(0, "tail", s.url, "--since", "1h", "--count", "8"), 8, anEvent)
	d.follow("history", d.prints(0, "history", "demo", clock, "--url", s.url), 2, nil)
	d.follow("diff", d.prints(0, "diff", "demo", clock, "--url", s.url), 1, ofServer)
	d.follow("/api/servers", d.gets(s.url+"/api/servers"), 4, server)
	d.follow("/api/servers/demo", d.gets(s.url+"/api/servers/demo"), 1, server)
	d.follow("/api/servers/demo/resources", d.gets(s.url+"/api/servers/demo/resources"), 8, ofServer)
	d.follow("/api/history", d.member(d.gets(s.url+"/api/history"), "events"), 8, anEvent)
	d.follow("/api/history of the clock", d.gets(s.url+"/api/history?server=demo&uri="+clock), 1, ofServer)
	overview := d.gets(s.url + "/api/status")
	d.follow("/api/status", overview, 1, nil)
	for state := range overview[0].(map[string]any)["states"].(map[string]any) {
		if !slices.Contains(states(), state) {
			t.Errorf("/api/status: the state %s", state)
		}
	}
	s.stop(syscall.SIGTERM)
	d.follow("replay", d.prints(0, "replay", "--data-dir", data, "--since", time.Hour.String()), 8, anEvent)
}
