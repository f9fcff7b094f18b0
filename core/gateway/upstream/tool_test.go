package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestDescriptor(t *testing.T) {
	c, err := parseCatalog([]byte(`[{"name":"set_note","description":"Sets <b> & \"note\"","method":"put","path":"/api/notes/{id}/text",
	 "params":[{"name":"id","type":"string","in":"path"},{"name":"zeta","type":"number","description":"last first","in":"query","required":true},
	 {"name":"alpha","type":"array","in":"body"},{"name":"o","type":"object"},{"name":"b","type":"boolean","default_from":"user_config.b"},{"name":"plain"}],"extra":1},
	 {"name":"g","method":"GET","path":"/api/g"},{"name":"d","method":"DELETE","path":"/api/d"}]`))
	if err != nil || c.skipped != 0 {
		t.Fatal(err, c.skips)
	}
	want := []string{
		`{"name":"set_note","description":"Sets <b> & \"note\"","inputSchema":{"type":"object","properties":{` +
			`"id":{"type":"string"},"zeta":{"type":"number","description":"last first"},"alpha":{"type":"array","items":{}},` +
			`"o":{"type":"object"},"b":{"type":"boolean"},"plain":{"type":"string"}},"required":["id","zeta"],"additionalProperties":false}}`,
		`{"name":"g","inputSchema":{"type":"object","properties":{},"additionalProperties":false},"annotations":{"readOnlyHint":true}}`,
		`{"name":"d","inputSchema":{"type":"object","properties":{},"additionalProperties":false},"annotations":{"destructiveHint":true,"idempotentHint":true}}`,
	}
	var got []string
	for _, it := range c.tools {
		got = append(got, string(it.Raw))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v := versionTool(); v.Key != getVersion || v.Digest.IsZero() {
		t.Errorf("get_version is %+v", v)
	}
}

// An invalid entry is skipped with a reason; the others are served.
func TestSkips(t *testing.T) {
	entry := func(member string) string {
		m := map[string]json.RawMessage{"name": []byte(`"t"`), "method": []byte(`"GET"`), "path": []byte(`"/api/t"`)}
		var over map[string]json.RawMessage
		if err := json.Unmarshal([]byte(member), &over); err != nil {
			t.Fatalf("%s: %v", member, err)
		}
		maps.Copy(m, over)
		out, _ := json.Marshal(m)
		return string(out)
	}
	params := func(path, list string) string {
		return entry(`{"path":"` + path + `","params":[` + list + `]}`)
	}
	for text, want := range map[string]string{
		`1`:                             "not an object",
		`null`:                          "not an object",
		`[]`:                            "not an object",
		`{}`:                            "name",
		entry(`{"name":""}`):            "name",
		entry(`{"name":5}`):             `"name" is not a string`,
		entry(`{"name":null}`):          "name",
		entry(`{"name":"a b"}`):         "spaces",
		entry(`{"name":"a\u001b[31m"}`): "invisible",
		entry(`{"name":"a\u202eb"}`):    "invisible",
		entry(`{"name":"a\u0000"}`):     "invisible",
		entry(`{"name":"` + longName(129) + `"}`):                             "128 bytes",
		entry(`{"name":"get_version"}`):                                       "reserved",
		entry(`{"description":{}}`):                                           `"description"`,
		entry(`{"method":""}`):                                                "method",
		entry(`{"method":"HEAD"}`):                                            "method",
		entry(`{"method":"CONNECT"}`):                                         "method",
		entry(`{"method":"GET /"}`):                                           "method",
		entry(`{"method":["GET"]}`):                                           `"method"`,
		entry(`{"path":""}`):                                                  "no path",
		entry(`{"path":"/admin"}`):                                            "/api/",
		entry(`{"path":"/api"}`):                                              "/api/",
		entry(`{"path":"api/x"}`):                                             "/api/",
		entry(`{"path":"//evil.example/api/"}`):                               "/api/",
		entry(`{"path":"https://e/api/"}`):                                    "/api/",
		entry(`{"path":"/api/../x"}`):                                         "dot segments",
		entry(`{"path":"/api/a..b"}`):                                         "dot segments",
		entry(`{"path":"/api/./x"}`):                                          "dot segments",
		entry(`{"path":"/api/%2e%2e/x"}`):                                     "dot segments",
		entry(`{"path":"/api/%252e%252e/x"}`):                                 "dot segments",
		entry(`{"path":"/api/%2e%2e%2fx"}`):                                   "dot segments",
		entry(`{"path":"/api/%5c%2e"}`):                                       "dot segments",
		entry(`{"path":"/api/a%00"}`):                                         "dot segments",
		entry(`{"path":"/api/a%0d%0aX: y"}`):                                  "characters",
		entry(`{"path":"/api/a%0d%0a"}`):                                      "dot segments",
		entry(`{"path":"/api/%zz"}`):                                          "percent-encoding",
		entry(`{"path":"/api/a?x=1"}`):                                        "characters",
		entry(`{"path":"/api/a#x"}`):                                          "characters",
		entry(`{"path":"/api/a b"}`):                                          "characters",
		entry(`{"path":"/api/a\\b"}`):                                         "characters",
		entry(`{"path":"/api/ü"}`):                                            "characters",
		entry(`{"path":"/api/a\r\nX: y"}`):                                    "characters",
		entry(`{"path":"/api/` + longName(2048) + `"}`):                       "2048 bytes",
		entry(`{"path":"/api/{x"}`):                                           "placeholder",
		entry(`{"path":"/api/x}"}`):                                           "characters",
		entry(`{"path":"/api/{a/b}"}`):                                        "placeholder",
		entry(`{"path":"/api/{a%2fb}"}`):                                      "placeholder",
		entry(`{"path":"/api/{a\\b}"}`):                                       "placeholder",
		entry(`{"path":"/api/{}"}`):                                           "placeholder",
		entry(`{"path":"/api/{a{b}}"}`):                                       "placeholder",
		entry(`{"path":"/api/{x}"}`):                                          "contains {x}",
		entry(`{"params":{}}`):                                                "not an array",
		entry(`{"params":[1]}`):                                               "parameter 1",
		params("/api/t", `{"name":""}`):                                       "parameter 1",
		params("/api/t", `{"name":"a"},{"name":"a"}`):                         "twice",
		params("/api/t", `{"name":"a","type":"date"}`):                        "type",
		params("/api/t", `{"name":"a","type":1}`):                             `"type"`,
		params("/api/t", `{"name":"a","in":"header"}`):                        "not path",
		params("/api/t", `{"name":"a","in":"path"}`):                          "path parameter a does not occur",
		params("/api/t", `{"name":"a","required":"y"}`):                       `"required"`,
		params("/api/{a}", `{"name":"a","type":"object"}`):                    "type object",
		params("/api/{a}", `{"name":"a","in":"query"}`):                       "contains {a}",
		params("/api/t", strings.Repeat(`{"name":"a"},`, 128)+`{"name":"a"}`): "more than 128",
	} {
		c, err := parseCatalog([]byte(`[{"name":"before","method":"GET","path":"/api/x"},` + text + `,{"name":"after","method":"GET","path":"/api/x"}]`))
		if err != nil {
			t.Errorf("%.80s: %v", text, err)
			continue
		}
		if len(c.tools) != 2 || c.skipped != 1 || len(c.skips) != 1 || c.skips[0].index != 1 || !strings.Contains(c.skips[0].reason, want) {
			t.Errorf("%.80s: %d tools, skipped %v, want %q", text, len(c.tools), c.skips, want)
		}
	}
}

func longName(n int) string { return strings.Repeat("x", n) }

// Unusual but valid entries.
func TestUnusualEntriesAreKept(t *testing.T) {
	for _, text := range []string{
		`{"name":"naïve","method":"GET","path":"/api/x"}`,
		`{"name":"a/b.c-d","method":"get","path":"/api//x/"}`,
		`{"name":"a","method":"GET","path":"/api/","params":null}`,
		`{"name":"a","method":"GET","path":"/api/100%25/%C3%BC","description":null}`,
		`{"name":"a","method":"GET","path":"/api/{x}/{y}.{x}","params":[{"name":"x"},{"name":"y","type":"integer","in":"path"}]}`,
		`{"name":"a","method":"GET","path":"/api/x","params":[{"name":"__proto__"},{"name":"ключ","in":"query"}]}`,
		`{"name":"a","method":"GET","path":"/api/x","name":"b"}`,
	} {
		if c, err := parseCatalog([]byte("[" + text + "]")); err != nil || c.skipped != 0 {
			t.Errorf("%s: %v, %v", text, err, c.skips)
		}
	}
}

// The first entry of a name wins, and the number of reported skips is bounded.
func TestDuplicatesAndBounds(t *testing.T) {
	var b strings.Builder
	b.WriteString(`[{"name":"a","method":"GET","path":"/api/first"}`)
	for range 500 {
		b.WriteString(`,{"name":"a","method":"GET","path":"/api/second"}`)
	}
	c, err := parseCatalog([]byte(b.String() + "]"))
	if err != nil || len(c.tools) != 1 || c.routes["a"].route() != "GET /api/first" {
		t.Errorf("%v, %v", c.routes["a"], err)
	}
	if c.skipped != 500 || len(c.skips) != maxSkips || !strings.Contains(c.skips[0].reason, "same name") {
		t.Errorf("%d skipped, %d reported", c.skipped, len(c.skips))
	}
	b.Reset()
	for i := range MaxTools + 5 {
		fmt.Fprintf(&b, `,{"name":"t%d","method":"GET","path":"/api/t"}`, i)
	}
	if c, err = parseCatalog([]byte("[" + b.String()[1:] + "]")); err != nil || len(c.tools) != MaxTools || c.skipped != 5 {
		t.Errorf("%d tools, %d skipped, %v", len(c.tools), c.skipped, err)
	}
	long := strings.Repeat("ä", maxDescription)
	c, _ = parseCatalog([]byte(`[{"name":"a","description":"x` + long + `","method":"GET","path":"/api/t"}]`))
	if d := c.tools[0].Describe().Description; len(d) > maxDescription+3 || !utf8.ValidString(d) || !strings.HasSuffix(d, "ä…") {
		t.Errorf("description of %d bytes", len(d))
	}
}

// Any catalog results in a valid list of tools, and no call leaves the routes.
func FuzzCatalog(f *testing.F) {
	f.Add([]byte(tool("a", "b")), []byte(`{}`))
	f.Add([]byte(`[{"name":"a","method":"PUT","path":"/api/{x}/{y}","params":[{"name":"x"},{"name":"y","type":"number"},{"name":"q","in":"query","type":"array"}]}]`),
		[]byte(`{"x":"..","y":1e5,"q":[1,"a",{"b":null}]}`))
	f.Add([]byte(`[null,1,{"name":"\u0000"},{"name":"get_version"},[[[[]]]]]`), []byte(`[]`))
	f.Add([]byte(`[{"name":"a","method":"GET","path":"/api/%2e%2e"},{"name":"a","method":"GET","path":"/api/v{x}","params":[{"name":"x"}]}]`), []byte(`{"x":"%2e%2e/"}`))
	u, err := New(Options{URL: "https://user:pw@h.example:8443/base"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, arguments []byte) {
		c, err := parseCatalog(body)
		if err != nil {
			return
		}
		if len(c.tools) != len(c.routes) || len(c.skips) > maxSkips || len(c.skips) > c.skipped {
			t.Fatalf("%d tools, %d routes, %d skips of %d", len(c.tools), len(c.routes), len(c.skips), c.skipped)
		}
		for _, it := range c.tools {
			var d struct {
				Name        string
				InputSchema struct {
					Type       string
					Properties map[string]struct{ Type string }
					Required   []string
				}
			}
			if err := json.Unmarshal(it.Raw, &d); err != nil || d.Name != it.Key || d.InputSchema.Type != "object" {
				t.Fatalf("%s: %v", it.Raw, err)
			}
			for _, name := range d.InputSchema.Required {
				if _, ok := d.InputSchema.Properties[name]; !ok {
					t.Fatalf("%s: requires %q", it.Raw, name)
				}
			}
			e := c.routes[it.Key]
			target, err := e.fill(arguments)
			if err != nil {
				continue
			}
			req, err := u.newRequest(t.Context(), e.method, target.path, target.body)
			if err != nil {
				t.Fatalf("%q: %v", target.path, err)
			}
			if origin(req.URL) != "https://h.example:8443" || !strings.HasPrefix(req.URL.EscapedPath(), "/base/api/") {
				t.Fatalf("%q leads to %s", target.path, req.URL)
			}
			if plain, _ := url.PathUnescape(req.URL.EscapedPath()); hasDotSegment(plain) {
				t.Fatalf("%q is %q", target.path, plain)
			}
			if target.body != nil && !json.Valid(target.body) {
				t.Fatalf("body %q", target.body)
			}
		}
	})
}
