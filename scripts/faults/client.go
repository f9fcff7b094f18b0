//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client is a client of a gateway that behaves like an application: after it connects it lists and
// reads everything, and later only what is announced.
type client struct {
	name, url    string
	modern       bool
	capabilities map[string]any
	follows      []string // the URIs that it subscribes to
	serial       atomic.Int64

	mu        sync.Mutex // guards what follows
	session   string
	listed    map[string]map[string]string // by list and key: descriptions
	texts     map[string]string            // of what it follows
	announced map[string]int               // how often each list was announced
	due       map[string]bool              // lists to be listed, URIs to be read
	wake      chan struct{}                // sent to, with capacity 1, when more is due
}

func newClient(name, addr string, modern bool, capabilities ...string) *client {
	c := &client{name: name, url: "http://" + addr + "/mcp", modern: modern, capabilities: map[string]any{}, listed: map[string]map[string]string{},
		texts: map[string]string{}, announced: map[string]int{}, due: map[string]bool{}, wake: make(chan struct{}, 1)}
	for _, name := range capabilities {
		c.capabilities[name] = map[string]any{}
	}
	return c
}

// listMethods are the lists, with the methods that return them and the members of the key.
var listMethods = map[string]struct{ method, field, key string }{
	"tools": {"tools/list", "tools", "name"}, "prompts": {"prompts/list", "prompts", "name"},
	"resources": {"resources/list", "resources", "uri"}, "templates": {"resources/templates/list", "resourceTemplates", "uriTemplate"},
}

// request makes an HTTP request with a message, or a GET without one.
func (c *client) request(ctx context.Context, method string, params map[string]any, id any) (*http.Response, error) {
	verb, version := http.MethodGet, "2025-11-25"
	var body []byte
	if method != "" {
		verb = http.MethodPost
		params = maps.Clone(params)
		if params == nil {
			params = map[string]any{}
		}
		if c.modern {
			version = "2026-07-28"
			params["_meta"] = map[string]any{"io.modelcontextprotocol/protocolVersion": version, "io.modelcontextprotocol/clientCapabilities": c.capabilities,
				"io.modelcontextprotocol/clientInfo": map[string]any{"name": c.name, "version": "1"}}
		}
		m := map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
		if id != nil {
			m["id"] = id
		}
		var err error
		if body, err = json.Marshal(m); err != nil {
			return nil, err
		}
	}
	q, err := http.NewRequestWithContext(ctx, verb, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if c.modern {
		q.Header.Set("Mcp-Method", method)
		for _, name := range []string{"name", "uri"} {
			if value, ok := params[name].(string); ok {
				q.Header.Set("Mcp-Name", value)
			}
		}
	} else if session != "" {
		q.Header.Set("Mcp-Session-Id", session)
	}
	if c.modern || session != "" {
		q.Header.Set("Mcp-Protocol-Version", version)
	}
	return http.DefaultClient.Do(q)
}

// ask makes a request and returns the result.
func (c *client) ask(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	id := c.serial.Add(1)
	p, err := c.request(ctx, method, params, id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Body.Close() }()
	if method == "initialize" {
		c.mu.Lock()
		c.session = p.Header.Get("Mcp-Session-Id")
		c.mu.Unlock()
	}
	raw, err := io.ReadAll(p.Body)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(p.Header.Get("Content-Type"), "text/event-stream") {
		for data := range dataLines(bytes.NewReader(raw)) {
			if strings.Contains(data, fmt.Sprintf(`"id":%d`, id)) {
				raw = []byte(data)
			}
		}
	}
	var answer struct{ Result, Error json.RawMessage }
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("HTTP status %d: %.200s", p.StatusCode, raw)
	}
	if answer.Error != nil || bytes.Contains(answer.Result, []byte(`"isError":true`)) {
		return nil, fmt.Errorf("%s%s", answer.Error, answer.Result)
	}
	return answer.Result, nil
}

// connect begins a session, for which there is a word only in the legacy era.
func (c *client) connect(ctx context.Context) error {
	if c.modern {
		return nil
	}
	c.mu.Lock()
	c.session = ""
	c.mu.Unlock()
	_, err := c.ask(ctx, "initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": c.capabilities, "clientInfo": map[string]any{"name": c.name, "version": "1"}})
	if err != nil {
		return err
	}
	p, err := c.request(ctx, "notifications/initialized", nil, nil)
	if err != nil {
		return err
	}
	return p.Body.Close()
}

// call calls a tool that has to repeat the argument.
func (c *client) call(ctx context.Context, tool, arg string) error {
	answer, err := c.ask(ctx, "tools/call", map[string]any{"name": tool, "arguments": map[string]any{"say": arg}})
	if err == nil && !bytes.Contains(answer, []byte(arg)) {
		err = fmt.Errorf("answered %s", answer)
	}
	return err
}

// follow reconnects until ctx is done.
func (c *client) follow(ctx context.Context) {
	for ctx.Err() == nil {
		_ = c.followOnce(ctx) // as long as the gateway is away this fails
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// followOnce follows until the stream ends.
func (c *client) followOnce(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := c.connect(ctx); err != nil {
		return err
	}
	method, params := "", map[string]any(nil)
	if c.modern {
		method, params = "subscriptions/listen", map[string]any{"notifications": map[string]any{"toolsListChanged": true, "promptsListChanged": true,
			"resourcesListChanged": true, "resourceSubscriptions": c.follows}}
	}
	p, err := c.request(ctx, method, params, c.serial.Add(1))
	if err != nil {
		return err
	}
	defer func() { _ = p.Body.Close() }()
	if p.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP status %d", p.StatusCode)
	}
	if !c.modern {
		for _, uri := range c.follows {
			if _, err := c.ask(ctx, "resources/subscribe", map[string]any{"uri": uri}); err != nil {
				return err
			}
		}
		c.everythingIsDue()
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		if err := c.askWhatIsDue(ctx); err != nil {
			stop()
		}
	})
	defer asking.Wait()
	defer stop()
	for data := range dataLines(p.Body) {
		c.notified(data)
	}
	return io.EOF
}

func (c *client) notified(data string) {
	var m struct {
		Method string
		Params struct{ URI string }
	}
	if json.Unmarshal([]byte(data), &m) != nil {
		return
	}
	switch list, isList := strings.CutSuffix(strings.TrimPrefix(m.Method, "notifications/"), "/list_changed"); {
	case m.Method == "notifications/subscriptions/acknowledged":
		c.everythingIsDue()
	case isList && list == "resources":
		c.isDue(list, "templates")
	case isList:
		c.isDue(list)
	case m.Method == "notifications/resources/updated":
		c.isDue(m.Params.URI)
	}
}

func (c *client) everythingIsDue() {
	for list := range listMethods {
		c.isDue(list)
	}
	c.isDue(c.follows...)
}

// isDue notes lists and URIs that were announced.
func (c *client) isDue(what ...string) {
	c.mu.Lock()
	for _, w := range what {
		c.due[w] = true
		c.announced[w]++
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// askWhatIsDue lists and reads what is announced, until a request fails.
func (c *client) askWhatIsDue(ctx context.Context) error {
	for {
		c.mu.Lock()
		what := ""
		for what = range c.due {
			break
		}
		delete(c.due, what)
		c.mu.Unlock()
		if what == "" {
			select {
			case <-c.wake:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		err := c.get(ctx, what)
		switch _, isList := listMethods[what]; {
		case ctx.Err() != nil:
			return nil // everything is due after the next connection
		case err != nil && isList:
			return err
		case err != nil: // its server may be away
			time.Sleep(200 * time.Millisecond)
			c.isDue(what)
		}
	}
}

// get fetches a list or the text of a resource.
func (c *client) get(ctx context.Context, what string) error {
	l, isList := listMethods[what]
	if !isList {
		text, err := c.read(ctx, what)
		if err == nil {
			c.mu.Lock()
			c.texts[what] = text
			c.mu.Unlock()
		}
		return err
	}
	items := map[string]string{}
	params := map[string]any{}
	for {
		raw, err := c.ask(ctx, l.method, params)
		if err != nil {
			return err
		}
		var page map[string]json.RawMessage
		var list []map[string]any
		var cursor string
		if err := json.Unmarshal(raw, &page); err != nil {
			return err
		}
		if err := json.Unmarshal(page[l.field], &list); err != nil {
			return err
		}
		for _, it := range list {
			description, _ := it["description"].(string)
			items[fmt.Sprint(it[l.key])] = description
		}
		if page["nextCursor"] == nil {
			break
		}
		if err := json.Unmarshal(page["nextCursor"], &cursor); err != nil {
			return err
		}
		params = map[string]any{"cursor": cursor}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed[what] = items
	return nil
}

// read returns the text of a resource.
func (c *client) read(ctx context.Context, uri string) (string, error) {
	raw, err := c.ask(ctx, "resources/read", map[string]any{"uri": uri})
	if err != nil {
		return "", err
	}
	var result struct{ Contents []struct{ Text string } }
	if err := json.Unmarshal(raw, &result); err != nil || len(result.Contents) == 0 {
		return "", errors.Join(err, errors.New("no contents"))
	}
	return result.Contents[0].Text, nil
}

// differs says what the client does not know as it is, "" if it knows all.
func (c *client) differs(lists map[string]map[string]string, texts map[string]string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for list, want := range lists {
		got := c.listed[list]
		for key, description := range want {
			if have, there := got[key]; !there {
				out = append(out, list+" lack "+key)
			} else if have != description {
				out = append(out, fmt.Sprintf("%s: %s is %q, not %q", list, key, description, have))
			}
		}
		for key := range got {
			if _, there := want[key]; !there {
				out = append(out, list+" still have "+key)
			}
		}
	}
	for uri, want := range texts {
		if got := c.texts[uri]; got != want {
			out = append(out, fmt.Sprintf("%s is %q, not %q", uri, want, got))
		}
	}
	return strings.Join(out, ", ")
}

// announcements returns how often each list was announced so far.
func (c *client) announcements() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.announced)
}

// lists reports whether an item was listed when the client listed last.
func (c *client) lists(list, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, there := c.listed[list][key]
	return there
}

// text returns what the client has read last.
func (c *client) text(uri string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.texts[uri]
}
