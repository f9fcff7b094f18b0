package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// oddServer is a legacy server over HTTP that answers with the results, by method, and refuses other
// requests.
func oddServer(t *testing.T, query func(string), results map[string]string) string {
	t.Helper()
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query(r.URL.RawQuery)
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		switch err := json.Unmarshal(body, &m); {
		case r.Method != http.MethodPost || err != nil:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case results[m.Method] == "":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, m.ID)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, results[m.Method])
		}
	}))
	t.Cleanup(ts.Close)
	return ts.URL
}

func probed(t *testing.T, url string, log io.Writer) session.Report {
	t.Helper()
	entry := config.Server{ID: "s", Enabled: true, Transport: config.TransportHTTP, URL: config.NewSecret(url)}
	return session.Probe(context.Background(), []config.Server{entry}, session.ProbeOptions{Session: session.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}})[0]
}

// A server whose name, version or instructions are not texts can be used; a query with characters that a
// URL may not contain reaches it encoded.
func TestOddInitialize(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{`"serverInfo":{"name":"a","version":1}`, `"serverInfo":null,"instructions":null`, `"serverInfo":[],"instructions":5`} {
		url := oddServer(t, func(query string) {
			if query != "q=%C3%A9%20%22&x=%3c&y=a+b" {
				t.Errorf("query %q", query)
			}
		}, map[string]string{
			"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},` + odd + `}`,
			"tools/list": `{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}`,
		})
		if r := probed(t, url+"/mcp?q=é \"&x=%3c&y=a+b", io.Discard); r.Err != nil || len(r.Lists[catalog.Tools]) != 1 {
			t.Errorf("%s: %v, %v", odd, r.Err, r.Lists)
		}
	}
}

// A server that answers initialize with another version is not tried over HTTP+SSE.
func TestNoFallbackAfterAVersion(t *testing.T) {
	t.Parallel()
	url := oddServer(t, func(string) {}, map[string]string{"initialize": `{"protocolVersion":"1.0","capabilities":{}}`})
	entry := config.Server{Transport: config.TransportHTTP, URL: config.NewSecret(url), Fallback: true}
	if _, err := session.Dial(t.Context(), entry, session.Options{}); err == nil || !strings.HasSuffix(err.Error(), `the server supports only the protocol version "1.0", which mcptrack does not`) {
		t.Error(err)
	}
}

// The items of a list that are left out are named, and an item is the same if a member is null as if it
// is absent.
func TestListNamesWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	list := func(tools string) (session.Report, string) {
		var log strings.Builder
		r := probed(t, oddServer(t, func(string) {}, map[string]string{
			"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}`,
			"tools/list": `{"tools":[` + tools + `]}`,
		}), &log)
		return r, log.String()
	}
	r, log := list(`{"name":"x","title":null,"annotations":null},7,{"name":null},{"name":"` + strings.Repeat("n", 9<<10) + `"}`)
	if r.Err != nil || len(r.Lists[catalog.Tools]) != 1 {
		t.Fatalf("%v, %v", r.Err, r.Lists)
	}
	for _, want := range []string{"items=3", "tools[1]", "tools[2]", "tools[3]", "longer than 8 KiB"} {
		if !strings.Contains(log, want) {
			t.Errorf("the warning does not have %q: %s", want, log)
		}
	}
	same, log := list(`{"name":"x"}`)
	if log != "" || same.Lists[catalog.Tools][0].Digest != r.Lists[catalog.Tools][0].Digest {
		t.Errorf("a member that is null makes a difference: %s", log)
	}
}

// The content of a resource is the same if a member is null as if it is absent.
func TestNullInContents(t *testing.T) {
	t.Parallel()
	var first *session.Content
	for _, entry := range []string{`{"uri":"a:b","text":"t"}`, `{"uri":"a:b","text":"t","blob":null,"mimeType":null,"_meta":null}`} {
		url := oddServer(t, func(string) {}, map[string]string{
			"initialize":     `{"protocolVersion":"2025-06-18","capabilities":{"resources":{}},"serverInfo":{"name":"a","version":"1"}}`,
			"resources/read": `{"contents":[` + entry + `]}`,
		})
		s, err := session.Dial(t.Context(), config.Server{ID: "s", Transport: config.TransportHTTP, URL: config.NewSecret(url)}, session.Options{OneShot: true})
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Read(t.Context(), "a:b")
		_ = s.Close()
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = c
		}
		if c.Digest != first.Digest {
			t.Errorf("%s has another digest", entry)
		}
	}
}
