package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// intents returns the intents in a file in a folder below the user's home.
func intents(t *testing.T, workspace, text string) []*Intent {
	t.Helper()
	return intentsOf(t, workspace, filepath.Dir(workspace), text)
}

func intentsOf(t *testing.T, workspace, home, text string) (all []*Intent) {
	t.Helper()
	getenv := func(name string) (string, bool) { return "value of " + name, name == "TOKEN" || name == "OTHER" }
	c, problems := Parse([]byte(text), filepath.Join(workspace, "mcp.json"), Options{Workspace: workspace, UserHome: home, Getenv: getenv,
		Keyring: func(name string) (string, error) { return "key of " + name, nil },
	})
	if c == nil {
		t.Fatal(text, problems)
	}
	for _, srv := range c.Servers {
		all = append(all, srv.Intent)
	}
	for _, w := range c.Webhooks {
		all = append(all, w.Intent)
	}
	return all
}

// Only what decides what is run or sent changes the digest.
func TestIntentChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const base = `"command":"go","args":["a"],"env":{"K":"v"}`
	of := func(entry string) string { return intents(t, dir, `{"servers":{"docs":{`+entry+`}}}`)[0].Digest }
	was := of(base)
	for _, changed := range []string{
		`"command":"gofmt","args":["a"],"env":{"K":"v"}`,
		`"command":"go","args":["b"],"env":{"K":"v"}`,
		`"command":"go","args":["a","b"],"env":{"K":"v"}`,
		`"command":"go","args":["a"],"env":{"K":"w"}`,
		`"command":"go","args":["a"],"env":{"K":"v","L":"v"}`,
		`"command":"go","args":["a"]`,
		`"command":"go","args":["a"],"env":{"K":"${TOKEN}"}`,
		base + `,"cwd":"/"`,
		base + `,"envFile":"x"`,
		base + `,"env_vars":["TOKEN"]`,
		base + `,"onConnect":[{"tool":"x"}]`,
		base + `,"events":[{"name":"x","arguments":{"a":1}}]`,
		base + `,"events":[{"name":"x","arguments":{"a":2}}]`,
		base + `,"lock":{"wording":"allow"}`,
		base + `,"lock":{"wording":"audit"}`,
		base + `,"type":"stdio"`,
		`"url":"https://a/"`,
		`"url":"https://b/"`,
		`"url":"https://a/","headers":{"A":"b"}`,
		`"url":"https://a/","headers":{"A":"c"}`,
		`"url":"https://a/","bearer_token_env_var":"TOKEN"`,
		`"url":"https://a/","env_http_headers":{"A":"TOKEN"}`,
		`"url":"https://a/","requestOptions":{"headers":{"A":"b"}}`,
		`"url":"https://a/","oauth":{"clientId":"x"}`,
		`"url":"https://a/","auth":{"CLIENT_ID":"x"}`,
	} {
		if now := of(changed); now == was {
			t.Errorf("%s has the digest of the entry before", changed)
		} else {
			was = now
		}
	}
	for _, same := range []string{
		base + `,"description":"x ${TOKEN}"`, base + `,"trackResources":true`, base + `,"include":["x"]`, base + `,"lock":{}`, base + `,"pinContent":["x"]`, base + `,"pollInterval":"1m"`,
		base + `,"shared":false`, base + `,"enabled":false`, base + `,"autoApprove":["x"]`, base + `,"url":null,"headers":{},"envFile":""`,
		`"env":{"K":"v"},"args":["a"],"command":"go"`, "\n" + strings.ReplaceAll(base, ",", ",\n"),
	} {
		if of(same) != of(base) {
			t.Errorf("%s has another digest", same)
		}
	}
	if renamed := intents(t, dir, `{"servers":{"other":{`+base+`}}}`)[0].Digest; renamed == of(base) {
		t.Error("the name, on which filters of the gateway depend, does not change the digest")
	}
	toml, problems := Parse([]byte("[mcp_servers.docs]\ncommand = 'go'\nargs = ['a']\nenv = {K = 'v'}\n"), "f.toml", Options{Workspace: dir})
	if toml == nil || toml.Servers[0].Intent.Digest != of(base) {
		t.Errorf("the format changes the digest: %v", problems)
	}
}

func TestIntentOfWebhooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	seen := map[string]string{}
	for _, hook := range []string{`"url":"https://a/"`, `"url":"https://b/"`, `"url":"https://a/","types":["server.state"]`, `"url":"https://a/","servers":["x"]`,
		`"url":"https://a/","uris":["x"]`, `"url":"https://a/","settle":"1m"`, `"url":"https://a/","allowPrivate":true`, `"url":"https://a/?t=${TOKEN}"`} {
		digest := intents(t, dir, `{"servers":[],"webhooks":[{"format":"slack",`+hook+`}]}`)[0].Digest
		if other, known := seen[digest]; known {
			t.Errorf("%s and %s have one digest", hook, other)
		}
		seen[digest] = hook
	}
}

// Every reference is in the intent, in every host's form, with what is outside the folder.
func TestIntentUses(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	dir := filepath.Join(home, "repo")
	must(t, os.Mkdir(dir, 0o755))
	if err := os.Mkdir(filepath.Join(home, ".git"), 0o755); err != nil { // which makes it no project
		t.Fatal(err)
	}
	write(t, filepath.Join(home, ".vault-token"), "outside")
	write(t, filepath.Join(dir, "inside"), "inside")
	write(t, filepath.Join(dir, ".env"), "A=b")
	for _, name := range []string{filepath.Join(home, ".vault-token"), filepath.Join(dir, "inside")} {
		must(t, os.Chmod(name, 0o600))
	}
	if err := os.Symlink(filepath.Join(home, ".vault-token"), filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for entry, want := range map[string]string{
		`"command":"${TOKEN}"`:                                                                      `${TOKEN}`,
		`"command":"go","args":["${TOKEN:-x}","${env:OTHER}"]`:                                      `${OTHER} ${TOKEN}`,
		`"command":"go","args":["${{ secrets.TOKEN }}"]`:                                            `${TOKEN}`,
		`"command":"go","args":["${input:my-id}"]`:                                                  `${MCPTRACK_INPUT_MY_ID}`,
		`"command":"go","args":["${NOPE}"]`:                                                         `${NOPE}`,
		`"command":"go","env_vars":["TOKEN","NOPE"]`:                                                `${NOPE} ${TOKEN}`,
		`"command":"go","env_keys":["TOKEN"]`:                                                       `${TOKEN}`,
		`"url":"https://h/","bearer_token_env_var":"TOKEN"`:                                         `${TOKEN}`,
		`"url":"https://h/${keyring:prod}"`:                                                         `${keyring:prod}`,
		`"url":"https://h/","headers":{"A":"${file:inside}"}`:                                       `${file:inside}`,
		`"url":"https://h/","headers":{"A":"${file:./link}"}`:                                       `${file:./link} outside`,
		`"url":"https://h/","headers":{"A":"${file:~/.vault-token}","B":"${file:../.vault-token}"}`: `${file:../.vault-token} outside ${file:~/.vault-token} outside`,
		`"url":"https://h/","headers":{"A":"${file:../nope}"}`:                                      `${file:../nope} outside`,
		`"command":"go","envFile":".env"`:                                                           `${file:.env}`,
		`"command":"go","envFile":"../.env"`:                                                        `${file:../.env} outside`,
		`"url":"https://h/","oauth":{"privateKeyFile":"${userHome}/key.pem"}`:                       `${file:${userHome}/key.pem} outside`,
		`"url":"https://h/","oauth":{"clientSecret":"${TOKEN}"}`:                                    `${TOKEN}`,
		`"command":"go","args":["${workspaceFolder}","${/}"]`:                                       ``,
	} {
		var uses []string
		for _, u := range intents(t, dir, `{"servers":{"docs":{`+entry+`}}}`)[0].Uses {
			uses = append(uses, u.String())
			if u.Outside {
				uses = append(uses, "outside")
			}
		}
		if got := strings.Join(uses, " "); got != want {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
	if in := intents(t, dir, `{"mcp":{"docs":{"command":["go","{env:TOKEN}"]}}}`)[0]; len(in.Uses) != 1 || in.Uses[0].Name != "TOKEN" {
		t.Errorf("opencode: %v", in.Uses)
	}
}

// The content of a file counts if the file is in the folder or its repository, which belongs to the
// author of the config; elsewhere it is the user's.
func TestIntentFollowsContent(t *testing.T) {
	t.Parallel()
	t.Run("of a folder", func(t *testing.T) { followsContent(t, t.TempDir(), false) })
	t.Run("of a repository", func(t *testing.T) {
		home := filepath.Join(t.TempDir(), "above")
		must(t, os.MkdirAll(filepath.Join(home, ".git"), 0o755))
		followsContent(t, home, true)
	})
}

// followsContent compares digests in a folder below the given one, which is its repository or not.
func followsContent(t *testing.T, above string, repository bool) {
	dir := filepath.Join(above, "repo")
	must(t, os.Mkdir(dir, 0o755))
	for entry, want := range map[string]bool{
		`"command":"go","envFile":"f"`:           true,
		`"command":"go","args":["${file:f}"]`:    true,
		`"command":"go","envFile":"../f"`:        repository,
		`"command":"go","args":["${file:../f}"]`: repository,
	} {
		var digests []string
		for _, content := range []string{"A=b", "A=c"} {
			for _, name := range []string{filepath.Join(above, "f"), filepath.Join(dir, "f")} {
				must(t, os.WriteFile(name, []byte(content), 0o600))
			}
			digests = append(digests, intentsOf(t, dir, "/nowhere", `{"servers":{"docs":{`+entry+`}}}`)[0].Digest)
		}
		if changed := digests[0] != digests[1]; changed != want {
			t.Errorf("%s: changed %t", entry, changed)
		}
	}
}

// A file that others can change is not read.
func TestReferencesOthersCanChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	must(t, os.Mkdir(open, 0o755))
	must(t, os.WriteFile(filepath.Join(open, "f"), []byte("A=b"), 0o600))
	must(t, os.Chmod(open, 0o777))
	for _, entry := range []string{`"command":"go","envFile":"open/f"`, `"command":"go","args":["${file:open/f}"]`, `"url":"https://h/","oauth":{"privateKeyFile":"open/f"}`} {
		for _, insecure := range []bool{false, true} {
			c, problems := Parse([]byte(`{"servers":{"docs":{`+entry+`}}}`), "f", Options{Workspace: dir, Insecure: insecure})
			if c == nil {
				t.Fatal(problems)
			}
			if refused := c.Servers[0].Unconfigured() != nil && strings.Contains(c.Servers[0].Unconfigured().Error(), "the file or its folder can be changed by every user"); refused == insecure {
				t.Errorf("%s, insecure %t: %v", entry, insecure, problems)
			}
		}
	}
}

// The position of an entry is where it begins in the file, in every syntax, and is not approved.
func TestIntentPosition(t *testing.T) {
	digests := map[string]bool{}
	for name, c := range map[string]struct {
		text         string
		line, column int
	}{
		"a.json":   {"{\"mcpServers\": {\n  \"é\": {\"command\": \"x\", \"disabled\": true}, \"docs\": {\"command\": \"ls\"}\n}}", 2, 52},
		"b.json":   {"{\"servers\": [\n\n  {\"id\": \"docs\", \"command\": \"ls\"}]}", 3, 3},
		"c.toml":   {"[mcp_servers.other]\ncommand = \"x\"\n\n[mcp_servers.docs]\ncommand = \"ls\"\n", 4, 14},
		"d.yaml":   {"mcpServers:\n  docs:\n    command: ls\n", 3, 5},
		"bom.json": {"\ufeff{\"mcpServers\": {\"docs\": {\"command\": \"ls\"}}}", 1, 25},
	} {
		cfg, problems := Load(write(t, filepath.Join(t.TempDir(), name), c.text), Options{})
		if cfg == nil {
			t.Fatalf("%s: %v", name, problems)
		}
		srv, _ := cfg.Server("docs")
		if srv.Intent == nil || srv.Intent.Line != c.line || srv.Intent.Column != c.column {
			t.Errorf("%s: %+v, want %d:%d", name, srv.Intent, c.line, c.column)
			continue
		}
		digests[srv.Intent.Digest] = true
	}
	if len(digests) != 1 {
		t.Errorf("the digests differ: %v", digests)
	}
}
