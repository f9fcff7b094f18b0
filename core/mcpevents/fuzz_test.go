package mcpevents

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// FuzzQuery: accepted parameters have bounds and canonical arguments, and parsing those again
// changes nothing.
func FuzzQuery(f *testing.F) {
	for _, text := range []string{`{}`, `{"name":"resource.updated","arguments":{"uri":"file:///**","changedOnly":false},"cursor":"a-1","maxAgeMs":1e300}`,
		`{"name":"list.changed","arguments":{"lists":["tools"],"server":"{a,b}*"},"maxEvents":-1}`, `{"name":"server.state","arguments":null,"delivery":{"url":5}}`, `[`, `{"name":"resource.updated","arguments":{"uri":"[\\"}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		r := &mcpserver.Request{Params: params}
		q, err := ParseQuery(r)
		if err != nil {
			return
		}
		if len(q.Arguments) == 0 || !json.Valid(q.Arguments) || q.MaxAge < 0 {
			t.Fatalf("%s: %+v", params, q)
		}
		again, canonical, err := ParseFilter(q.Filter.Name(), q.Arguments)
		if err != nil || !bytes.Equal(canonical, q.Arguments) {
			t.Fatalf("%s became %s and then %s: %v", params, q.Arguments, canonical, err)
		}
		o := &Occurrence{Name: q.Filter.Name(), Server: "docs", uri: "file:///a/b", exported: "file:///a/b", word: "tools"}
		if q.Filter.Matches(o) != again.Matches(o) {
			t.Fatalf("%s: the canonical arguments match differently", params)
		}
	})
}
