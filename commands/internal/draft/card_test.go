package draft

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/servercard"
)

// fromCard returns the draft of one card that was found at example.com.
func fromCard(t *testing.T, text string) *Draft {
	t.Helper()
	c, err := servercard.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	a, err := servercard.ParseAddress("example.com")
	if err != nil {
		t.Fatal(err)
	}
	d := New()
	d.AddCards(a, []servercard.Located{{Card: c, From: "https://example.com/card", Usable: c.Remotes}})
	return d
}

// The entries that cards become.
func TestCards(t *testing.T) {
	t.Parallel()
	templated, err := os.ReadFile(filepath.Join("..", "..", "..", "core", "servercard", "testdata", "official", "templated-remote.json"))
	if err != nil {
		t.Fatal(err)
	}
	remote := func(rest string) string {
		return `{"name":"com.example/docs","remotes":[{"type":"streamable-http","url":"https://mcp.example.com/mcp"` + rest + `}]}`
	}
	const plain = `{"id":"docs","url":"https://mcp.example.com/mcp","trackResources":true}`
	withHeaders := func(headers string) string {
		return `{"id":"docs","url":"https://mcp.example.com/mcp","headers":{` + headers + `},"trackResources":true}`
	}
	for _, c := range []struct{ card, want, variables string }{
		{remote(""), plain, ""},
		{string(templated), `{"id":"with-remote","url":"https://default.example.com/mcp","headers":{"Authorization":"Bearer ${MCP_DEFAULT_EXAMPLE_COM__TOKEN}"},"trackResources":true}`,
			"MCP_DEFAULT_EXAMPLE_COM__TOKEN: token: API token issued by Example Inc."},
		{remote(`,"headers":[{"name":"X-API-Key","isRequired":true,"isSecret":true,"description":"Your\nkey"}]`),
			withHeaders(`"X-API-Key":"${MCP_MCP_EXAMPLE_COM__X_API_KEY}"`), "MCP_MCP_EXAMPLE_COM__X_API_KEY: X-API-Key: Your key"},
		{remote(`,"headers":[{"name":"X-Secret","isSecret":true},{"name":"X-Region","default":"eu"},{"name":"X-Trace"},{"name":"X-Fixed","value":"a"}]`),
			withHeaders(`"X-Fixed":"a","X-Region":"eu"`), ""},
		{remote(`,"headers":[{"name":"X-Plan","isRequired":true,"choices":["free","paid"]}]`),
			withHeaders(`"X-Plan":"${MCP_MCP_EXAMPLE_COM__X_PLAN}"`), "MCP_MCP_EXAMPLE_COM__X_PLAN: X-Plan; one of free, paid"},
		{remote(`,"headers":[{"name":"X-Key","isRequired":true,"isSecret":true,"default":"changeme"}]`), withHeaders(`"X-Key":"${MCP_MCP_EXAMPLE_COM__X_KEY}"`), "MCP_MCP_EXAMPLE_COM__X_KEY: X-Key"},
		{`{"name":"com.example.docs/mcp","remotes":[{"type":"sse","url":"https://a.example.com/sse"}]}`, `{"id":"docs","type":"sse","url":"https://a.example.com/sse","trackResources":true}`, ""},
		{`{"name":"x/y","remotes":[{"type":"sse","url":"https://a.example.com/sse"},{"type":"streamable-http","url":"https://a.example.com/mcp"}]}`, `{"id":"y","url":"https://a.example.com/mcp","trackResources":true}`, ""},
		{`{"name":"\u0000/mcp","remotes":[{"type":"sse","url":"{url}"}]}`, `{"id":"example.com","type":"sse","url":"${MCP_EXAMPLE_COM__URL}","trackResources":true}`, "MCP_EXAMPLE_COM__URL: url"},
		{`{"name":"x/y","remotes":[{"type":"streamable-http","url":"https://eu.example.com/mcp"},{"type":"streamable-http","url":"https://us.example.com/mcp"}]}`,
			`{"id":"y","url":"https://eu.example.com/mcp","trackResources":true},{"id":"y-example.com","url":"https://us.example.com/mcp","trackResources":true}`, ""},
		// A card cannot ask for a variable of another program or another host.
		{remote(`,"headers":[{"name":"AWS_SECRET_ACCESS_KEY","isRequired":true}]`), withHeaders(`"AWS_SECRET_ACCESS_KEY":"${MCP_MCP_EXAMPLE_COM__AWS_SECRET_ACCESS_KEY}"`),
			"MCP_MCP_EXAMPLE_COM__AWS_SECRET_ACCESS_KEY: AWS_SECRET_ACCESS_KEY"},
		{`{"name":"x/y","remotes":[{"type":"sse","url":"https://a-b.example.com/{HOME}"}]}`, `{"id":"y","type":"sse","url":"https://a-b.example.com/${MCP_A___B_EXAMPLE_COM__HOME}","trackResources":true}`, "MCP_A___B_EXAMPLE_COM__HOME: HOME"},
		{remote(`,"headers":[{"name":"X","value":"${HOME}","isRequired":true}]`), withHeaders(`"X":"$${MCP_MCP_EXAMPLE_COM__HOME}"`), "MCP_MCP_EXAMPLE_COM__HOME: HOME"},
	} {
		d := fromCard(t, c.card)
		got, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		var variables []string
		for _, v := range d.Variables {
			variables = append(variables, v.Name+": "+v.About)
		}
		if string(got) != `{"servers":[`+c.want+`]}` || strings.Join(variables, "\n") != c.variables {
			t.Errorf("%s\n is %s\nwant {\"servers\":[%s]}\n%v", c.card, got, c.want, variables)
		}
		_, problems := config.Parse(got, "x.json", config.Options{Workspace: t.TempDir(), Getenv: func(string) (string, bool) { return "set", true }})
		if len(problems) > 0 && !strings.Contains(c.want, "${MCP_EXAMPLE_COM__URL}") { // "set" is no URL
			t.Errorf("%s has problems: %v", got, problems)
		}
	}
}

// No text of a card becomes a reference to a file, a keyring, or a variable that the draft did not name.
func TestCardsHaveNoReferences(t *testing.T) {
	t.Parallel()
	ours := regexp.MustCompile(`\$\{MCP_[A-Z0-9_]+\}`)
	for _, hostile := range []string{"${env:HOME}", "${file:/etc/passwd}", "${keyring:github}", "${{ secrets.TOKEN }}", "${HOME:-x}", "${input:a}", "$${env:A}", "${",
		"a\nb: c", "\u0000"} {
		quoted, _ := json.Marshal(hostile)
		h := string(quoted)
		inURL, _ := json.Marshal("https://mcp.example.com/" + hostile)
		for _, card := range []string{
			`{"name":"x/y","remotes":[{"type":"sse","url":` + string(inURL) + `}]}`,
			`{"name":"x/y","remotes":[{"type":"sse","url":"https://mcp.example.com/{a}","variables":{"a":{"default":` + h + `}}}]}`,
			`{"name":"x/y","remotes":[{"type":"sse","url":"https://mcp.example.com/","headers":[{"name":"X","value":` + h + `}]}]}`,
			`{"name":"x/y","remotes":[{"type":"sse","url":"https://mcp.example.com/","headers":[{"name":"X","default":` + h + `}]}]}`,
			`{"name":"x/y","remotes":[{"type":"sse","url":"https://mcp.example.com/","headers":[{"name":"X","value":"{a}","variables":{"a":{"value":` + h + `}}}]}]}`,
			`{"name":"x/y","remotes":[{"type":"sse","url":"https://mcp.example.com/","headers":[{"name":` + h + `,"value":"x"}]}]}`,
			`{"name":` + h + `,"remotes":[{"type":"sse","url":"https://mcp.example.com/"}]}`,
		} {
			d := fromCard(t, card)
			text, err := d.Text()
			if err != nil {
				t.Fatal(err)
			}
			if rest := ours.ReplaceAllString(string(text), ""); strings.Contains(rest, "${") || strings.Contains(string(text), `\n`) || strings.Contains(string(text), `\u0000`) {
				t.Errorf("%s becomes\n%s", card, text)
			}
			if d.Len() == 0 && (d.Sources[0].Valid || len(d.Sources[0].Refused) != 1) {
				t.Errorf("%s: %+v", card, d.Sources)
			}
		}
	}
	// Two texts do not become a reference together.
	for _, pair := range [][2]string{{"$", "{HOME}"}, {"$", "{file:/etc/passwd}"}, {"${file", ":/etc/passwd}"}, {"${", "HOME}"}} {
		a, _ := json.Marshal(pair[0])
		b, _ := json.Marshal(pair[1])
		d := fromCard(t, `{"name":"x/y","remotes":[{"type":"sse","url":"https://mcp.example.com/","headers":[{"name":"X","value":"{a}{b}","variables":{"a":{"value":`+string(a)+`},"b":{"value":`+string(b)+`}}}]}]}`)
		if d.Len() > 0 {
			t.Errorf("%q is accepted", pair)
		}
	}
}
