package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOAuthOfEveryHost reads how to log in, as different hosts write it.
func TestOAuthOfEveryHost(t *testing.T) {
	opts := surroundings(t, map[string]string{"SECRET": "s3cr3t-value"})
	for name, c := range map[string]struct {
		keys string
		want OAuth
	}{
		"ours": {`"oauth":{"clientId":"me","clientSecret":"${SECRET}","scopes":["a","b"],"callbackPort":8123,"grant":"client_credentials",
			"clientMetadataUrl":"https://me.example/client.json","authServerMetadataUrl":"https://as.example/meta"}`,
			OAuth{ClientID: "me", ClientSecret: NewSecret("s3cr3t-value"), Scopes: []string{"a", "b"}, CallbackPort: 8123, Grant: GrantClient,
				ClientMetadataURL: "https://me.example/client.json", AuthServerMetadataURL: "https://as.example/meta"}},
		"Claude Code": {`"oauth":{"clientId":"me","callbackPort":8080,"scopes":"a b"}`, OAuth{ClientID: "me", CallbackPort: 8080, Scopes: []string{"a", "b"}}},
		"Cursor":      {`"auth":{"CLIENT_ID":"me","CLIENT_SECRET":"${SECRET}","scopes":["a"]}`, OAuth{ClientID: "me", ClientSecret: NewSecret("s3cr3t-value"), Scopes: []string{"a"}}},
		"Codex":       {`"scopes":["a"],"oauth":{"client_id":"me"}`, OAuth{ClientID: "me", Scopes: []string{"a"}}},
		"Zed":         {`"oauth":{"client_id":"me","client_secret":"${SECRET}"}`, OAuth{ClientID: "me", ClientSecret: NewSecret("s3cr3t-value")}},
		"Gemini":      {`"oauth":{"enabled":true,"clientId":"me","tokenUrl":"https://as/token"}`, OAuth{ClientID: "me"}},
		"opencode":    {`"oauth":false`, OAuth{}},
		"mcporter":    {`"auth":"oauth"`, OAuth{}},
	} {
		cfg, problems := Parse([]byte(`{"mcpServers":{"docs":{"url":"https://h/mcp",`+c.keys+`}}}`), "f", opts)
		if cfg == nil || len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
			continue
		}
		if diff := cmp.Diff(c.want, cfg.Servers[0].OAuth); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
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
		`"oauth":"yes"`:                                              `invalid "oauth"; expected object`,
		`"oauth":{"clientID":"me"}`:                                  `unknown key "clientID"`,
		`"oauth":{"clientSecret":"hunter2hunter2"}`:                  `a secret in plain text in "clientSecret"`,
		`"oauth":{"callbackPort":70000}`:                             `invalid "callbackPort"; expected port from 1 to 65535`,
		`"oauth":{"callbackPort":"1"}`:                               `invalid "callbackPort"; expected port from 1 to 65535`,
		`"oauth":{"grant":"implicit"}`:                               `invalid "grant"; expected one of`,
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
