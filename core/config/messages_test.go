package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config/credential"
)

// only returns the only problem of a file with one server, as CODE MESSAGE | HINT; "" if there is
// none.
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

// A token in place of a variable's name is never shown.
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

// The name of a server is not expanded, and a token in its place is not shown.
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
		"\"url\":\"https://h/\u00a0x\"":   `invalid_url  has invalid "url"; it has a no-break space or an invisible character | remove it`,
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
	if got := only(t, `"command":"sh","args":["-c","exec server $HOME"]`, opts); got != "" {
		t.Errorf("of a shell: %s", got)
	}
}

// A path may have spaces; a shell line also has options.
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

// Secrets cause a warning; placeholders do not.
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
	good, open, lines := write(t, filepath.Join(dir, "good"), "hunter2\n"), write(t, filepath.Join(dir, "open"), "hunter2\n"), write(t, filepath.Join(dir, "lines"), "hunter2\nhunter2\n")
	must(t, errors.Join(os.Chmod(good, 0o600), os.Chmod(lines, 0o600), os.Chmod(open, 0o644)))
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

// The references of other hosts that are expanded.
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

// Values that look like secrets cause a warning, which does not show them.
func TestPlaintextSecrets(t *testing.T) {
	const token = "ghp_hunter2hunter2hunter2hunter2hunter2"
	for _, test := range []struct {
		keys string
		want int
	}{
		{`"command":"go","env":{"API_KEY":"hunter2"}`, 1},
		{`"command":"go","env":{"githubToken":"hunter2"}`, 1},
		{`"command":"go","env":{"X":"` + token + `"}`, 1},
		{`"command":"go","env":{"X":"${V:-` + token + `}"}`, 1},
		{`"command":"go","env":{"API_KEY":"${V}","TOKEN":"","SECRET":"<your secret>","PASSWORD":"xxxx"}`, 0},
		{`"command":"go","env":{"MAX_TOKENS":"4096","PASSWORD_FILE":"/run/hunter2","TOKEN_LIMIT":"5","KEYBOARD":"us"}`, 0},
		{`"command":"go","args":["--token=hunter2"]`, 1},
		{`"command":"go","args":["--api-key","hunter2"]`, 1},
		{`"command":"go","args":["-e","GITHUB_TOKEN=hunter2"]`, 1},
		{`"command":"go","args":["--header","Authorization: Bearer hunter2"]`, 1},
		{`"command":"go","args":["--header","Authorization: Bearer ${V}","--token","${V}","--token=${V}","-y","sk-short"]`, 0},
		{`"command":"go","env":{"PGPASSWORD":"hunter2","OPENAI_KEY":"hunter2","AUTH":"hunter2","REDISCLI_AUTH":"hunter2","ACCESS_KEY_ID":"hunter2"}`, 5},
		{`"command":"go","env":{"OPENAPI_MCP_HEADERS":"{\"Authorization\":\"Bearer hunter2\"}"}`, 1},
		{`"url":"https://h/","headers":{"X-Key":"hunter2","X-Auth":"hunter2","X-Access":"hunter2"}`, 3},
		{`"command":"go","args":["--header=X-API-Key: hunter2"]`, 1},
		{`"command":"go","args":["--header","X-API-Key:hunter2"]`, 1},
		{`"command":"go","args":["{\"api_key\":\"hunter2\"}"]`, 1},
		{`"url":"https://h/s/hunter2K2mN5pQ8sT1vW4x/mcp"`, 1},
		{`"command":"go","onConnect":[{"tool":"login","arguments":{"user":"me","password":"hunter2","list":[{"token":"hunter2"}]}}]`, 2},
		{`"url":"https://user:hunter2@h/"`, 1},
		{`"url":"https://hunter2@h/"`, 1},
		{`"url":"https://h/?api_key=hunter2"`, 1},
		{`"url":"https://${V}:${V}@h/?key=${V}&page=2#hunter2"`, 0},
		{`"url":"https://h/","headers":{"Authorization":"Bearer hunter2"}`, 1},
		{`"url":"https://h/","headers":{"X-API-Key":"hunter2"}`, 1},
		{`"url":"https://h/","headers":{"Authorization":"Bearer ${V}","Accept":"hunter2"}`, 0},
	} {
		_, problems := Parse([]byte(`{"servers":{"a":{`+test.keys+`}}}`), "f", surroundings(t, map[string]string{"V": "v"}))
		got := 0
		for _, p := range problems {
			if p.Code == CodeSecret {
				got++
			}
		}
		if got != test.want || problems.Errors() > 0 {
			t.Errorf("%s: %d warnings, want %d: %v", test.keys, got, test.want, problems)
		}
		if strings.Contains(fmt.Sprintf("%+v", problems), "hunter2") {
			t.Errorf("%s: shown: %+v", test.keys, problems)
		}
	}
}

func TestURLAdvice(t *testing.T) {
	for address, want := range map[string]Code{
		"http://localhost:1/mcp": "", "http://127.9.9.9/": "", "http://[::1]:80/": "", "http://[::ffff:127.0.0.1]/": "", "http://a.localhost/": "",
		"HTTPS://h/": "", "http://h/": CodeInsecureURL, "http://127.0.0.1.example.com/": CodeInsecureURL, "http://0.0.0.0/": CodeInsecureURL,
		"ftp://h/": CodeURL, "h/mcp": CodeURL, "https://": CodeURL, "https:///x": CodeURL, "https:h": CodeURL, "https://h:port/": CodeURL,
		"file:///etc/passwd": CodeURL, " ": CodeValue,
	} {
		_, problems := Parse([]byte(`{"servers":{"a":{"url":"`+address+`"}}}`), "f", surroundings(t, nil))
		if want == "" && len(problems) > 0 || want != "" && !(len(problems) == 1 && problems[0].Code == want) {
			t.Errorf("%q: %v, want %q", address, problems, want)
		}
	}
}

func TestCommandAdvice(t *testing.T) {
	for keys, want := range map[string]Code{
		`"command":"go"`:                                             "",
		`"command":"nowhere"`:                                        CodeCommandNotFound,
		`"command":"nowhere","disabled":true`:                        "",
		`"command":"npx -y foo"`:                                     CodeShellLine,
		`"command":"npx","args":["foo"]`:                             "",
		`"command":"docker","args":["run","--rm","image"]`:           CodeDockerNoStdin,
		`"command":"docker","args":["run","--rm","-it","image"]`:     "",
		`"command":"docker","args":["run","--interactive","image"]`:  "",
		`"command":"docker","args":["compose","exec","-T","server"]`: "",
	} {
		_, problems := Parse([]byte(`{"servers":{"a":{`+keys+`}}}`), "f", surroundings(t, nil))
		if want == "" && len(problems) > 0 || want != "" && !(len(problems) == 1 && problems[0].Code == want) {
			t.Errorf("%s: %v, want %q", keys, problems, want)
		}
	}
}

// TestCommandOnDisk looks up commands on the PATH of the process, on the server's PATH, and in the
// server's working directory.
func TestCommandOnDisk(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no executable bit")
	}
	dir := t.TempDir()
	for _, name := range []string{"tool", "my tool"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755))
	}
	write(t, filepath.Join(dir, "plain"), "not executable")
	opts := surroundings(t, map[string]string{"PATH": "relative:" + dir, "DIR": dir})
	for keys, want := range map[string]bool{
		`"command":"tool"`: true, `"command":"my tool"`: true, `"command":"plain"`: false, `"command":"other"`: false,
		`"command":"tool","env":{"PATH":"/nowhere"}`: false,
		`"command":"./tool","cwd":"${DIR}"`:          true, `"command":"./tool"`: false, `"command":"${DIR}/tool"`: true,
	} {
		_, problems := Parse([]byte(`{"servers":{"a":{`+keys+`}}}`), "f", opts)
		if found := !problems.Has(CodeCommandNotFound) && !problems.Has(CodeShellLine); found != want || problems.Errors() > 0 {
			t.Errorf("%s: found %t, want %t: %v", keys, found, want, problems)
		}
		if strings.Contains(fmt.Sprintf("%+v", problems), dir) {
			t.Errorf("%s: shows the expanded folder: %v", keys, problems)
		}
	}
}

// What this machine lacks affects one server; the others can be used.
func TestMissingAffectsOneServer(t *testing.T) {
	for entry, want := range map[string]struct {
		code Code
		text string
	}{
		`"command":"go","env":{"K":"${NOPE}"}`:                       {CodeUnset, `"env.K" uses variable NOPE, which is not set`},
		`"command":"go","args":["${input:key}"]`:                     {CodeUnsetInput, `"args[0]" uses input "key", but variable MCPTRACK_INPUT_KEY is not set`},
		`"command":"go","cwd":"nowhere"`:                             {CodeNoDirectory, `"cwd" is not a directory`},
		`"command":"go","envFile":"nowhere"`:                         {CodeEnvFile, `"envFile" does not exist`},
		`"command":"nowhere"`:                                        {CodeCommandNotFound, `there is no program "nowhere" in PATH`},
		`"command":"nowhere --stdio"`:                                {CodeShellLine, `"command" looks like a shell command line`},
		`"url":"${NOPE}"`:                                            {CodeUnset, `"url" uses variable NOPE, which is not set`},
		`"url":"${PLAIN}"`:                                           {CodeURL, `invalid "url"; its scheme must be http or https`},
		`"url":"${EMPTY}"`:                                           {CodeURL, `invalid "url"; it is empty`},
		`"command":"${EMPTY}"`:                                       {CodeValue, `"command" is empty`},
		`"url":"https://h/","headers":{"X":"${CONTROL}"}`:            {CodeHeader, `control characters in the value of header "X"`},
		`"url":"https://h/","type":"${PLAIN}"`:                       {CodeValue, `invalid "type"; expected one of `},
		`"command":"go","pollInterval":"${PLAIN}"`:                   {CodeDuration, `invalid "pollInterval"; expected duration`},
		`"command":"go","args":["${"]`:                               {CodeReference, `"args[0]" has a "${" without "}"`},
		`"command":"go","args":["${other:x}"]`:                       {CodeReference, `"args[0]" has the unknown reference "${other:x}"`},
		`"url":"https://h/","headers":{"${NOPE}":"x"}`:               {CodeHeader, `a header name has a reference`},
		`"url":"https://h/","headers":{"X-${PLAIN}":"x"}`:            {CodeHeader, `a header name has a reference`},
		`"url":"https://h/","bearer_token_env_var":"NOPE"`:           {CodeUnset, `"headers.Authorization" uses variable NOPE, which is not set`},
		`"url":"https://h/","bearer_token_env_var":"a token"`:        {CodeReference, `"headers.Authorization" is not the name of a variable`},
		`"command":"go","env_keys":["NOPE"]`:                         {CodeUnset, `"env_keys" uses variable NOPE, which is not set`},
		`"command":"go","onConnect":[{"tool":"${NOPE}"}]`:            {CodeUnset, `"onConnect[0].tool" uses variable NOPE, which is not set`},
		`"type":"catalog","url":"https://h/","headers":{"X":"${N}"}`: {CodeUnset, `"headers.X" uses variable N, which is not set`},
	} {
		opts := surroundings(t, map[string]string{"PLAIN": "plain", "EMPTY": "", "CONTROL": "a\x01b"})
		file := func(more string) []byte {
			return []byte(`{"servers":{"whole":{"command":"go"},"docs":{` + more + entry + `}}}`)
		}
		c, problems := Parse(file(""), "f", opts)
		if c == nil || len(problems) != 1 || problems[0].Severity != SeverityWarning || problems[0].Code != want.code {
			t.Errorf("%s: %v", entry, problems)
			continue
		}
		if message := `Server "docs": ` + want.text; !strings.HasPrefix(problems[0].Message, message) {
			t.Errorf("%s: %s, want %s", entry, problems[0].Message, message)
		}
		docs, _ := c.Server("docs")
		if err := docs.Unconfigured(); err == nil || !strings.HasPrefix(err.Error(), want.text) {
			t.Errorf("%s: %v, want %s", entry, err, want.text)
		}
		if whole, _ := c.Server("whole"); whole.Unconfigured() != nil {
			t.Errorf("%s: the other server: %v", entry, whole.Missing)
		}
		opts.Strict = true
		if c, problems = Parse(file(""), "f", opts); c != nil || problems.Errors() != 1 {
			t.Errorf("%s: strict: %v", entry, problems)
		}
		if c, problems = Parse(file(`"disabled":true,`), "f", opts); c == nil || len(problems) != 0 {
			t.Errorf("%s: a disabled server is examined: %v", entry, problems)
		}
	}
}

// If the value of a key is the bare name of a variable, the hint does not suggest ${NAME}.
func TestHintsForNamesOfVariables(t *testing.T) {
	for _, keys := range []string{`"url":"https://h/","bearer_token_env_var":"NOPE"`, `"url":"https://h/","env_http_headers":{"X":"NOPE"}`, `"command":"go","env_keys":["NOPE"]`} {
		if got := only(t, keys, surroundings(t, nil)); !strings.HasSuffix(got, "| set NOPE") {
			t.Errorf("%s: %s", keys, got)
		}
	}
}

// An unset variable in a description does not make a server Unconfigured.
func TestDescriptionNeedsNoVariables(t *testing.T) {
	if s := parsed(t, `{"servers":{"a":{"command":"go","description":"of ${NOPE}"}}}`, nil); s.Description != "of ${NOPE}" || s.Unconfigured() != nil {
		t.Errorf("%q, %v", s.Description, s.Missing)
	}
}

// Missing is bounded for a hostile file.
func TestMissingIsBounded(t *testing.T) {
	args := `"${A}","${B}"` + strings.Repeat(`,"${A}"`, 500)
	c, _ := Parse([]byte(`{"servers":{"a":{"command":"go","args":[`+args+`]}}}`), "f", surroundings(t, nil))
	if c == nil || len(c.Servers[0].Missing) != maxClauses {
		t.Errorf("%v", c)
	}
}
