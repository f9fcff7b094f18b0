package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
)

// itemsOf returns items as a server lists them, by their keys.
func itemsOf(t *testing.T, k catalog.Kind, keys ...string) (items []item) {
	t.Helper()
	for _, key := range keys {
		raw, err := json.Marshal(map[string]string{k.KeyField(): key, "name": "n"})
		if err != nil {
			t.Fatal(err)
		}
		it, err := catalog.NewItem(k, raw)
		if err != nil {
			t.Fatal(err)
		}
		checked, err := newItem(k, it)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, checked)
	}
	return items
}

// A server can cost only a bounded time: the templates that URIs are matched with, and the bytes
// of the URIs in a result, are limited.
func TestTemplateMatchingIsBounded(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range maxTemplates + 50 {
		many = append(many, fmt.Sprintf("x:y{+p}/%d", i))
	}
	evil := contribution{id: "evil", lists: map[catalog.Kind][]item{catalog.Templates: itemsOf(t, catalog.Templates, many...)}}
	good := contribution{id: "good", lists: map[catalog.Kind][]item{catalog.Templates: itemsOf(t, catalog.Templates, "doc:///d/{name}")}}
	v := newExports(contribution{}, []contribution{evil, good}, filter{}, func(r Refusal) { t.Error(r) })
	if n := len(v.templates); n != maxTemplates+1 {
		t.Errorf("URIs are compared with %d templates", n)
	}
	if n := len(v.catalog.Templates); n != maxTemplates+51 {
		t.Errorf("%d templates are listed", n)
	}
	if at, ok := v.resource("doc:///d/a"); !ok || at.server != "good" {
		t.Errorf("%v %t", at, ok)
	}
	if at, ok := v.resource("doc:///d/" + strings.Repeat("a", maxCompared)); ok {
		t.Errorf("a long URI was compared, and is of %v", at)
	}
	long := qualify("good", "doc:///d/"+strings.Repeat("a", maxCompared))
	if at, ok := v.resource(long); !ok || at.server != "good" {
		t.Errorf("%v %t", at, ok)
	}

	var links []string
	for i := range 2000 {
		links = append(links, fmt.Sprintf(`{"type":"resource_link","name":"a","uri":"doc:///d/%0100d"}`, i))
	}
	out := string(v.rewriteContent("good", json.RawMessage(`{"content":[`+strings.Join(links, ",")+`]}`)))
	plain, own := strings.Count(out, `"doc:///d/`), strings.Count(out, `"`+serverPrefix+"good/doc:///d/")
	if plain == 0 || own == 0 || plain+own != len(links) {
		t.Errorf("%d links stay, %d name their server", plain, own)
	}
}

// The number of parents whose subscribers are notified is bounded.
func TestParentsOfAnUpdateAreBounded(t *testing.T) {
	t.Parallel()
	evil := "x:" + strings.Repeat("/", 8000)
	up := func(levels int) string { return evil[:len(evil)-levels] }
	g, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	g.exports.Store(newExports(contribution{}, []contribution{{id: "evil", serverState: serverState{subscribes: true}, lists: map[catalog.Kind][]item{
		catalog.Resources: itemsOf(t, catalog.Resources, evil, up(10), up(5000))}}, {id: "good"}}, filter{}, func(r Refusal) { t.Error(r) }))
	sub, err := g.server.Subscriptions().Open("", subscriptions.Lists{})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for _, uri := range []string{evil, up(10), qualify("evil", up(20)), up(5000)} {
		if err := sub.Add(uri); err != nil {
			t.Fatal(err)
		}
	}
	g.updated(target{"evil", evil})
	if got := sub.Take().URIs; len(got) != 3 {
		t.Errorf("%d URIs are notified", len(got))
	}
}
