package mcpserver_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Skills are listed by page, got and announced in both eras, but only if the server declares them.
func TestSkills(t *testing.T) {
	t.Parallel()
	extension := func(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
		if r.URI() == "skill://none" {
			return nil, mcpserver.ErrNotFound
		}
		return object(`{"of":%q}`, r.Method+" "+r.URI()), nil
	}
	h := newTestServer(t, mcpserver.Options{PageSize: 2, Skills: true, Extension: extension}, "a")
	catalog := h.catalog("a")
	for _, name := range []string{"x", "y", "z"} {
		catalog.Skills = append(catalog.Skills, object(`{"uri":"skill://%s/SKILL.md"}`, name))
	}
	h.SetCatalog(catalog)
	legacy, modern := h.pipe(t), h.pipe(t)
	legacy.initialize()
	methods := []string{mcp.MethodListSkills, mcp.MethodGetSkill, mcp.MethodReadDirectory}
	describe := func(settings string) {
		h.Describe(mcpserver.Description{Extensions: map[string]json.RawMessage{mcp.ExtensionSkills: json.RawMessage(settings)}})
	}
	for settings, offered := range map[string]int{"": 0, `{}`: 2, `{"directoryRead":false}`: 2, `{"directoryRead":"true"}`: 2, `{"directoryRead":true}`: 3} {
		h.Describe(mcpserver.Description{})
		if settings != "" {
			describe(settings)
		}
		for i, method := range methods {
			legacy.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"uri":"skill://x"}}`, method)
			modern.send(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"uri":"skill://x",%s}}`, method, metaModern)
			want := 0
			if i >= offered {
				want = mcp.CodeMethodNotFound
			}
			if l, m := code(legacy.next()), code(modern.next()); l != want || m != want {
				t.Errorf("%s of a server with %s: codes %d and %d, want %d", method, settings, l, m, want)
			}
		}
	}
	describe(`{"directoryRead":true}`)

	legacy.send(`{"jsonrpc":"2.0","id":2,"method":"skills/list"}`)
	var page struct {
		Result struct {
			Skills     []json.RawMessage
			NextCursor string
		}
	}
	if err := json.Unmarshal([]byte(legacy.next()), &page); err != nil || len(page.Result.Skills) != 2 {
		t.Fatalf("%+v (%v)", page, err)
	}
	legacy.send(`{"jsonrpc":"2.0","id":3,"method":"skills/list","params":{"cursor":%q}}`, page.Result.NextCursor)
	legacy.expect(`{"jsonrpc":"2.0","id":3,"result":{"skills":[{"uri":"skill://z/SKILL.md"}]}}`)
	const era = `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"notes","version":"1.2.3"}}`
	modern.send(`{"jsonrpc":"2.0","id":3,"method":"skills/list","params":{"cursor":%q,%s}}`, page.Result.NextCursor, metaModern)
	modern.expect(`{"jsonrpc":"2.0","id":3,"result":{"skills":[{"uri":"skill://z/SKILL.md"}],"ttlMs":0,"cacheScope":"private",` + era + `}}`)
	modern.send(`{"jsonrpc":"2.0","id":4,"method":"skills/get","params":{"uri":"skill://x",%s}}`, metaModern)
	modern.expect(`{"jsonrpc":"2.0","id":4,"result":{"of":"skills/get skill://x","ttlMs":0,"cacheScope":"private",` + era + `}}`)
	modern.send(`{"jsonrpc":"2.0","id":5,"method":"resources/directory/read","params":{"uri":"skill://x",%s}}`, metaModern)
	modern.expect(`{"jsonrpc":"2.0","id":5,"result":{"of":"resources/directory/read skill://x",` + era + `}}`)
	for _, params := range []string{`{}`, `{"uri":7}`, `{"uri":"skill://none"}`} {
		legacy.send(`{"jsonrpc":"2.0","id":6,"method":"skills/get","params":%s}`, params)
		if got := code(legacy.next()); got != mcp.CodeInvalidParams {
			t.Errorf("skills/get of %s: code %d", params, got)
		}
	}

	other := newTestServer(t, mcpserver.Options{Extension: extension})
	other.Describe(mcpserver.Description{Extensions: map[string]json.RawMessage{mcp.ExtensionSkills: json.RawMessage(`{}`)}})
	w := other.pipe(t)
	w.send(`{"jsonrpc":"2.0","id":4,"method":"skills/list","params":{%s}}`, metaModern)
	w.expect(`{"jsonrpc":"2.0","id":4,"result":{"of":"skills/list ","ttlMs":0,"cacheScope":"private",` + era + `}}`)

	catalog.Skills = catalog.Skills[:1:1]
	h.SetCatalog(catalog)
	legacy.expect(`{"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{}}`)
}
