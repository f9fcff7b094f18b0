package config

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestPlaintextSecrets: which values are taken for secrets, and that none is shown.
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

// TestCommandOnDisk looks commands up in real folders: the PATH of the process,
// that of the server, and the server's working directory.
func TestCommandOnDisk(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no executable bit")
	}
	dir := t.TempDir()
	for _, name := range []string{"tool", "my tool"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "plain"), "not executable")
	opts := surroundings(t, map[string]string{"PATH": "relative:" + dir, "DIR": dir})
	opts.LookPath = nil
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
