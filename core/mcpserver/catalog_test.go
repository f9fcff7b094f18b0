package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// A client that pages through a list while it is replaced sees one consistent list, or gets an
// error that its cursor has expired.
func TestListsAreConsistent(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{PageSize: 25})
	version := func(v int) mcpserver.Catalog {
		var c mcpserver.Catalog
		for i := range 20 + v%30 {
			item := object(`{"name":"n%d","uri":"note:///%d","v":%d,"of":%d}`, i, i, v, 20+v%30)
			c.Tools, c.Prompts = append(c.Tools, item), append(c.Prompts, item)
			c.Resources, c.Templates = append(c.Resources, item), append(c.Templates, item)
		}
		return c
	}
	h.SetCatalog(version(0))
	stop := make(chan struct{})
	var writer, readers sync.WaitGroup
	writer.Go(func() {
		for v := 1; ; v++ {
			select {
			case <-stop:
				return
			default:
				h.SetCatalog(version(v))
			}
		}
	})
	for _, list := range [][2]string{{"tools/list", "tools"}, {"prompts/list", "prompts"}, {"resources/list", "resources"}, {"resources/templates/list", "resourceTemplates"}} {
		w := h.pipe(t)
		readers.Go(func() {
			whole := 0
			for range 50 {
				if listAll(w, list[0], list[1]) {
					whole++
				}
			}
			if whole == 0 {
				t.Errorf("%s: no walk came to its end", list[0])
			}
		})
	}
	readers.Wait()
	close(stop)
	writer.Wait()
}

// listAll lists all pages and reports whether it reached the last.
func listAll(w *wire, method, field string) bool {
	type item struct{ V, Of int }
	var items []item
	for cursor := ""; ; {
		with := ""
		if cursor != "" {
			with = fmt.Sprintf(`"cursor":%q,`, cursor)
		}
		if _, err := fmt.Fprintf(w.in, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":%q,\"params\":{%s%s}}\n", method, with, metaModern); err != nil {
			w.t.Error(err)
			return false
		}
		var page struct {
			Error  *struct{ Message string }
			Result map[string]json.RawMessage
		}
		if err := json.Unmarshal([]byte(w.next()), &page); err != nil {
			w.t.Error(err)
			return false
		}
		if page.Error != nil {
			if !strings.Contains(page.Error.Message, "expired") {
				w.t.Error(page.Error.Message)
			}
			return false
		}
		var more []item
		cursor = ""
		_ = json.Unmarshal(page.Result[field], &more)
		_ = json.Unmarshal(page.Result["nextCursor"], &cursor)
		if items = append(items, more...); cursor == "" {
			break
		}
	}
	for _, i := range items {
		if i.V != items[0].V || i.Of != len(items) {
			w.t.Errorf("%s: %d items, one of version %d which has %d, the first of %d", method, len(items), i.V, i.Of, items[0].V)
			return false
		}
	}
	return true
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := mcpserver.New(mcpserver.Options{PageSize: 3, CallTool: (&testServer{}).call})
	defer s.Close()
	big := strings.Repeat("x", 900_000)
	s.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{
		object(`{"name":"a"}`), object(`7`), object(`{"name":`), nil, object(" {\n\"name\":\"b\"}\r\n"),
		object(`{"name":"c","x":%q}`, big), object(`{"name":"d","x":%q}`, big), object(`{"name":"e","x":%q}`, big), object(`{"name":"f"}`),
	}})
	w := (&testServer{Server: s}).pipe(t)
	w.initialize()
	// Values that are no objects are left out, and a page ends by items or bytes.
	cursor, sizes, names := "", []int{}, ""
	for {
		with := "{}"
		if cursor != "" {
			with = fmt.Sprintf(`{"cursor":%q}`, cursor)
		}
		w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":%s}`, with)
		var page struct {
			Result struct {
				Tools      []struct{ Name string }
				NextCursor string
			}
		}
		if err := json.Unmarshal([]byte(w.next()), &page); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(page.Result.Tools))
		for _, tool := range page.Result.Tools {
			names += tool.Name
		}
		if cursor = page.Result.NextCursor; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff([]int{3, 2, 1}, sizes); diff != "" || names != "abcdef" {
		t.Error(names, diff)
	}

	// An old cursor is valid for some catalogs, and for no other server.
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var page struct{ Result struct{ NextCursor string } }
	if err := json.Unmarshal([]byte(w.next()), &page); err != nil {
		t.Fatal(err)
	}
	again := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"` + page.Result.NextCursor + `"}}`
	for i := range 7 {
		s.SetCatalog(mcpserver.Catalog{Tools: []json.RawMessage{object(`{"name":"%d"}`, i)}})
	}
	for w.send("%s", again); ; {
		got := w.next()
		if strings.Contains(got, "list_changed") {
			continue
		}
		if code(got) != 0 || !strings.Contains(got, `"name":"d"`) {
			t.Errorf("%.200s", got)
		}
		break
	}
	s.SetCatalog(mcpserver.Catalog{})
	for w.send("%s", again); ; {
		got := w.next()
		if strings.Contains(got, "list_changed") {
			continue
		}
		if code(got) != mcp.CodeInvalidParams || !strings.Contains(got, "expired") {
			t.Errorf("%.200s", got)
		}
		break
	}
	other := newTestServer(t, mcpserver.Options{}).pipe(t)
	other.initialize()
	other.send("%s", again)
	if got := other.next(); code(got) != mcp.CodeInvalidParams {
		t.Errorf("%.200s", got)
	}
}

func TestListChangedOnlyForChangedLists(t *testing.T) {
	t.Parallel()
	s := mcpserver.New(mcpserver.Options{})
	defer s.Close()
	one, two := []json.RawMessage{object(`{"name":"1"}`)}, []json.RawMessage{object(`{"name":"2"}`)}
	for i, c := range []struct {
		next mcpserver.Catalog
		want subscriptions.Lists
	}{
		{mcpserver.Catalog{}, subscriptions.Lists{}},
		{mcpserver.Catalog{Tools: one}, subscriptions.Lists{Tools: true}},
		{mcpserver.Catalog{Tools: []json.RawMessage{object(`{"name":"1"}`)}}, subscriptions.Lists{}},
		{mcpserver.Catalog{Tools: one, Prompts: one}, subscriptions.Lists{Prompts: true}},
		{mcpserver.Catalog{Tools: two, Prompts: one, Templates: one}, subscriptions.Lists{Tools: true, Resources: true}},
		{mcpserver.Catalog{Tools: two, Prompts: one, Templates: one, Resources: one}, subscriptions.Lists{Resources: true}},
		{mcpserver.Catalog{Tools: append(two, one...), Prompts: one, Templates: one, Resources: one}, subscriptions.Lists{Tools: true}},
	} {
		if got := s.SetCatalog(c.next); got != c.want {
			t.Errorf("%d: %+v, want %+v", i, got, c.want)
		}
	}
}

// A Func may set the members of the era itself.
func TestEraMembers(t *testing.T) {
	t.Parallel()
	results := map[string]string{
		"plain":    `{"contents":[]}`,
		"own":      `{"ttlMs":5000,"cacheScope":"public","contents":[],"_meta":{"a":1}}`,
		"asks":     "{\"resultType\":\"input_required\",\n\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"upstream\"}}}",
		"theirs":   `{"resultType":"complete","contents":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"upstream"}}}`,
		"empty":    ` {} `,
		"no meta":  `{"_meta":7}`,
		"array":    `[]`,
		"broken":   `{"a":`,
		"nothing":  ``,
		"no UTF-8": "{\"contents\":[],\"x\":\"a\xffb\"}",
		"repeated": `{"a":1,"a":2}`,
	}
	s := mcpserver.New(mcpserver.Options{ReadResource: func(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		return json.RawMessage(results[r.URI()]), nil
	}})
	defer s.Close()
	info := `"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mcptrack","version":"dev"}}`
	want := map[string][2]string{
		"plain":    {`{"contents":[]}`, `{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private",` + info + `}`},
		"own":      {`{"contents":[],"_meta":{"a":1}}`, `{"ttlMs":5000,"cacheScope":"public","contents":[],"resultType":"complete",` + strings.TrimSuffix(info, "}") + `,"a":1}}`},
		"asks":     {"", `{"resultType":"input_required",` + info + `}`},
		"theirs":   {`{"contents":[]}`, `{"contents":[],"resultType":"complete","ttlMs":0,"cacheScope":"private",` + info + `}`},
		"empty":    {`{}`, `{"resultType":"complete","ttlMs":0,"cacheScope":"private",` + info + `}`},
		"no UTF-8": {`{"contents":[],"x":"a\ufffdb"}`, `{"contents":[],"x":"a\ufffdb","resultType":"complete","ttlMs":0,"cacheScope":"private",` + info + `}`},
		"no meta":  {`{"_meta":7}`, `{"_meta":7,"resultType":"complete","ttlMs":0,"cacheScope":"private"}`},
	}
	w := (&testServer{Server: s}).pipe(t)
	w.initialize()
	for name := range results {
		for era, meta := range []string{`{"uri":%q}`, `{"uri":%q,` + metaModern + `}`} {
			w.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":`+meta+`}`, name)
			got := w.next()
			if want[name][era] == "" {
				if code(got) != mcp.CodeInternal {
					t.Errorf("%s: %s", name, got)
				}
				continue
			}
			if diff := cmp.Diff(decoded(`{"jsonrpc":"2.0","id":1,"result":`+want[name][era]+`}`), decoded(got)); diff != "" {
				t.Errorf("%s, era %d:\n%s", name, era, diff)
			}
		}
	}
}

// A panic is logged, and its value is not sent to the client.
func TestPanicIsLogged(t *testing.T) {
	t.Parallel()
	var log strings.Builder // written by the only call, read after its response
	h := newTestServer(t, mcpserver.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	w := h.pipe(t)
	w.initialize()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"panic"}}`)
	w.expect(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"tools/call: internal error"}}`)
	if !strings.Contains(log.String(), "secret value") || !strings.Contains(log.String(), "main_test.go") {
		t.Error(log.String())
	}
}

// MaxInFlight bounds the running Funcs; further requests wait.
func TestMaxInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newTestServer(t, mcpserver.Options{MaxInFlight: 2})
		w := h.pipe(t)
		w.initialize()
		for i := range 2 {
			w.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait"}}`, i)
			<-h.began
		}
		const waiting = 1_024 // may wait
		for i := 2; i < 2+waiting; i++ {
			w.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait"}}`, i)
		}
		synctest.Wait()
		if len(h.began) != 0 {
			t.Error("a third function runs")
		}
		// Later messages are read, above all cancellations.
		w.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		w.expect(`{"jsonrpc":"2.0","id":"p","result":{}}`)
		w.send(`{"jsonrpc":"2.0","id":9999,"method":"tools/call","params":{"name":"wait"}}`)
		w.expect(`{"jsonrpc":"2.0","id":9999,"error":{"code":-32603,"message":"too many requests are waiting on this connection"}}`)
		for id := 2 + waiting - 1; id >= 0; id-- {
			if id == 1 || id == 2 {
				continue
			}
			w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id)
		}
		<-h.ended
		<-h.began // 2, which waited
		synctest.Wait()
		if len(h.began) != 0 {
			t.Error("a cancelled request runs")
		}
		go h.Close()
		for range 2 {
			<-h.ended
			if got := w.next(); code(got) != mcp.CodeInternal {
				t.Error(got)
			}
		}
		if err := <-w.ended; err != nil {
			t.Error(err)
		}
	})
}
