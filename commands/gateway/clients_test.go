package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// clientsWorld is a gateway whose config has clients.
type clientsWorld struct{ *identityWorld }

const (
	ciToken   = "token-of-the-client-ci"
	workToken = "token-of-the-client-work"
)

// set writes the config with these clients.
func (w *clientsWorld) set(clients string) {
	w.Helper()
	var cfg struct {
		Servers json.RawMessage `json:"mcpServers"`
	}
	if err := json.Unmarshal(w.entries, &cfg); err != nil {
		w.Fatal(err)
	}
	w.save("mcp.json", `{"mcpServers":`+string(cfg.Servers)+`,"clients":`+clients+`}`)
}

// as sends a request with a token, and returns the status and the text of the answer.
func (w *clientsWorld) as(token, method, params string) (int, string) {
	w.Helper()
	p := w.open(w.Context(), token, method, params)
	defer func() { _ = p.Body.Close() }()
	raw, err := io.ReadAll(p.Body)
	if err != nil {
		w.Fatal(err)
	}
	return p.StatusCode, string(raw)
}

func (w *clientsWorld) open(ctx context.Context, token, method, params string) *http.Response {
	w.Helper()
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	params = "{" + meta + strings.Replace(","+strings.TrimPrefix(params, "{"), ",}", "}", 1)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	if err != nil {
		w.Fatal(err)
	}
	var named struct{ Name, URI string }
	_ = json.Unmarshal([]byte(params), &named)
	for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": named.Name + named.URI} {
		if value != "" && token != "" || name != "Authorization" && value != "" {
			q.Header.Set(name, value)
		}
	}
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// get returns the status of a route.
func (w *clientsWorld) get(token, path string) int {
	w.Helper()
	q, err := http.NewRequestWithContext(w.Context(), http.MethodGet, strings.TrimSuffix(w.url, "/mcp")+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		w.Fatal(err)
	}
	_ = p.Body.Close()
	return p.StatusCode
}

// names returns the names or URIs that a token's client lists.
func (w *clientsWorld) names(token, kind string) string {
	w.Helper()
	_, text := w.as(token, kind+"/list", "{}")
	var answer struct {
		Result map[string]json.RawMessage
	}
	_, data, stream := strings.Cut(text, "data: ")
	if !stream {
		data = text
	}
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&answer); err != nil {
		w.Fatalf("%s: %s", kind, text)
	}
	var items []struct{ Name, URI string }
	_ = json.Unmarshal(answer.Result[kind], &items) // no items on an error
	var all []string
	for _, it := range items {
		if kind == "resources" {
			it.Name = it.URI
		}
		all = append(all, it.Name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// until waits until a condition holds.
func (w *clientsWorld) until(what string, condition func() bool) {
	w.Helper()
	for end := time.Now().Add(time.Minute); !condition(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatal("never: " + what)
		}
	}
}

// stream returns the lines of a subscription to everything that a client may hear of; the channel is closed when it ends.
func (w *clientsWorld) stream(token, filter string) <-chan string {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	p := w.open(ctx, token, "subscriptions/listen", `{"notifications":`+filter+`}`)
	lines := make(chan string, 1000) // sent to by the goroutine below, which closes it
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(p.Body); s.Scan(); {
			if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				lines <- data
			}
		}
	}()
	w.Cleanup(func() {
		cancel()
		_ = p.Body.Close()
		for range lines { // until it is closed
		}
	})
	return lines
}

// TestClientsOfTheConfig: each client sees what the config lets it see, and changes of the config take effect while
// clients are connected.
func TestClientsOfTheConfig(t *testing.T) {
	w := &clientsWorld{newIdentityWorld(t, "a", "b")}
	for _, s := range w.servers {
		s.SetList(catalog.Tools, named("read"), named("write"))
		s.SetList(catalog.Prompts, map[string]any{"name": "ask"})
	}
	w.servers["a"].SetQuietly("x://a/secret", "s")
	w.log = append(w.log, "--index", "--deny", "*nothing*")
	const ci = `"ci":{"token":"` + ciToken + `","servers":["a"],"allow":["read","x://a/**"],"deny":["x://a/secret"]}`
	w.set(`{` + ci + `,"work":{"token":"` + workToken + `"},"none":{"token":"${UNSET}"}}`)
	w.start()
	w.until("the log says why a client is refused", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Contains(w.said, "client=none") && strings.Contains(w.said, "UNSET")
	})

	for _, c := range []struct{ token, kind, want string }{
		{ciToken, "tools", "read"}, {workToken, "tools", "a_read a_write b_read b_write"}, {identityToken, "tools", "a_read a_write b_read b_write"},
		{ciToken, "prompts", ""}, {workToken, "prompts", "a_ask b_ask"},
	} {
		if got := strings.TrimSpace(strings.ReplaceAll(w.names(c.token, c.kind), "search_capabilities", "")); got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.kind, c.token, got, c.want)
		}
	}
	if got := w.names(ciToken, "resources"); !strings.Contains(got, "x://a/r1") || strings.Contains(got, "x://b") || strings.Contains(got, "secret") {
		t.Errorf("resources: %s", got)
	}
	for _, refused := range []struct{ method, params string }{
		{"tools/call", `{"name":"write"}`}, {"tools/call", `{"name":"a_read"}`}, {"tools/call", `{"name":"b_read"}`}, {"prompts/get", `{"name":"ask"}`},
		{"resources/read", `{"uri":"x://a/secret"}`}, {"resources/read", `{"uri":"x://b/r1"}`}, {"resources/read", `{"uri":"mcptrack://server/b/x://b/r1"}`}, {"resources/read", `{"uri":"mcptrack://server/a/x://a/secret"}`},
	} {
		if _, text := w.as(ciToken, refused.method, refused.params); !strings.Contains(text, `"error"`) {
			t.Errorf("%+v: %s", refused, text)
		}
	}
	if _, text := w.as(ciToken, "tools/call", `{"name":"read"}`); strings.Contains(text, `"error"`) {
		t.Error(text)
	}
	if _, text := w.as(ciToken, "resources/read", `{"uri":"x://a/r1"}`); !strings.Contains(text, "one") {
		t.Error(text)
	}
	if _, text := w.as(ciToken, "resources/read", `{"uri":"capability-index://full"}`); !strings.Contains(text, "x://a/r1") || strings.Contains(text, "x://b") || strings.Contains(text, "secret") || strings.Contains(text, "write") {
		t.Errorf("index: %s", text)
	}
	for token, want := range map[string]int{"": 401, ciToken: 200, workToken: 200, identityToken: 200} {
		if status, _ := w.as(token, "tools/list", "{}"); status != want {
			t.Errorf("%q: %d, want %d", token, status, want)
		}
	}
	for _, route := range []string{"/metrics", "/api/servers", "/api/status"} {
		if a, b := w.get(ciToken, route), w.get(identityToken, route); a != 403 || b != 200 {
			t.Errorf("%s: %d and %d", route, a, b)
		}
	}

	// Events.
	_, start := w.as(ciToken, "events/poll", `{"name":"resource.updated"}`)
	_, from, _ := strings.Cut(start, `"cursor":"`)
	from, _, _ = strings.Cut(from, `"`)
	delivered := make(chan string, 1000) // sent to by the webhook; never closed
	webhook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // shorter on an error
		delivered <- string(body)
	}))
	t.Cleanup(webhook.Close)
	if _, text := w.as(ciToken, "events/subscribe", `{"name":"resource.updated","delivery":{"mode":"webhook","url":"`+webhook.URL+`/","secret":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}`); strings.Contains(text, `"error"`) {
		t.Fatal(text)
	}
	w.servers["b"].Set("x://b/r1", "two")
	w.servers["a"].Set("x://a/secret", "two")
	w.servers["a"].Set("x://a/r1", "two")
	poll := func(token string) string {
		_, text := w.as(token, "events/poll", `{"name":"resource.updated","cursor":"`+from+`"}`)
		return text
	}
	w.until("all events", func() bool {
		text := poll(workToken)
		return strings.Contains(text, "x://b/r1") && strings.Contains(text, "x://a/secret") && strings.Contains(text, "x://a/r1")
	})
	if text := poll(ciToken); !strings.Contains(text, "x://a/r1") || strings.Contains(text, "x://b") || strings.Contains(text, "x://a/secret") {
		t.Errorf("events: %s", text)
	}

	if text := <-delivered; !strings.Contains(text, "x://a/r1") {
		t.Errorf("webhook: %s", text)
	}

	// A change of one client concerns nobody else.
	const everything = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`
	ours, theirs := w.stream(ciToken, everything), w.stream(workToken, everything)
	<-ours // acknowledgements
	<-theirs
	w.set(`{` + strings.Replace(ci, `"allow":["read",`, `"allow":["*",`, 1) + `,"work":{"token":"` + workToken + `"},"new":{"token":"token-of-the-client-new","deny":["*"]}}`)
	if line := <-ours; !strings.Contains(line, "list_changed") {
		t.Error(line)
	}
	w.until("the new tools", func() bool { return strings.Contains(w.names(ciToken, "tools"), "write") })
	w.until("the new client", func() bool {
		status, _ := w.as("token-of-the-client-new", "tools/list", "{}")
		return status == 200 && w.names("token-of-the-client-new", "tools") != "a_read a_write b_read b_write"
	})
	w.servers["b"].SetList(catalog.Tools, named("read"))
	w.servers["b"].NotifyListChanged(catalog.Tools)
	if line := <-theirs; !strings.Contains(line, "notifications/tools/list_changed") {
		t.Error(line)
	}
	select {
	case line := <-theirs:
		t.Errorf("the other client was told more: %s", line)
	default:
	}

	// The sessions of a client that is removed end, and its token is refused.
	w.set(`{"work":{"token":"` + workToken + `"}}`)
	for line := range ours {
		if strings.Contains(line, "x://b") {
			t.Error(line)
		}
	}
	w.until("the removed client", func() bool { status, _ := w.as(ciToken, "tools/list", "{}"); return status != 200 })

	// A token of the file with the name of a client sees what this client sees.
	w.save("token", identityToken+"\nci "+ciToken+"\n")
	w.until("the token", func() bool { status, _ := w.as(ciToken, "tools/list", "{}"); return status == 200 })
	if got := w.names(ciToken, "tools"); !strings.Contains(got, "a_write") {
		t.Errorf("tools: %s", got)
	}
	all := w.stream(ciToken, everything)
	<-all
	w.set(`{"ci":{"deny":["*write"]}}`)
	for range all { // it ends
	}
	w.until("the client without a token in the config", func() bool {
		got := w.names(ciToken, "tools")
		return got != "" && !strings.Contains(got, "write")
	})
	if status, _ := w.as(workToken, "tools/list", "{}"); status == 200 {
		t.Errorf("status %d", status)
	}
}

func named(name string) map[string]any {
	return map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}
}
