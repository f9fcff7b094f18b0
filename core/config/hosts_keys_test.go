package config

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config/hosts"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// hostFiles returns the files of testdata/hosts, which have every key that their hosts document, by
// host.
func hostFiles(t *testing.T) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	root, err := filepath.Abs(filepath.Join("testdata", "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != ".env" {
			rel, _ := filepath.Rel(root, path)
			host, _, _ := strings.Cut(rel, string(filepath.Separator))
			files[host] = append(files[host], path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func ofHost(t *testing.T, host string) Options {
	opts := surroundings(t, map[string]string{"KEY": "k", "MCPTRACK_INPUT_KEY": "k"})
	opts.Workspace, opts.Insecure = filepath.Join("testdata", "hosts", host), true
	return opts
}

// A file of any host, with every key that the host documents, is read without a word about its
// servers, and what else the host stores in the file is at most mentioned.
func TestEveryKeyOfEveryHost(t *testing.T) {
	files := hostFiles(t)
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, hosts.Names()) {
		t.Fatalf("files of %v, hosts %v", got, hosts.Names())
	}
	for host, paths := range files {
		for _, path := range paths {
			if !hosts.Owns(path) {
				t.Errorf("%s is not where %s has its config", path, host)
			}
			cfg, problems := Load(path, ofHost(t, host))
			if cfg == nil || len(cfg.Servers) == 0 || !cfg.TracksAll {
				t.Errorf("%s: %+v, %v", path, cfg, problems)
				continue
			}
			for _, srv := range cfg.Servers {
				if srv.Unconfigured() != nil || srv.Command == "" && srv.URL.Reveal() == "" {
					t.Errorf("%s: %s: %v", path, srv.ID, srv.Missing)
				}
			}
			for _, p := range problems {
				otherSettings := p.Code == CodeUnknownKey && strings.Count(p.Path, "/") == 1
				if strings.HasSuffix(p.Path, "/tools") || p.Code != CodeUnsupported && p.Code != CodeForeign && !otherSettings && !strings.HasSuffix(p.Path, "/redirectUri") {
					t.Error(p)
				}
			}
		}
	}
}

// Nothing at the top level of a host's file is read as mcptrack's, whatever its shape.
func TestTopLevelOfHostsIsTheirs(t *testing.T) {
	theirs := map[tree.Format]string{
		tree.JSON: `"hooks": [{"id": "x"}], "events": {"a": 1}, "webhooks": "x", "lock": true, "index": {"enabled": 1}, "clients": [{"a": {}}], "inputs": {"a": 1},`,
		tree.TOML: "webhooks = 5\nevents = true\nlock = [1]\nindex = {enabled = 1}\nclients = \"x\"\ninputs = {a = 1}\n",
		tree.YAML: "hooks: [{id: x}]\nevents: {a: 1}\nwebhooks: x\nlock: true\nindex: {enabled: 1}\nclients: [{a: {}}]\ninputs: {a: 1}\n",
	}
	for host, paths := range hostFiles(t) {
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			format := tree.Detect(path)
			more := theirs[format]
			mixed := more + string(text)
			if format == tree.JSON {
				for _, key := range []string{`"hooks":`, `"index":`, `"inputs":`} {
					text = []byte(strings.Replace(string(text), key, `"_`+key[1:], 1)) // the host's own
				}
				mixed = "{" + more + strings.TrimPrefix(string(text), "{")
			}
			opts := ofHost(t, host)
			plain, problems := Parse(text, path, opts)
			cfg, more2 := Parse([]byte(mixed), path, opts)
			if plain == nil || cfg == nil || more2.Errors() > 0 || cfg.Index.Enabled || len(cfg.Webhooks)+len(cfg.Hooks) > 0 {
				t.Errorf("%s: %v; with mcptrack's keys: %v", path, problems, more2)
				continue
			}
			if !slices.EqualFunc(plain.Servers, cfg.Servers, Server.Equal) {
				t.Errorf("%s: the servers differ", path)
			}
		}
	}
}

// Keys of mcptrack in the shape of mcptrack are named in a host's file, because they are not read there.
func TestOwnKeysInAHostsFile(t *testing.T) {
	const webhooks = `"webhooks":[{"url":"https://h/","secret":"${S}"}]`
	for file, want := range map[string]int{".mcp.json": 0, "/x/.gemini/settings.json": 0, "mcp-servers.json": 1, "/x/settings.json": 1} {
		cfg, problems := Parse([]byte(`{"mcpServers":{"docs":{"command":"go"}},`+webhooks+`}`), file, surroundings(t, map[string]string{"S": "whsec_" + strings.Repeat("A", 44)}))
		named := slices.ContainsFunc(problems, func(p Problem) bool { return p.Path == "/webhooks" && p.Severity == SeverityWarning })
		if cfg == nil || len(cfg.Webhooks) != want || named != (want == 0) {
			t.Errorf("%s: %v", file, problems)
		}
	}
}

// In a form that mcptrack shares with other programs, a key with another shape than mcptrack's is a
// warning, beside servers and inside of them. In mcptrack's own form it is an error.
func TestKeysOfAnotherShape(t *testing.T) {
	const claude = `{"PreToolUse":[{"matcher":"Bash","hooks":[{"type":"command","command":"lint"}]}]}`
	for _, beside := range []string{`"hooks":` + claude, `"hooks":[` + claude + `]`, `"hooks":[{"event":"stop","command":"x"}]`, `"hooks":["x"]`, `"hooks":"x"`,
		`"webhooks":{"url":"https://h/"}`, `"webhooks":[1]`, `"index":["docs"]`, `"index":{"path":"x"}`, `"index":true`, `"inputs":{"a":1}`, `"clients":["x"]`, `"clients":{"a":"x"}`} {
		for text, reads := range map[string]bool{`{"mcpServers":{"docs":{"command":"go"}},` + beside + `}`: true, `{"servers":{"docs":{"command":"go"}},` + beside + `}`: true,
			`{"servers":[{"id":"docs","command":"go"}],` + beside + `}`: beside == `"index":{"path":"x"}`} {
			cfg, problems := Parse([]byte(text), "mcp-servers.json", surroundings(t, nil))
			name, _, _ := strings.Cut(beside, ":")
			named := slices.ContainsFunc(problems, func(p Problem) bool {
				return p.Severity == SeverityWarning && strings.Contains(p.Message, name)
			})
			if (cfg != nil) != reads || cfg != nil && len(cfg.Webhooks)+len(cfg.Hooks) > 0 || reads && len(problems) != 1 || reads && !named && beside != `"index":{"path":"x"}` {
				t.Errorf("%s: %v", text, problems)
			}
		}
	}
	for _, inside := range []string{`"protocol":"http"`, `"protocol":5`, `"type":"proxy"`, `"type":{"kind":"x"}`, `"transport":"npx"`, `"read":true`, `"mode":"server"`, `"events":true`, `"include":"x"`,
		`"lock":true`, `"shared":1`, `"idle":5`, `"requestTimeout":5000`, `"description":{"en":"x"}`, `"oauth":"x"`} {
		for text, reads := range map[string]bool{`{"mcpServers":{"docs":{"command":"go",` + inside + `}}}`: true, `{"servers":[{"id":"docs","command":"go",` + inside + `}]}`: false} {
			cfg, problems := Parse([]byte(text), "mcp-servers.json", surroundings(t, nil))
			if (cfg != nil) != reads || len(problems) != 1 || reads && (cfg.Servers[0].Unconfigured() != nil || cfg.Servers[0].Transport != TransportStdio) {
				t.Errorf("%s: %v", text, problems)
			}
		}
	}
	for _, inside := range []string{`"type":""`, `"type":null`, `"type":" "`} {
		if cfg, problems := Parse([]byte(`{"mcpServers":{"docs":{"url":"https://h/",`+inside+`}}}`), "f", surroundings(t, nil)); cfg == nil || cfg.Servers[0].Transport != TransportHTTP || !cfg.Servers[0].Fallback {
			t.Errorf("%s: %v", inside, problems)
		}
	}
	// "tools" belongs to many hosts.
	for _, inside := range []string{`"tools":["*"]`, `"tools":[]`, `"tools":"*"`, `"tools":{"search":{"approval_mode":"approve"}}`, `"tools":{"write":false}`} {
		for text, reads := range map[string]bool{`{"mcpServers":{"docs":{"command":"go",` + inside + `}}}`: true, `{"servers":[{"id":"docs","command":"go",` + inside + `}]}`: false} {
			if cfg, problems := Parse([]byte(text), "mcp-servers.json", surroundings(t, nil)); (cfg != nil) != reads || (len(problems) == 0) != reads {
				t.Errorf("%s: %v", text, problems)
			}
		}
	}
	// What only mcptrack has is never another program's.
	for _, inside := range []string{`"trackResources":"yes"`, `"pollInterval":30`, `"onConnect":{}`, `"type":"proxy","url":"https://h/"`} {
		if cfg, _ := Parse([]byte(`{"mcpServers":{"docs":{"command":"go",`+inside+`}}}`), "f", surroundings(t, nil)); cfg != nil {
			t.Errorf("accepted: %s", inside)
		}
	}
}

// What says nothing in an entry of another program is not an error: an empty value of another type, and a
// second name of the same transport.
func TestEmptyAndRepeatedKeys(t *testing.T) {
	for _, entry := range []string{`"command":"go","env":[],"args":{}`, `"url":"https://h/","headers":[],"requestOptions":{"headers":null}`,
		`"url":"https://h/","type":"http","transport":"streamable-http"`, `"command":"go","type":"local","transport":"stdio"`} {
		for text, reads := range map[string]bool{`{"mcpServers":{"a":{` + entry + `}}}`: true, `{"servers":[{"id":"a",` + entry + `}]}`: false} {
			cfg, problems := Parse([]byte(text), "f", surroundings(t, nil))
			if (cfg != nil) != reads || reads && (cfg.Servers[0].Unconfigured() != nil || len(problems) > 0) {
				t.Errorf("%s: %v", text, problems)
			}
		}
	}
	for _, entry := range []string{`"url":"https://h/","type":"http","transport":"sse"`, `"command":"go","env":["x"]`, `"command":"go","args":"x"`} {
		if cfg, _ := Parse([]byte(`{"mcpServers":{"a":{`+entry+`}}}`), "f", surroundings(t, nil)); cfg != nil {
			t.Errorf("accepted: %s", entry)
		}
	}
	// A key of a host that is similar to one of mcptrack's gets no suggestion.
	if _, problems := Parse([]byte(`{"mcp":{"a":{"command":"go"}},"server":{"port":1}}`), "opencode.json", surroundings(t, nil)); slices.ContainsFunc(problems, func(p Problem) bool { return strings.Contains(p.Hint, "did you mean") }) {
		t.Error(problems)
	}
}

// One bad entry of a host's file makes that server Unconfigured; in a config of mcptrack it refuses
// the file.
func TestBadEntryOfAHost(t *testing.T) {
	for _, bad := range []string{`{"command":5}`, `{"command":"go","args":"x"}`, `{"command":"go","url":"https://h/"}`, `{"url":"ftp://h/"}`, `{}`, `5`, `"npx"`, `null`, `[]`,
		`{"command":"go","command":"gofmt"}`, `{"command":"go","env":{"A":{}}}`, `{"command":"go","trackResources":"yes"}`, `{"url":"https://h/","headers":{"A b":"c"}}`, `{"type":"sse"}`} {
		text := `{"mcpServers":{"good":{"command":"go"},"bad":` + bad + `,"last":{"url":"https://h/"}}}`
		cfg, problems := Parse([]byte(text), ".cursor/mcp.json", surroundings(t, nil))
		if cfg == nil || len(cfg.Servers) != 3 || problems.Errors() == 0 {
			t.Errorf("%s: %+v, %v", bad, cfg, problems)
			continue
		}
		for _, srv := range cfg.Servers {
			if err := srv.Unconfigured(); (err != nil) != (srv.ID == "bad") || err != nil && !strings.Contains(problems.Error(), srv.Missing[0]) {
				t.Errorf("%s: %s: %v", bad, srv.ID, err)
			}
		}
		strict := surroundings(t, nil)
		strict.Strict = true
		if cfg, _ := Parse([]byte(text), ".cursor/mcp.json", strict); cfg != nil {
			t.Errorf("%s: accepted although strict", bad)
		}
		if cfg, _ := Parse([]byte(text), "mcp-servers.json", surroundings(t, nil)); cfg != nil {
			t.Errorf("%s: accepted in mcptrack's own config", bad)
		}
	}
	// The same in the object "mcp", where other keys may be the host's.
	for _, bad := range []string{`5`, `"x"`, `{"command":5}`} {
		cfg, problems := Parse([]byte(`{"mcp":{"bad":`+bad+`,"good":{"type":"local","command":["go"]}}}`), "opencode.json", surroundings(t, nil))
		if cfg == nil || len(cfg.Servers) != 2 || cfg.Servers[0].Unconfigured() == nil || cfg.Servers[1].Unconfigured() != nil {
			t.Errorf("%s: %+v, %v", bad, cfg, problems)
		}
	}
	// An entry without a usable name has no server.
	for text, want := range map[string]string{
		`{"mcpServers":{"":{"command":"go"},"a":{"command":"go"}}}`:                  "a",
		`{"mcpServers":{"a":{"command":"go"},"a":{"command":"gofmt"}}}`:              "a!",
		`{"mcpServers":{"x\u0007":{"command":"go"},"a":{"command":"go"}}}`:           "a",
		`{"mcpServers":[{"command":"go"},5,{"name":"a","command":"go"}]}`:            "a",
		`{"mcpServers":[{"name":"a","command":"go"},{"name":"a","url":"https://"}]}`: "a!",
	} {
		cfg, problems := Parse([]byte(text), ".mcp.json", surroundings(t, nil))
		if cfg == nil {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		got := ""
		for i := range cfg.Servers {
			if got += cfg.Servers[i].ID; cfg.Servers[i].Unconfigured() != nil {
				got += "!"
			}
		}
		if got != want || problems.Errors() == 0 {
			t.Errorf("%s: %s, want %s: %v", text, got, want, problems)
		}
	}
	// Errors outside of entries still refuse the file.
	for _, text := range []string{`{"mcpServers":5}`, `{"mcpServers":{},"servers":{}}`, `{"mcpServers":{"a":{"command":"go"}}`, `{"mcpServers":{},"mcpServers":{}}`} {
		if cfg, _ := Parse([]byte(text), ".mcp.json", surroundings(t, nil)); cfg != nil {
			t.Errorf("accepted: %s", text)
		}
	}
}
