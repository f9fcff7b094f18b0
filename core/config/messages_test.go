package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config/credential"
)

// only returns the single problem of a file with one server, as CODE MESSAGE | HINT,
// "" if there is none.
func only(t *testing.T, keys string, opts Options) string {
	t.Helper()
	_, problems := Parse([]byte(`{"servers":{"a":{`+keys+`}}}`), "f", opts)
	switch len(problems) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("%s %s | %s", problems[0].Code, strings.TrimPrefix(problems[0].Message, `Server "a"`), problems[0].Hint)
	}
	t.Errorf("%s: %v", keys, problems)
	return ""
}

// A token where the name of a variable belongs is never shown.
func TestTokenInPlaceOfAName(t *testing.T) {
	long := strings.Repeat("hunter2Z", 6)
	for _, keys := range []string{
		`"command":"go","args":["${ghp_` + long + `}"]`,
		`"command":"go","env":{"X":"${env:sbp_` + long + `}"}`,
		`"command":"go","env":{"X":"${pplx-` + long + `}"}`,
		`"command":"go","env":{"X":"${input:sk-` + long + `}"}`,
		`"command":"go","env":{"X":"${aB3dE6gH9jK2mN5pQ8sT1vW4hunter2}"}`,
		`"command":"go","env":{"X":"${0123456789abcdef0123456789abcdef}"}`,
		`"command":"go","env":{"X":"${file:ghp_` + long + `}"}`,
		`"command":"go","env":{"X":"${keyring:ghp_` + long + `}"}`,
		`"command":"go","env_vars":["ghp_` + long + `"]`,
		`"command":"go","env_keys":["ghp_` + long + `"]`,
		`"url":"https://h/","bearer_token_env_var":"ghp_` + long + `"`,
		`"url":"https://h/","env_http_headers":{"X":"ghp_` + long + `"}`,
		`"command":"go","args":["${pplx-hunter2}","${env:xai-hunter2}","${env:ntn_hunter2:-x}${ntn_hunter2}"]`,
		`"command":"go","env":{"X":"${input:sbp_hunter2}","Y":"${{ secrets.sbp_hunter2 }}","Z":"${keyring:sk-hunter2}","W":"${sbp_hunter2}"}`,
		`"command":"go","env_keys":["ntn_hunter2"],"env_vars":["ntn_hunter2"]`,
		`"url":"https://h/","bearer_token_env_var":"sk-hunter2","env_http_headers":{"X":"sbp_hunter2"}`,
	} {
		_, problems := Parse([]byte(`{"servers":{"a":{`+keys+`}}}`), "f", surroundings(t, nil))
		shown := fmt.Sprintf("%+v", problems)
		if len(problems) == 0 || strings.Contains(strings.ToLower(shown), "hunter2") || strings.Contains(shown, "0123456789abcdef") {
			t.Errorf("%s: %s", keys, shown)
		}
	}
	for _, name := range []string{"GITHUB_PERSONAL_ACCESS_TOKEN", "MyCompanyServiceToken2024Key", "AZURE_OPENAI_API_VERSION_2024_02_01", "CLAUDE_PLUGIN_ROOT"} {
		if credential.Doubtful(name) {
			t.Errorf("%s is taken for a token", name)
		}
	}
}

// A token in place of a variable's name is one warning, and the server is Unconfigured.
func TestTokenIsWarnedOfOnce(t *testing.T) {
	token := "${ghp_" + strings.Repeat("hunter2", 6) + "}"
	for _, keys := range []string{`"env":{"X":"` + token + token + `"}`, `"args":["` + token + `"]`, `"env":{"X":"${aB3dE6gH9jK2mN5pQ8sT1vW4hunter2}"}`} {
		for _, disabled := range []string{"", `,"disabled":true`} {
			c, problems := Parse([]byte(`{"servers":{"a":{"command":"go",`+keys+disabled+`}}}`), "f", surroundings(t, nil))
			if len(problems) != 1 || problems[0].Code != CodeSecret || (c.Servers[0].Unconfigured() == nil) != (disabled != "") {
				t.Errorf("%s%s: %v", keys, disabled, problems)
			}
		}
	}
}

// A name is no string to expand, and a token in its place is not shown.
func TestNamesOfServers(t *testing.T) {
	opts := surroundings(t, map[string]string{"HOME": "hunter2"})
	for _, text := range []string{`{"servers":[{"id":"x ${HOME} ${NONE} ${","command":"go"}]}`, `{"servers":{"x ${HOME} ${NONE} ${":{"command":"go"}}}`,
		`{"mcpServers":[{"name":"x ${HOME} ${NONE} ${","command":"go"}]}`} {
		if c, problems := Parse([]byte(text), "f", opts); len(problems) > 0 || c.Servers[0].ID != "x ${HOME} ${NONE} ${" {
			t.Errorf("%s: %v, %v", text, c, problems)
		}
	}
	for _, token := range []string{"ghp_" + strings.Repeat("hunter2", 6), "sbp_" + strings.Repeat("hunter2", 6)} {
		for _, text := range []string{`{"servers":[{"id":"` + token + `","command":1,"x":1}]}`, `{"servers":{"` + token + `":{"command":1,"x":1}}}`,
			`{"servers":{"a":{"command":"go","env":{"` + token + `":{}}}}}`} {
			_, problems := Parse([]byte(text), "f", opts)
			if shown := fmt.Sprintf("%+v", problems); len(problems) == 0 || strings.Contains(shown, "hunter2") {
				t.Errorf("%s: %s", text, shown)
			}
		}
	}
}

// Values that the file is to blame for refuse it, at their place.
func TestRefusedValues(t *testing.T) {
	for keys, want := range map[string]string{
		`"url":"https://h:0/"`:            `invalid_url  has invalid "url"; its port must be from 1 to 65535 | `,
		`"url":"https://h:65536/"`:        `invalid_url  has invalid "url"; its port must be from 1 to 65535 | `,
		`"url":"https://h:65535/"`:        ``,
		"\"url\":\"https://h\u00a0/\"":    `invalid_url  has invalid "url"; it has a no-break space | remove it`,
		"\"command\":\"npx\u00a0-y\"":     `invalid_value  has a "command" with a no-break space | replace it with a normal space`,
		`"command":"go","args":[8080]`:    `invalid_type  argument at index 0 must be a string | write "8080"`,
		`"command":"go","env":{"A":true}`: `invalid_type  environment variable "A" must be a string | write "true"`,
	} {
		_, problems := Parse([]byte(`{"servers":{"a":{`+keys+`}}}`), "f", surroundings(t, nil))
		var got strings.Builder
		for _, p := range problems {
			if p.Severity == SeverityError {
				got.WriteString(fmt.Sprintf("%s %s | %s", p.Code, strings.TrimPrefix(p.Message, `Server "a"`), p.Hint))
			}
		}
		if got.String() != want {
			t.Errorf("%s:\n got %s\nwant %s", keys, got.String(), want)
		}
	}
}

// What other programs would expand and we do not is named, but for what a shell expands.
func TestBareVariables(t *testing.T) {
	const warned = `bare_variable : %s has $%s, which is not expanded | write ${%s}`
	for keys, want := range map[string]string{
		`"command":"go","env":{"K":"$API_KEY"}`:                  fmt.Sprintf(warned, `"env.K"`, "API_KEY", "API_KEY"),
		`"command":"go","env":{"K":"$env:API_KEY"}`:              fmt.Sprintf(warned, `"env.K"`, "API_KEY", "API_KEY"),
		`"command":"go","args":["--dir=$HOME/x"]`:                fmt.Sprintf(warned, `"args[0]"`, "HOME", "HOME"),
		`"url":"https://h/","headers":{"X":"Bearer $TOKEN"}`:     fmt.Sprintf(warned, `"headers.X"`, "TOKEN", "TOKEN"),
		`"command":"go","env":{"K":"pa$$WORD","L":"$5","M":"$"}`: "",
		`"command":"go","disabled":true,"args":["$HOME"]`:        "",
	} {
		if got := only(t, keys, surroundings(t, nil)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", keys, got, want)
		}
	}
	opts := surroundings(t, nil)
	opts.LookPath = func(string) (string, error) { return "", nil }
	if got := only(t, `"command":"sh","args":["-c","exec server $HOME"]`, opts); got != "" {
		t.Errorf("of a shell: %s", got)
	}
}

// A path may have spaces; a line of a shell has options too.
func TestShellLines(t *testing.T) {
	for command, want := range map[string]Code{
		"/Applications/My App/server": CodeCommandNotFound, "/opt/x/server --stdio": CodeShellLine, "npx -y x": CodeShellLine, "my server": CodeShellLine,
	} {
		_, problems := Parse([]byte(`{"servers":{"a":{"command":"`+command+`"}}}`), "f", surroundings(t, nil))
		if len(problems) != 1 || problems[0].Code != want {
			t.Errorf("%s: %v, want %s", command, problems, want)
		}
	}
}

// Which values are secrets and which are notes to put one there.
func TestSecretsAndPlaceholders(t *testing.T) {
	for value, want := range map[string]bool{
		"redis://:hunter2@cache:6379/0": true, "postgres://app:hunter2@db/app": true, "postgres://app@db/app": false, "postgres://app:${PW}@db/app": false,
		"postgres://user:<password>@db/app": false, "https://h/path": false, "sbp_" + strings.Repeat("0a", 20): true, "pplx-" + strings.Repeat("0a", 24): true,
	} {
		if got := only(t, `"command":"go","env":{"X":"`+value+`"}`, surroundings(t, map[string]string{"PW": "p"})) != ""; got != want {
			t.Errorf("%s: %t", value, got)
		}
	}
	for value, want := range map[string]bool{
		"hunter2": true, "mysecret1": true, "REPLACE_ME": false, "<token>": false, "{token}": false, "your-api-key": false, "YOUR_KEY_HERE": false,
		"[REDACTED]": false, "[REDACTED by x]": false, "changeme": false, "xxxx": false, "...": false, "${K:-x}": false, "example-key": false,
	} {
		for _, name := range []string{"DB_PASS", "API_KEY"} {
			if got := only(t, `"command":"go","env":{"`+name+`":"`+value+`"}`, surroundings(t, nil)) != ""; got != want {
				t.Errorf("%s=%s: %t", name, value, got)
			}
		}
	}
}

// Secrets of files and of the keyring reach the server and nothing else.
func TestSecretReferences(t *testing.T) {
	dir := t.TempDir()
	good, open, lines := filepath.Join(dir, "good"), filepath.Join(dir, "open"), filepath.Join(dir, "lines")
	for path, content := range map[string]string{good: "hunter2\n", open: "hunter2\n", lines: "hunter2\nhunter2\n"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	opts := surroundings(t, nil)
	opts.Workspace, opts.UserHome = dir, dir
	opts.Keyring = func(name string) (string, error) {
		if name == "docs" {
			return "hunter2", nil
		}
		return "", os.ErrNotExist
	}
	for reference, want := range map[string]string{
		"${file:" + filepath.ToSlash(good) + "}": "", "${file:good}": "", "${file:~/good}": "", "${keyring:docs}": "",
		"${file:open}": "invalid_file_reference", "${file:lines}": "invalid_file_reference", "${file:none}": "invalid_file_reference", "${file:}": "invalid_file_reference",
		"${file:/dev/zero}": "invalid_file_reference", "${keyring:other}": "not_in_keyring", "${keyring:}": "invalid_reference",
	} {
		c, problems := Parse([]byte(`{"servers":{"a":{"command":"go","env":{"K":"`+reference+`"}}}}`), "f", opts)
		if strings.Contains(fmt.Sprintf("%+v %+v", c, problems), "hunter2") {
			t.Errorf("%s: shown: %+v %+v", reference, c, problems)
		}
		switch {
		case want == "" && (len(problems) > 0 || c.Servers[0].Env["K"].Reveal() != "hunter2" || len(c.Servers[0].Secrets) != 1):
			t.Errorf("%s: %v", reference, problems)
		case want != "" && (len(problems) != 1 || string(problems[0].Code) != want || c == nil || c.Servers[0].Unconfigured() == nil):
			t.Errorf("%s: %v, want %s", reference, problems, want)
		}
	}
	opts.Keyring = nil
	if got := only(t, `"command":"go","env":{"K":"${keyring:docs}"}`, opts); !strings.HasPrefix(got, "not_in_keyring") || !strings.Contains(got, "which is not read") {
		t.Errorf("without a keyring: %s", got)
	}
}

// References of hosts that have a meaning for us.
func TestHostReferences(t *testing.T) {
	dir := t.TempDir()
	opts := surroundings(t, map[string]string{"K": "k"})
	opts.Workspace = dir
	file := filepath.Join(dir, "plugin", ".mcp.json")
	write(t, filepath.Join(dir, "plugin", ".claude-plugin", "plugin.json"), "{}")
	for reference, want := range map[string]string{
		"${workspaceRoot}": dir, "${cwd}": dir, "${CLAUDE_PROJECT_DIR}": dir, "${CLAUDE_PLUGIN_ROOT}": filepath.Join(dir, "plugin"),
		"${{ secrets.K }}": "k", "${{secrets.K}}x": "kx", "{env:K}": "{env:K}",
	} {
		c, problems := Parse([]byte(`{"a":{"command":"go","args":["`+reference+`"]}}`), file, opts)
		if c == nil || len(c.Servers[0].Args) != 1 || c.Servers[0].Args[0] != want {
			t.Errorf("%s: %v, %v", reference, c, problems)
		}
	}
	if got := only(t, `"command":"go","args":["${CLAUDE_PLUGIN_ROOT}/x"]`, surroundings(t, nil)); !strings.Contains(got, "Claude Code sets this variable for its plugins") {
		t.Errorf("outside a plugin: %s", got)
	}
}
