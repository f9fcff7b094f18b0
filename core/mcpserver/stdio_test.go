package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

func TestInitializeNegotiates(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "1999-01-01": "2025-11-25",
	} {
		w := newTestServer(t, mcpserver.Options{Title: "The Notes", Instructions: "Knock."}).pipe(t)
		w.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":%q,"capabilities":{}}}`, asked)
		w.expect(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":%q,"instructions":"Knock.",
			"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{}},
			"serverInfo":{"name":"notes","title":"The Notes","version":"1.2.3"}}}`, want)
	}
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, mcpserver.Options{}).pipe(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{%s}}`, metaModern)
	w.expect(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],
		"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{}},
		"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"notes","version":"1.2.3"}}}}`)
}

// Methods of capabilities that are not declared do not exist.
func TestNothingOffered(t *testing.T) {
	t.Parallel()
	s := mcpserver.New(mcpserver.Options{})
	defer s.Close()
	w := (&testServer{Server: s}).pipe(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`)
	w.expect(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"mcptrack","version":"dev"}}}`)
	for _, method := range []string{"tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
		"resources/read", "resources/subscribe", "completion/complete", "logging/setLevel", "events/list", "events/stream", "no/such"} {
		w.send(`{"jsonrpc":"2.0","id":2,"method":%q,"params":{"name":"x","uri":"x"}}`, method)
		if got := w.next(); code(got) != mcp.CodeMethodNotFound {
			t.Errorf("%s: %s", method, got)
		}
	}
	// Nothing can be honoured: the stream ends immediately.
	w.send(`{"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{%s,"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a"]}}}`, metaModern)
	w.expect(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"%ssubscriptionId":3},"notifications":{}}}`, metaName)
	w.expect(`{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","_meta":{"%ssubscriptionId":3}}}`, metaName)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, send string
		code       int
		contains   string
	}{
		{"no JSON", `{"jsonrpc":`, mcp.CodeParse, `"id":null`},
		{"no UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", mcp.CodeParse, `"id":null`},
		{"many members", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + members(10_001) + `}}`, mcp.CodeInvalidParams, `10000 members`},
		{"trailing", `{"jsonrpc":"2.0","id":1,"method":"ping"} x`, mcp.CodeParse, ``},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, mcp.CodeInvalidRequest, "batch"},
		{"no object", `"ping"`, mcp.CodeInvalidRequest, ``},
		{"version", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, mcp.CodeInvalidRequest, `"id":1`},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, mcp.CodeInvalidRequest, ``},
		{"object id", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, mcp.CodeInvalidRequest, ``},
		{"long id", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2000) + `","method":"ping"}`, mcp.CodeInvalidRequest, ``},
		{"two ids", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, mcp.CodeInvalidRequest, "twice"},
		{"two names", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","name":"wait"}}`, mcp.CodeInvalidParams, "twice"},
		{"wrong case", `{"jsonrpc":"2.0","id":1,"Method":"ping"}`, mcp.CodeInvalidRequest, `\"method\" is missing`},
		{"method type", `{"jsonrpc":"2.0","id":1,"method":7}`, mcp.CodeInvalidRequest, ``},
		{"params type", `{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, mcp.CodeInvalidParams, ``},
		{"meta type", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":1}}`, mcp.CodeInvalidParams, ``},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"no/such\u0007"}`, mcp.CodeMethodNotFound, `no/such\\x07`},
		{"no name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`, mcp.CodeInvalidParams, `name`},
		{"no uri", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":""}}`, mcp.CodeInvalidParams, `uri`},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"resources/read"}`, mcp.CodeInvalidParams, `uri`},
		{"cursor type", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":1}}`, mcp.CodeInvalidParams, `cursor`},
		{"cursor", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"0.1.1"}}`, mcp.CodeInvalidParams, `cursor`},
		{"subscribe to nothing", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{}}`, mcp.CodeInvalidParams, `Resource URI cannot be empty`},
		{"subscribe elsewhere", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"other:///x"}}`, mcp.CodeInvalidParams, `Resource other:///x is not subscribable`},
		{"missing resource", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:///zzz"}}`, mcp.CodeResourceNotFound, `"data":{"uri":"note:///zzz"}`},
		{"missing tool", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"missing"}}`, mcp.CodeInvalidParams, `not found`},
		{"a panic", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"panic"}}`, mcp.CodeInternal, `internal error`},
		{"modern without meta", `{"jsonrpc":"2.0","id":1,"method":"server/discover"}`, mcp.CodeInvalidParams, `protocolVersion`},
		{"unknown version", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"` + metaName + `protocolVersion":"2099-01-01"}}}`, mcp.CodeUnsupportedVersion, `"supported":["2026-07-28"]`},
		{"no capabilities", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"` + metaName + `protocolVersion":"2026-07-28"}}}`, mcp.CodeInvalidParams, `clientCapabilities`},
		{"modern ping", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + metaModern + `}}`, mcp.CodeMethodNotFound, ``},
		{"modern subscribe", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///a",` + metaModern + `}}`, mcp.CodeMethodNotFound, ``},
		{"modern missing resource", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"note:///zzz",` + metaModern + `}}`, mcp.CodeInvalidParams, `"data":{"uri":"note:///zzz"}`},
		{"listen to nothing", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + metaModern + `}}`, mcp.CodeInvalidParams, `notifications`},
		{"listen type", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + metaModern + `,"notifications":{"resourceSubscriptions":"a"}}}`, mcp.CodeInvalidParams, `resourceSubscriptions`},
		{"long line", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 300_000) + `"}}`, mcp.CodeInvalidRequest, `200000 bytes`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newTestServer(t, mcpserver.Options{MaxMessage: 200_000}, "a").pipe(t)
			w.initialize()
			w.send("%s", c.send)
			got := w.next()
			if code(got) != c.code || !strings.Contains(got, c.contains) || strings.Contains(got, "secret") {
				t.Errorf("want %d with %q, got %s", c.code, c.contains, got)
			}
			w.send(`{"jsonrpc":"2.0","id":"after","method":"ping"}`)
			w.expect(`{"jsonrpc":"2.0","id":"after","result":{}}`)
		})
	}
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%d":0`, i)
	}
	return b.String()[1:]
}

// Before initialize, only ping and modern requests are handled.
func TestBeforeInitialize(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, mcpserver.Options{}, "a").pipe(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	w.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if got := w.next(); code(got) != mcp.CodeInvalidParams {
		t.Error(got)
	}
	w.send(`{"jsonrpc":"2.0","id":3,"method":"prompts/list","params":{%s}}`, metaModern)
	w.expect(`{"jsonrpc":"2.0","id":3,"result":{"prompts":[{"name":"greet","arguments":[{"name":"who","required":true}]}],
		"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"%sserverInfo":{"name":"notes","version":"1.2.3"}}}}`, metaName)
}

// Neither responses nor notifications get a response.
func TestNotificationsAreNotAnswered(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, mcpserver.Options{}).pipe(t)
	w.initialize()
	for _, m := range []string{``, `  `, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}`,
		`{"jsonrpc":"2.0","method":"no/such"}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`, `{"jsonrpc":"2.0","method":"x","params":1}`, `{"jsonrpc":"2.0","method":"tools/list"}`} {
		w.send("%s", m)
	}
	w.send(`{"jsonrpc":"2.0","id":"after","method":"ping"}`)
	w.expect(`{"jsonrpc":"2.0","id":"after","result":{}}`)
}

// Subscriptions take effect, and are answered, in the order of requests, even if the client does
// not wait; no update precedes the response.
func TestLegacySubscriptions(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{}, "a", "b")
	w, other := h.pipe(t), h.pipe(t)
	w.initialize()
	other.initialize()
	for i := range 50 {
		w.send(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"note:///a"}}`, 2*i)
		w.expect(`{"jsonrpc":"2.0","id":%d,"result":{}}`, 2*i)
		h.write("a", fmt.Sprint(i))
		w.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note:///a"}}`)
		go w.send("%s\n%s", `{"jsonrpc":"2.0","id":"u","method":"resources/unsubscribe","params":{"uri":"note:///a"}}`,
			`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
		w.expect(`{"jsonrpc":"2.0","id":"u","result":{}}`)
		w.expect(`{"jsonrpc":"2.0","id":"p","result":{}}`)
		h.write("a", "no subscriber")
	}
	other.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///b"}}`)
	other.expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	other.send(`{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe","params":{"uri":"note:///never"}}`)
	other.expect(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	h.write("a", "x")
	h.write("b", "x")
	other.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note:///b"}}`)

	// All legacy clients get every list_changed, once for any number of changes.
	h.SetCatalog(mcpserver.Catalog{})
	for _, conn := range []*wire{w, other} {
		conn.expect(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{}}`)
		conn.expect(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed","params":{}}`)
		conn.expect(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{}}`)
	}
	if changed := h.SetCatalog(mcpserver.Catalog{}); changed.Any() {
		t.Errorf("an equal catalog: %+v", changed)
	}
	w.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	w.expect(`{"jsonrpc":"2.0","id":9,"result":{}}`)

	// A second initialize starts over.
	other.initialize()
	h.write("b", "y")
	other.send(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	other.expect(`{"jsonrpc":"2.0","id":9,"result":{}}`)
	if got := h.Subscriptions().Stats(); got.Subscribers != 2 || got.Subscriptions != 0 {
		t.Errorf("%+v", got)
	}
}

func TestListens(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{}, "a", "b")
	w := h.pipe(t)
	listen := func(id, filter string) {
		w.send(`{"jsonrpc":"2.0","id":%s,"method":"subscriptions/listen","params":{%s,"notifications":%s}}`, id, metaModern, filter)
	}
	listen(`7`, `{"toolsListChanged":true,"promptsListChanged":false,"resourceSubscriptions":["note:///a","other:///x","note:///a",""],"taskIds":["t"]}`)
	w.expect(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"%ssubscriptionId":7},
		"notifications":{"toolsListChanged":true,"resourceSubscriptions":["note:///a"]}}}`, metaName)
	listen(`"seven"`, `{"resourcesListChanged":true,"resourceSubscriptions":["note:///b"]}`)
	w.expect(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"%ssubscriptionId":"seven"},
		"notifications":{"resourcesListChanged":true,"resourceSubscriptions":["note:///b"]}}}`, metaName)
	h.write("a", "1")
	w.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"%ssubscriptionId":7},"uri":"note:///a"}}`, metaName)
	h.write("b", "1")
	w.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"_meta":{"%ssubscriptionId":"seven"},"uri":"note:///b"}}`, metaName)

	// An id in use is rejected, however it is written, and there is a limit.
	listen(`"s\u0065ven"`, `{"toolsListChanged":true}`)
	if got := w.next(); code(got) != mcp.CodeInvalidRequest {
		t.Error(got)
	}
	const others = 62 // with the two above as many as are allowed
	for i := range others {
		listen(strconv.Itoa(100+i), `{"resourceSubscriptions":["note:///c"]}`)
		if got := w.next(); !strings.Contains(got, "acknowledged") {
			t.Fatal(got)
		}
	}
	listen(`8`, `{"toolsListChanged":true}`)
	if got := w.next(); code(got) != mcp.CodeInternal {
		t.Error(got)
	}
	for i := range others {
		w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, 100+i)
	}

	// A cancelled listen gets no result, and makes room.
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"seven"}}`)
	eventually(t, "the listen is gone", func() bool { return h.Subscriptions().Stats().Subscribers == 1 })
	h.write("b", "2")
	h.SetCatalog(mcpserver.Catalog{})
	w.expect(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"%ssubscriptionId":7}}}`, metaName)

	// The server ends the listen with its result when it closes.
	go h.Close()
	w.expect(`{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","_meta":{"%ssubscriptionId":7}}}`, metaName)
	if err := within(t, w.ended, "the end"); err != nil || w.next() != "" {
		t.Errorf("ServeIO: %v", err)
	}
	if got := h.Subscriptions().Stats(); got.Subscribers != 0 || got.URIs != 0 {
		t.Errorf("left: %+v", got)
	}
}

func TestCancelledCall(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{})
	w := h.pipe(t)
	w.initialize()
	w.send(`{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"wait"}}`)
	within(t, h.began, "the call")
	w.send(`{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"echo"}}`)
	if got := w.next(); code(got) != mcp.CodeInvalidRequest {
		t.Error(got)
	}
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w","reason":"bored"}}`)
	if why := within(t, h.ended, "the end of the call"); !strings.Contains(why, "cancelled by the client") {
		t.Error(why)
	}
	w.send(`{"jsonrpc":"2.0","id":"p","method":"ping"}`)
	w.expect(`{"jsonrpc":"2.0","id":"p","result":{}}`)
}

func TestProgressComesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	w := newTestServer(t, mcpserver.Options{}).pipe(t)
	w.initialize()
	for range 20 {
		w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress","_meta":{"progressToken":"p"}}}`)
		for i := range 3 {
			w.expect(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":%d,"total":3}}`, i+1)
		}
		w.expect(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}`)
	}
}

// Requests in flight are answered after the end of input.
func TestEndOfInput(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{}, "a")
	w := h.pipe(t)
	w.send(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{%s,"notifications":{"toolsListChanged":true}}}`, metaModern)
	w.next()
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"progress","arguments":{"hold":1},%s}}`, metaModern)
	for range 3 {
		w.next()
	}
	// The last line has no line end.
	if _, err := io.WriteString(w.in, `{"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"greet",`+metaModern+`}}`); err != nil {
		t.Fatal(err)
	}
	_ = w.in.Close()
	got := []string{w.next(), w.next()}
	h.proceed <- struct{}{}
	for _, id := range []string{`"id":1,"result"`, `"id":3,"result"`} {
		if !slices.ContainsFunc(got, func(m string) bool { return strings.Contains(m, id) }) {
			t.Errorf("no %s in %q", id, got)
		}
	}
	if last := w.next(); !strings.Contains(last, `"id":2,"result"`) {
		t.Error(last)
	}
	if err := within(t, w.ended, "the end"); err != nil {
		t.Error(err)
	}
}

// A client that does not read cannot keep ServeIO from ending, and does not affect others.
func TestClientThatDoesNotRead(t *testing.T) {
	for _, how := range []string{"cancel", "close", "end of input"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTestServer(t, mcpserver.Options{}, "a")
				stuck, good := h.pipe(t), h.pipe(t)
				stuck.initialize()
				good.initialize()
				for _, w := range []*wire{stuck, good} {
					w.send(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"note:///a"}}`)
					w.next()
				}
				for i := range 200 {
					h.write("a", fmt.Sprint(i))
					good.expect(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note:///a"}}`)
				}
				began := time.Now()
				boom := errors.New("boom")
				var want error
				switch how {
				case "cancel":
					stuck.cancel(boom)
					want = boom
				case "close":
					h.Close()
				case "end of input":
					_ = stuck.in.Close()
				}
				if err := <-stuck.ended; !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestBrokenOutput(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{})
	w := h.pipe(t)
	w.initialize()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
	within(t, h.began, "the call")
	_ = w.outR.CloseWithError(errors.New("gone"))
	w.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	within(t, h.ended, "the end of the call")
	if err := within(t, w.ended, "the end"); err == nil || !strings.Contains(err.Error(), "write to the client: gone") {
		t.Error(err)
	}
}

// parts is a stream that takes a part of each message without waiting.
type parts struct {
	mu    sync.Mutex
	taken bytes.Buffer
}

func (p *parts) Try(b []byte) int {
	n, _ := p.Write(b[:len(b)/2])
	return n
}

func (p *parts) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken.Write(b)
}

// The responses to concurrent calls are whole lines although the client takes them in parts.
func TestResponsesInParts(t *testing.T) {
	t.Parallel()
	const calls = 200
	var in strings.Builder
	for id := range calls {
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo",%s}}`+"\n", id, metaModern)
	}
	var out parts
	if err := newNoteServer(mcpserver.Options{}).ServeIO(t.Context(), strings.NewReader(in.String()), &out); err != nil {
		t.Fatal(err)
	}
	answered := map[int]bool{}
	for line := range bytes.Lines(out.taken.Bytes()) {
		var m struct{ ID int }
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		answered[m.ID] = true
	}
	if len(answered) != calls {
		t.Errorf("%d of %d calls were answered", len(answered), calls)
	}
}

// failing is a stream on which every Write fails.
type failing struct{ parts }

func (*failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// Nothing is written after a failed Write, which may have written a part of a line.
func TestNothingFollowsAFailedWrite(t *testing.T) {
	t.Parallel()
	h := newTestServer(t, mcpserver.Options{})
	in, client := io.Pipe()
	out, ended := new(failing), make(chan error, 1)
	go func() { ended <- h.ServeIO(t.Context(), in, out) }()
	_, _ = io.WriteString(client, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait",`+metaModern+`}}`+"\n")
	within(t, h.began, "the call")
	_, _ = io.WriteString(client, `{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{`+metaModern+`}}`+"\n")
	if err := within(t, ended, "the end"); !errors.Is(err, io.ErrShortWrite) || out.taken.Len() > 0 {
		t.Errorf("%v, and then %q", err, out.taken.Bytes())
	}
}
