package credential

import (
	"fmt"
	"strings"
	"testing"
)

const token = "ghp_hunter2hunter2hunter2hunter2hunter2"

// masked returns the text with every credential replaced by its name in «».
func masked(text string, spans []Span) string {
	var out strings.Builder
	at := 0
	for _, s := range spans {
		fmt.Fprintf(&out, "%s«%s»", text[at:s.From], s.Name)
		at = s.To
	}
	return out.String() + text[at:]
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		// names
		{"PGPASSWORD", "hunter2", "«PGPASSWORD»"}, {"OPENAI_KEY", "hunter2", "«OPENAI_KEY»"}, {"AUTH", "hunter2", "«AUTH»"}, {"REDISCLI_AUTH", "hunter", "«REDISCLI_AUTH»"},
		{"ACCESS_KEY_ID", "hunter2", "«ACCESS_KEY_ID»"}, {"AWS_ACCESS_KEY_ID", "hunter2", "«AWS_ACCESS_KEY_ID»"}, {"X-Key", "hunter2", "«X-Key»"}, {"X-Auth", "hunter2", "«X-Auth»"},
		{"X-Access", "hunter2", "«X-Access»"}, {"githubToken", "hunter2", "«githubToken»"}, {"API_KEYS", "hunter2", "«API_KEYS»"}, {"DB_PASS", "hunter2", "«DB_PASS»"},
		{"Authorization", "Bearer hunter2", "Bearer «Authorization»"}, {"Authorization", "  Basic  hunter2 ", "  Basic  «Authorization» "}, {"MYSQL_PWD", "hunter2", "«MYSQL_PWD»"},
		{"clientSecret", "hunter2", "«clientSecret»"}, {"WALLET_MNEMONIC", "hunter2 hunter2", "«WALLET_MNEMONIC»"}, {"TOKEN", "4096123", "«TOKEN»"},
		// names of other things
		{"MAX_TOKENS", "4096", "4096"}, {"PASSWORD_FILE", "/run/hunter2", "/run/hunter2"}, {"KEYBOARD", "us-1A", "us-1A"}, {"JIRA_PROJECT_KEY", "ABC1", "ABC1"},
		{"SSH_PUBLIC_KEY", "ssh-ed25519 AAAA1", "ssh-ed25519 AAAA1"}, {"PRIMARY_KEY", "id_1A", "id_1A"}, {"AUTH_TYPE", "hunter2", "hunter2"}, {"CACHE_KEY", "user:1A", "user:1A"},
		{"MONKEY", "hunter2", "hunter2"}, {"COMPASS", "hunter2", "hunter2"}, {"REGION", "eu-west-1", "eu-west-1"}, {"KEY_ID", "ABC123", "ABC123"}, {"DATA_ACCESS", "Full1", "Full1"},
		// ordinary values of names of secrets
		{"AUTH", "oauth2", "oauth2"}, {"AUTH", "client-credentials", "client-credentials"}, {"AUTH", "https://login.example/", "https://login.example/"}, {"AUTH", "0", "0"},
		{"X-Access", "read-only", "read-only"}, {"OPENAI_KEY", "default", "default"}, {"GOOGLE_APPLICATION_CREDENTIALS", "/home/me/key.json", "/home/me/key.json"},
		{"SSH_PRIVATE_KEY", "~/.ssh/id_ed25519", "~/.ssh/id_ed25519"}, {"TLS_KEY", "certs/server.key", "certs/server.key"}, {"PWD", "/home/me", "/home/me"},
		{"TOKEN", "true", "true"}, {"API_KEY", "none", "none"}, {"API_KEY", "op://vault/item/key", "op://vault/item/key"}, {"API_KEY", `C:\Users\me\key`, `C:\Users\me\key`},
		// placeholders
		{"API_KEY", "REPLACE_ME", "REPLACE_ME"}, {"API_KEY", "<token>", "<token>"}, {"API_KEY", "{token}", "{token}"}, {"API_KEY", "your-api-key", "your-api-key"},
		{"API_KEY", "[REDACTED by x]", "[REDACTED by x]"}, {"API_KEY", "[REDACTED", "[REDACTED"}, {"API_KEY", "${K}", "${K}"}, {"API_KEY", "{{ key }}", "{{ key }}"},
		{"API_KEY", "MY_API_KEY", "MY_API_KEY"}, {"API_KEY", "sk-your-key-here", "sk-your-key-here"}, {"API_KEY", "pplx-YOUR_API_KEY", "pplx-YOUR_API_KEY"}, {"PASSWORD", "••••", "••••"},
		{"X", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}, {"PASSWORD", "password", "password"}, {"Authorization", "Bearer <token>", "Bearer <token>"},
		{"X", "github_pat_REPLACE_WITH_YOUR_OWN_TOKEN_0123", "github_pat_REPLACE_WITH_YOUR_OWN_TOKEN_0123"}, {"Authorization", "Bearer {env:K}", "Bearer {env:K}"},
		{"Authorization", "Bearer hf_xxx", "Bearer hf_xxx"}, {"Authorization", "Bearer eyJhbGciOiJIUzI1NiJ9...", "Bearer eyJhbGciOiJIUzI1NiJ9..."}, {"API_KEY", "sk-…", "sk-…"},
		{"DB", "postgres://postgres:postgres@localhost/db", "postgres://postgres:postgres@localhost/db"}, {"API_KEY", "put-token-here", "put-token-here"},
		{"API_KEY", "sk-proj-replace-me", "sk-proj-replace-me"},
		// tokens by their form
		{"X", token, "«»"}, {"X", "a " + token + ", b", "a «», b"}, {"X", "${V:-" + token + "} b", "«» b"}, {"X", "${A}${V:-" + token + "}${B}", "${A}«»${B}"},
		{"X", "${" + token, "${«»"}, {"X", "-----BEGIN PRIVATE KEY-----\nhunter2", "«»"}, {"TOKEN", token + "x", "«TOKEN»"},
		// JSON
		{"OPENAPI_MCP_HEADERS", `{"Authorization": "Bearer hunter2", "Accept": "x"}`, `{"Authorization": "Bearer «Authorization»", "Accept": "x"}`},
		{"HEADERS", `{"X-API-Key":"hunter2"}`, `{"X-API-Key":"«X-API-Key»"}`}, {"HEADERS", `{"Authorization":"Bearer ${K}","X-Key":"<key>"}`, `{"Authorization":"Bearer ${K}","X-Key":"<key>"}`},
		{"CONFIG", `[{"db": {"password": "hunter2"}}]`, `[{"db": {"password": "«password»"}}]`}, {"X", `{"a": "{\"token\":\"hunter2\"}"}`, "«a»"}, {"CREDENTIALS", `{"type": "user"}`, `{"type": "user"}`},
		{"TOKENS", `{"token": ["hunter2"]}`, `{"token": ["«token»"]}`},
		// connection strings
		{"DB", "postgres://u:hunter2@h/db", "postgres://u:«password»@h/db"}, {"DB", "redis://:hunter2@h", "redis://:«password»@h"}, {"DB", "postgres://u@h/", "postgres://u@h/"},
		{"DB", "Server=h;User=u;Password=hunter2;Encrypt=true", "Server=h;User=u;Password=«Password»;Encrypt=true"}, {"DB", "host=h password=hunter2 user=u", "host=h password=«password» user=u"},
		{"HOOK", "https://h/?page=1&api_key=hunter2&x=y#top", "https://h/?page=1&api_key=«api_key»&x=y#top"}, {"GIT", "https://user@h/repo", "https://user@h/repo"},
		{"OTEL_HEADERS", "x=y,api-key=hunter2", "x=y,api-key=«api-key»"}, {"CUSTOM", "Authorization: Bearer hunter2\nX: y", "Authorization: Bearer «Authorization»\nX: y"},
		{"PROMPT", "Your password: none of my business", "Your password: none of my business"}, {"IMAGE", "vault-token:1.0", "vault-token:1.0"},
		{"NODE_OPTIONS", "--x 1 --token hunter2 -v", "--x 1 --token «token» -v"},
	} {
		if got := masked(test.text, Find(test.name, test.text)); got != test.want {
			t.Errorf("%s=%s\n got %s\nwant %s", test.name, test.text, got, test.want)
		}
	}
}

func TestFindArgs(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{"--header=X-API-Key: hunter2", "--header=X-API-Key: «X-API-Key»"}, {"--header|X-API-Key:hunter2", "--header|X-API-Key:«X-API-Key»"},
		{"--header|Authorization: Bearer hunter2", "--header|Authorization: Bearer «Authorization»"}, {"-H|Token:hunter2", "-H|Token:«Token»"}, {"--header X-Key:hunter2", "--header X-Key:«X-Key»"},
		{"--token=hunter2", "--token=«--token»"}, {"--api-key|hunter2", "--api-key|«--api-key»"}, {"--key|hunter2", "--key|«--key»"}, {"-e|GITHUB_TOKEN=hunter2", "-e|GITHUB_TOKEN=«GITHUB_TOKEN»"},
		{"--env=PGPASSWORD=hunter2", "--env=PGPASSWORD=«PGPASSWORD»"}, {"--headers|{\"Authorization\":\"Bearer hunter2\"}", "--headers|{\"Authorization\":\"Bearer «Authorization»\"}"},
		{`--config={"apiKey":"hunter2"}`, `--config={"apiKey":"«apiKey»"}`}, {"-c|TOKEN=hunter2 exec server --x", "-c|TOKEN=«TOKEN» exec server --x"},
		{"mcp-remote|https://h/s/aB3dE6gH9jK2mN5pQ8sT1vW4/mcp", "mcp-remote|https://h/s/«url secret»/mcp"}, {"server|aB3dE6gH9jK2mN5pQ8sT1vW4", "server|«»"},
		{"-y|@scope/server@1.2.3|--port|8080|/home/me/notes", ""}, {"run|-i|--rm|-e|GITHUB_TOKEN|ghcr.io/github/github-mcp-server:v0.1.2", ""},
		{"--token-file|/run/hunter2|--max-tokens=4096|--key|/etc/tls/server.key", ""}, {"--header|Authorization:${AUTH}|--header|Accept: text/plain", ""}, {"--api-key|--verbose", ""},
		{"run|image@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", ""}, {"git+https://github.com/a/b@0123456789abcdef0123456789abcdef01234567", ""},
		{"-u|1000:1000|my-auth:latest|x-y:1", "-u|1000:1000|my-auth:latest|x-y:1"}, {"--project-id=507f1f77bcf86cd799439011", ""}, {"-c|console.log('Key: '+k)", ""},
	} {
		args := strings.Split(test.args, "|")
		found := FindArgs(args)
		for i := range args {
			args[i] = masked(args[i], found[i])
		}
		if test.want == "" {
			test.want = test.args
		}
		if got := strings.Join(args, "|"); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.args, got, test.want)
		}
	}
}

func TestFindURL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"https://h/api/s/NzI5Yk1jLWRlZi0xMjM0aB3d/mcp", "https://h/api/s/«url secret»/mcp"}, {"https://h/mcp/0123456789abcdef0123456789abcdef", "https://h/mcp/«url secret»"},
		{"https://h/2b1a7c1e-9d3b-4c55-8a1f-0123456789ab/mcp", "https://h/«url secret»/mcp"}, {"https://h/k3j5h2g8f9d1s7a6q4w2/sse", "https://h/«url secret»/sse"},
		{"https://user:hunter2@h/", "https://user:«password»@h/"}, {"https://hunter2@h/", "https://«user»@h/"}, {"https://h/?key=hunter2", "https://h/?key=«key»"},
		{"https://h/mcp?token=hunter2&x=1", "https://h/mcp?token=«token»&x=1"}, {"https://h/" + token + "/mcp", "https://h/«»/mcp"},
		// identifiers and words
		{"https://h/projects/507f1f77bcf86cd799439011/mcp", ""}, {"https://h/workspaces/2b1a7c1e-9d3b-4c55-8a1f-0123456789ab/mcp", ""}, {"https://h/v1/mcp-server-2024-10-01/sse", ""},
		{"https://h/modelcontextprotocol2025/mcp", ""}, {"https://h/api/${ID}/mcp", ""}, {"https://raw.git.example/a/0123456789abcdef0123456789abcdef01234567/x", ""},
		{"https://${U}:${P}@h/?key=${K}&page=2#hunter2", ""}, {"https://h/<your-secret-token-goes-in-here>/mcp", ""}, {"https://h/YourWorkspaceTokenGoesHere1/mcp", ""},
		{"http://localhost:8080/mcp", ""}, {"https://mcp.example.com/getUserProfileAndSettings/v2", ""},
	} {
		if test.want == "" {
			test.want = test.text
		}
		if got := masked(test.text, FindURL(test.text)); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.text, got, test.want)
		}
	}
}

// A token in place of a variable's name is doubtful even if it is short; a name is not.
func TestDoubtful(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pplx-ab1", "xai-ab1", "ntn_ab1", "sbp_ab1", "sk-ab1", "ghp_ab1", "AKIA1", token, "aB3dE6gH9jK2mN5pQ8sT1vW4", "0123456789abcdef01234567"} {
		if !Doubtful(name) {
			t.Errorf("%s is not doubted", name)
		}
	}
	for _, name := range []string{"GITHUB_PERSONAL_ACCESS_TOKEN", "ASIA_REGION", "npm_config_registry", "HOME", "ProgramFiles(x86)", "github-token", "MyCompanyServiceToken2024Key",
		"AZURE_OPENAI_API_VERSION_2024_02_01", "sk", "api-key"} {
		if Doubtful(name) || Certain(name) {
			t.Errorf("%s is doubted", name)
		}
	}
	if Certain("pplx-ab1") {
		t.Error("a short one is certain")
	}
}

// For any text, spans are in order, within the text, and do not overlap.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{"", "TOKEN=x;", `{"token":"a"}`, "${A:-" + token + "}", "https://a:b@c/?key=d", "--token x", "a: b: c", "${${}", "Bearer  "} {
		f.Add("API_KEY", seed)
		f.Add("x", seed)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		for _, spans := range [][]Span{Find(name, text), FindURL(text), FindArgs([]string{name, text})[1]} {
			at := 0
			for _, s := range spans {
				if s.From < at || s.To <= s.From || s.To > len(text) {
					t.Fatalf("%q: %+v", text, spans)
				}
				at = s.To
			}
		}
	})
}
