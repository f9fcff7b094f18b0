package config

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oauthForm is a host's form of the login settings.
type oauthForm struct {
	keys string
	want OAuth
}

func oauthForms() map[string]oauthForm {
	return map[string]oauthForm{
		"ours": {`"oauth":{"clientId":"me","clientSecret":"${SECRET}","scopes":["a","b"],"callbackPort":8123,"grant":"client_credentials",
			"clientMetadataUrl":"https://me.example/client.json","authServerMetadataUrl":"https://as.example/meta"}`,
			OAuth{ClientID: "me", ClientSecret: NewSecret("s3cr3t-value"), Scopes: []string{"a", "b"}, CallbackPort: 8123, Grant: GrantClient,
				ClientMetadataURL: "https://me.example/client.json", AuthServerMetadataURL: "https://as.example/meta"}},
		"Claude Code": {`"oauth":{"clientId":"me","callbackPort":8080,"scopes":"a b"}`, OAuth{ClientID: "me", CallbackPort: 8080, Scopes: []string{"a", "b"}}},
		"Cursor": {`"auth":{"CLIENT_ID":"me","CLIENT_SECRET":"${SECRET}","scopes":["a"]}`,
			OAuth{ClientID: "me", ClientSecret: NewSecret("s3cr3t-value"), Scopes: []string{"a"}, RedirectURI: "http://localhost:8787/callback"}},
		"Cursor without a client": {`"auth":{"scopes":["a"]}`, OAuth{Scopes: []string{"a"}}},
		"Cursor and us":           {`"auth":{"CLIENT_ID":"me"},"oauth":{"callbackPort":8080}`, OAuth{ClientID: "me", CallbackPort: 8080}},
		"Kiro": {`"oauth":{"clientId":"me","redirectUri":"http://localhost:7778/oauth/callback"}`,
			OAuth{ClientID: "me", RedirectURI: "http://localhost:7778/oauth/callback"}},
		"Mistral Vibe": {`"auth":{"type":"oauth","client_id":"me","scopes":["a"]}`, OAuth{ClientID: "me", Scopes: []string{"a"}}},
		"Codex":        {`"scopes":["a"],"oauth":{"client_id":"me"}`, OAuth{ClientID: "me", Scopes: []string{"a"}}},
		"Zed":          {`"oauth":{"client_id":"me","client_secret":"${SECRET}"}`, OAuth{ClientID: "me", ClientSecret: NewSecret("s3cr3t-value")}},
		"Gemini":       {`"oauth":{"enabled":true,"clientId":"me","tokenUrl":"https://as/token"}`, OAuth{ClientID: "me"}},
		"opencode":     {`"oauth":false`, OAuth{}},
		"mcporter":     {`"auth":"oauth"`, OAuth{}},
	}
}

// The login settings of every host are read, and mcptrack init converts them to the same settings.
func TestOAuthOfEveryHost(t *testing.T) {
	opts := surroundings(t, map[string]string{"SECRET": "s3cr3t-value"})
	for name, c := range oauthForms() {
		text := []byte(`{"mcpServers":{"docs":{"url":"https://h/mcp",` + c.keys + `}}}`)
		cfg, problems := Parse(text, "f", opts)
		if cfg == nil || len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		if diff := cmp.Diff(c.want, cfg.Servers[0].OAuth); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		imported, problems := Import(write(t, filepath.Join(t.TempDir(), "mcp.json"), string(text)), opts, &Names{})
		if err := problems.Err(); err != nil || len(imported) != 1 {
			t.Fatalf("%s: %v", name, err)
		}
		members := map[string]any{}
		for _, k := range imported[0].Keys {
			members[k.Name] = k.Value
		}
		again, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"docs": members}})
		must(t, err)
		cfg, problems = Parse(again, "f", opts)
		if cfg == nil || len(problems) > 0 {
			t.Errorf("%s, imported: %v", name, problems)
		} else if diff := cmp.Diff(c.want, cfg.Servers[0].OAuth); diff != "" {
			t.Errorf("%s, imported (-want +got):\n%s%s", name, diff, again)
		}
	}
	cfg, _ := Parse([]byte(`{"mcpServers":{"docs":{"url":"https://h/mcp","oauth":{"privateKeyFile":"key.pem"}}}}`), "f", opts)
	if got := cfg.Servers[0].OAuth.PrivateKeyFile; !filepath.IsAbs(got) || filepath.Base(got) != "key.pem" {
		t.Errorf("%q", got)
	}
}

func TestOAuthProblems(t *testing.T) {
	opts := surroundings(t, nil)
	for keys, want := range map[string]string{
		`"oauth":"yes"`:                                              `has "oauth" of another program`,
		`"oauth":{"clientID":"me"}`:                                  `unknown key "clientID"`,
		`"oauth":{"clientSecret":"hunter2hunter2"}`:                  `a secret in plain text in "clientSecret"`,
		`"oauth":{"callbackPort":70000}`:                             `invalid "callbackPort"; expected port from 1 to 65535`,
		`"oauth":{"callbackPort":"1"}`:                               `invalid "callbackPort"; expected port from 1 to 65535`,
		`"oauth":{"grant":"implicit"}`:                               `invalid "grant"; expected one of`,
		`"oauth":{"redirectUri":"127.0.0.1:7778"}`:                   `invalid "redirectUri", which is ignored`,
		`"oauth":{"redirectUri":5}`:                                  `invalid "redirectUri"; expected string`,
		`"oauth":{"clientId":5}`:                                     `invalid "clientId"; expected string`,
		`"oauth":{"scopes":5}`:                                       `invalid "scopes"; expected array of strings`,
		`"oauth":{"authServerMetadataUrl":"http://as.example/meta"}`: `its scheme must be https`,
		`"oauth":{"clientMetadataUrl":"client.json"}`:                `its scheme must be http or https`,
	} {
		_, problems := Parse([]byte(`{"mcpServers":{"docs":{"url":"https://h/mcp",`+keys+`}}}`), "f", opts)
		var text strings.Builder
		for _, p := range problems {
			text.WriteString(p.String() + " " + p.Hint + "\n")
		}
		if !strings.Contains(text.String(), want) || strings.Contains(text.String(), "hunter2") {
			t.Errorf("%s: got %q, want %q", keys, text.String(), want)
		}
	}
}
