package connect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/hosts"
)

// secret is in the configs of all tests in places that must never be printed.
const secret = "hunter2-Zq81"

// A machine is a user's home folder and a project.
type machine struct {
	home, project string
	env           commands.Env
	out, errs     bytes.Buffer
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{home: filepath.Join(t.TempDir(), "home"), project: filepath.Join(t.TempDir(), "project")}
	for _, dir := range []string{m.home, m.project} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", m.home)
	t.Setenv("USERPROFILE", m.home)
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_STATE_HOME", "CI", "MCPTRACK_TRUST", "MCPTRACK_CONFIG", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "KIMI_CODE_HOME", "KIMI_SHARE_DIR", "VIBE_HOME"} {
		t.Setenv(name, "")
	}
	t.Chdir(m.project)
	m.env = commands.Env{Out: &m.out, Err: &m.errs, LookupEnv: os.LookupEnv, Executable: filepath.Join(m.home, "bin", "mcptrack"), Version: "test"}
	m.put(t, filepath.Join(m.home, "bin", "mcptrack"), "")
	m.put(t, filepath.Join(m.home, "bin", "mcptrack-attach"), "")
	return m
}

func (m *machine) put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// run runs a command line, wants an exit code, and returns all output, which must not contain the
// secret.
func (m *machine) run(t *testing.T, want int, line string) string {
	t.Helper()
	m.out.Reset()
	m.errs.Reset()
	code := commands.Main(t.Context(), &m.env, strings.Fields(line))
	out := m.out.String() + m.errs.String()
	if code != want {
		t.Fatalf("%s: exit code %d, want %d:\n%s", line, code, want, out)
	}
	if strings.Contains(out, secret) {
		t.Fatalf("%s prints the secret:\n%s", line, out)
	}
	return out
}

func (m *machine) own() string { return config.OwnPath(config.Options{}) }

// server returns a server of a config, which must be valid.
func server(t *testing.T, path, id string) config.Server {
	t.Helper()
	cfg, problems := config.Load(path, config.Options{Getenv: func(string) (string, bool) { return "value", true }})
	if cfg == nil {
		t.Fatal(problems)
	}
	srv, ok := cfg.Server(id)
	if !ok {
		t.Fatalf("%s has no server %q:\n%s", path, id, text(t, path))
	}
	return srv
}

// hostFiles are the user's configs of the hosts, each with a server "github" and an entry that tests
// edit: its command is "other".
func hostFiles() map[string]struct{ file, text string } {
	return map[string]struct{ file, text string }{
		"claude-code":    {".claude.json", "{\n  \"numStartups\": 1,\n  \"oauth\": {\"accessToken\": \"" + secret + "\"},\n  \"mcpServers\": {\n    \"github\": {\n      \"type\": \"stdio\",\n      \"command\": \"sh\",\n      \"args\": [\"--token\", \"" + secret + "\"],\n      \"env\": {\"T\": \"" + secret + "\", \"U\": \"${U}\"}\n    },\n    \"b\": {\"command\": \"other\"}\n  }\n}\n"},
		"claude-desktop": {"App/Claude/claude_desktop_config.json", "{\"mcpServers\": {\"b\": {\"command\": \"other\"}, \"github\": {\"command\": \"sh\",\r\n\"env\": {\r\n\"T\": \"" + secret + "\"}}}}"},
		"cursor":         {".cursor/mcp.json", "\ufeff{\r\n\t// mine\r\n\t\"mcpServers\": {\r\n\t\t\"github\": {\"command\": \"sh\", \"alwaysAllow\": [\"x\"], \"x-new\": {\"a\": [1]}, \"env\": {\"T\": \"" + secret + "\"},}, // c\r\n\t\t\"b\": {\"command\": \"other\"},\r\n\t},\r\n}\r\n"},
		"vscode":         {"App/Code/User/mcp.json", "{\n\t\"inputs\": [{\"id\": \"tok\", \"type\": \"promptString\"}],\n\t\"servers\": {\n\t\t\"github\": {\"type\": \"http\", \"url\": \"https://example.com/mcp\", \"headers\": {\"A\": \"${input:tok}\", \"T\": \"" + secret + "\"}},\n\t\t\"b\": {\"command\": \"other\"}\n\t}\n}\n"},
		"codex":          {".codex/config.toml", "model = \"o\" # mine\n\n[mcp_servers.github] # x\ncommand = \"sh\"\nstartup_timeout_sec = 20\nenv_vars = [\"U\"]\n\n[mcp_servers.github.env]\nT = '''" + secret + "\n" + secret + "'''\n\n[mcp_servers.b]\ncommand = \"other\"\n"},
		"opencode":       {".config/opencode/opencode.json", "{\"$schema\":\"https://opencode.ai/config.json\",\"mcp\":{\"github\":{\"type\":\"local\",\"command\":[\"sh\",\"-c\"],\"environment\":{\"T\":\"" + secret + "\",\"U\":\"{env:U}\"},\"enabled\":true},\"b\":{\"type\":\"local\",\"command\":[\"other\"]}}}"},
		"gemini":         {".gemini/settings.json", "{\"theme\": \"x\", \"mcpServers\": {\n  \"github\": {\"httpUrl\": \"https://example.com/mcp?a=<b>&api_key=" + secret + "\", \"trust\": true, \"timeout\": 5},\n  \"b\": {\"command\": \"other\"}}}"},
		"windsurf":       {".codeium/windsurf/mcp_config.json", "{\n    \"mcpServers\": {\n        \"github\": {\n            \"serverUrl\": \"https://example.com/sse\",\n            \"headers\": {\"T\": \"" + secret + "\"}\n        },\n        \"b\": {\"command\": \"other\"}\n    }\n}"},
		"zed":            {".config/zed/settings.json", "// zed\n{\n  \"theme\": \"x\",\n  \"context_servers\": {\n    \"github\": {\"command\": {\"path\": \"sh\", \"args\": [], \"env\": {\"T\": \"" + secret + "\"}}},\n    \"b\": {\"source\": \"custom\", \"command\": \"other\"},\n  },\n}\n"},
		"amp":            {".config/amp/settings.json", "{\n  // mine\n  \"amp.mcpServers\": {\n    \"github\": {\"command\": \"sh\", \"env\": {\"T\": \"" + secret + "\", \"U\": \"${U}\"}, \"includeTools\": [\"x\"]},\n    \"b\": {\"command\": \"other\"}\n  }\n}\n"},
		"mistral-vibe":   {".vibe/config.toml", "theme = \"x\" # mine\n\n[[mcp_servers]]\nname = \"b\"\ntransport = \"stdio\"\ncommand = \"other\"\n\n[[mcp_servers]]\nname = \"github\"\ntransport = \"http\"\nurl = \"https://example.com/mcp\"\nstartup_timeout_sec = 9\n\n[mcp_servers.auth]\ntype = \"static\"\nheaders = { T = \"" + secret + "\" }\n"},
		"goose":          {".config/goose/config.yaml", "GOOSE_MODEL: x # mine\nextensions:\n  developer:\n    type: builtin\n  github:\n    name: github\n    type: stdio\n    cmd: sh\n    args:\n      - -c\n    enabled: true\n    timeout: 300\n    envs:\n      T: |\n        " + secret + "\n        " + secret + "\n    env_keys:\n      - U\n\n  # next\n  b:\n    type: stdio\n    cmd: other\n"},
	}
}

// file returns the path of a host's config on this system.
func (m *machine) file(path string) string {
	folders := config.Options{}.Folders()
	for prefix, dir := range map[string]string{"App/": folders.AppConfig, ".config/": folders.XDG} {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return filepath.Join(dir, filepath.FromSlash(rest))
		}
	}
	return filepath.Join(m.home, filepath.FromSlash(path))
}

// Every host's entry runs attach after connect; the original works in mcptrack's config; nothing
// secret is printed; a second connect changes nothing; and disconnect restores the file with the edits
// that were made meanwhile, byte for byte.
func TestEveryHost(t *testing.T) {
	for host, f := range hostFiles() {
		t.Run(host, func(t *testing.T) {
			m := newMachine(t)
			path := m.file(f.file)
			m.put(t, path, f.text)
			out := m.run(t, 0, "connect "+host+" --only github --dry-run")
			if text(t, path) != f.text || !strings.Contains(out, "***") || !strings.Contains(out, "mcptrack-attach") || !strings.Contains(out, "would move to") {
				t.Fatalf("--dry-run:\n%s", out)
			}
			before := server(t, path, "github")
			m.run(t, 0, "connect "+host+" --only github --yes")
			connected := text(t, path)
			now := server(t, path, "github")
			want := []string{"--config", m.own(), "github"}
			if now.Transport != config.TransportStdio || now.Command != filepath.Join(m.home, "bin", "mcptrack-attach") || !slices.Equal(now.Args, want) {
				t.Errorf("it runs %q %q", now.Command, now.Args)
			}
			if strings.Contains(strings.Replace(connected, `"accessToken": "`+secret, "", 1), secret) {
				t.Errorf("the secret is still in the file:\n%s", connected)
			}
			moved := server(t, m.own(), "github")
			if moved.Transport != before.Transport || moved.Command != before.Command || !slices.Equal(moved.Args, before.Args) || moved.URL != before.URL ||
				fmt.Sprint(revealed(moved)) != fmt.Sprint(revealed(before)) || moved.TrackResources != before.TrackResources {
				t.Errorf("moved: %+v\nbefore: %+v", moved, before)
			}
			for name := range map[string]bool{"alwaysAllow": true, "timeout": true, "trust": true, "startup_timeout_sec": true} {
				if strings.Contains(f.text, name) && (!strings.Contains(connected, name) || !strings.Contains(text(t, m.own()), name)) {
					t.Errorf("%s is lost:\n%s\n%s", name, connected, text(t, m.own()))
				}
			}
			if strings.Contains(f.text, "x-new") && !strings.Contains(text(t, m.own()), "x-new") {
				t.Errorf("an unknown key is lost:\n%s", text(t, m.own()))
			}
			if runtime.GOOS != "windows" {
				for _, file := range []string{m.own(), path + ".mcptrack-backup"} {
					if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
						t.Errorf("%s: %v, %v", file, info, err)
					}
				}
			}
			if out := m.run(t, 0, "connect "+host+" --only github"); text(t, path) != connected || !strings.Contains(out, "already connected") {
				t.Errorf("a second connect:\n%s", out)
			}
			edited := strings.NewReplacer("other", "changed-ü", "mine", "ours")
			m.put(t, path, edited.Replace(connected))
			m.run(t, 0, "connect --undo "+host)
			if got, want := text(t, path), edited.Replace(f.text); got != want {
				t.Errorf("restored:\n%q\nwant:\n%q", got, want)
			}
			if _, err := os.Stat(m.own()); err == nil {
				t.Errorf("left: %s", text(t, m.own()))
			}
			if left, _ := filepath.Glob(filepath.Join(m.env.StateDir("connect"), "*")); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if out := m.run(t, 0, "connect --undo"); !strings.Contains(out, "nothing is connected") {
				t.Errorf("a second disconnect:\n%s", out)
			}
		})
	}
}

// The files of all hosts with every key that they document are connected, and restored byte for byte.
func TestEveryKeyOfEveryHost(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", "core", "config", "testdata", "hosts"))
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	bin := filepath.Join(m.home, "bin")
	for name, value := range map[string]string{"MCPTRACK_TRUST": m.project, "KEY": "k", "MCPTRACK_INPUT_KEY": "k", "PATH": bin} {
		t.Setenv(name, value)
	}
	for _, name := range []string{"docs-server", "docs-server.exe"} {
		m.put(t, filepath.Join(bin, name), "")
		if err := os.Chmod(filepath.Join(bin, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before, folders := map[string]string{}, config.Options{Workspace: m.project}.Folders()
	for _, h := range hosts.All() {
		for _, f := range h.Files {
			files, _ := filepath.Glob(filepath.Join(root, h.Name, filepath.FromSlash(f.Path)))
			for _, file := range files {
				rel, _ := filepath.Rel(filepath.Join(root, h.Name), file)
				path := filepath.Join(map[hosts.Base]string{hosts.Project: m.project, hosts.Home: m.home, hosts.XDG: folders.XDG, hosts.AppConfig: folders.AppConfig}[f.Base], rel)
				before[path] = text(t, file)
				m.put(t, path, before[path])
			}
		}
	}
	out := m.run(t, 0, "connect --yes")
	for path := range before {
		cfg, problems := config.Load(path, config.Options{})
		if cfg == nil || !slices.ContainsFunc(cfg.Servers, func(s config.Server) bool { return s.Attaches() }) {
			t.Errorf("%s is not connected: %v\n%s", path, problems, out)
		}
	}
	m.run(t, 0, "connect --undo")
	for path, was := range before {
		if got := text(t, path); got != was {
			t.Errorf("%s is not restored:\n%s", path, got)
		}
	}
}

// Servers that Claude Code stores for other folders are named, and connected with --all-projects: those of folders
// that exist, each with its own definition. --undo restores them from any folder.
func TestOtherProjects(t *testing.T) {
	m := newMachine(t)
	t.Chdir(m.home)
	quote := func(path string) string { text, _ := json.Marshal(path); return string(text) }
	a, b := filepath.Join(m.home, "a"), filepath.Join(m.home, "b")
	for _, dir := range []string{a, b} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(m.home, ".claude.json")
	before := `{"projects": {` + quote(a) + `: {"mcpServers": {"github": {"command": "sh"}, "docs": {"command": "sh", "args": ["-a"]}}}, ` +
		quote(b) + `: {"mcpServers": {"docs": {"command": "sh", "args": ["-b"]}}}, ` + quote(filepath.Join(m.home, "gone")) + `: {"mcpServers": {"x": {"command": "sh"}}}}}`
	m.put(t, path, before)
	if out := m.run(t, 0, "connect --yes"); text(t, path) != before || !strings.Contains(out, "3 servers for other folders: "+a+" (2), "+b+" (1)") {
		t.Errorf("%s\n%s", out, text(t, path))
	}
	m.run(t, 0, "connect claude-code --only docs --all-projects --yes")
	ids := map[string]bool{}
	for _, folder := range []string{a, b} {
		cfg, problems := config.Load(path, config.Options{Workspace: folder})
		srv, ok := cfg.Server("docs")
		if !ok || !srv.Attaches() {
			t.Fatalf("%v\n%s", problems, text(t, path))
		}
		id := srv.Args[len(srv.Args)-1]
		ids[id] = true
		if got, want := server(t, m.own(), id).Args, []string{"-" + filepath.Base(folder)}; !slices.Equal(got, want) {
			t.Errorf("%s runs %q", folder, got)
		}
	}
	if out := m.run(t, 0, "connect"); len(ids) != 2 || !strings.Contains(out, "1 server for other folders: "+a+" (1)") {
		t.Errorf("%v\n%s", ids, out)
	}
	edited := strings.Replace(text(t, path), `"--config"`, `"-x", "--config"`, 1) // of folder a
	m.put(t, path, edited)
	t.Chdir(m.project)
	if out := m.run(t, 1, "connect --undo"); !strings.Contains(out, "docs of "+a+" (it was edited after connect") {
		t.Error(out)
	}
	m.put(t, path, strings.Replace(text(t, path), `"-x", `, "", 1))
	if m.run(t, 0, "connect --undo"); text(t, path) != before {
		t.Errorf("not restored:\n%s", text(t, path))
	}
	t.Setenv("MCPTRACK_TRUST", m.project)
	m.put(t, ".mcp.json", `{"mcpServers": {"mine": {"command": "sh"}}, "projects": {`+quote(a)+`: {"mcpServers": {"evil": {"command": "sh"}}}}}`)
	if m.run(t, 0, "connect --all-projects --yes"); !strings.Contains(text(t, ".mcp.json"), `"evil": {"command": "sh"}`) {
		t.Errorf("a project changed servers of another folder:\n%s", text(t, ".mcp.json"))
	}
	if out := m.run(t, 0, "connect --json"); strings.Contains(out, "otherProjects") {
		t.Error(out)
	}
}

// revealed returns the variables and headers of a server.
func revealed(srv config.Server) (all []string) {
	for _, values := range []map[string]config.Secret{srv.Env, srv.Headers} {
		for name, value := range values {
			all = append(all, name+"="+value.Reveal())
		}
	}
	slices.Sort(all)
	return all
}

// What the host gave to its servers reaches attach: inputs, and variables that the host passes on only
// by name.
func TestVariablesArePassedOn(t *testing.T) {
	m := newMachine(t)
	for _, f := range hostFiles() {
		m.put(t, m.file(f.file), f.text)
	}
	m.run(t, 0, "connect --only github --yes")
	for host, want := range map[string]string{
		"vscode": `"env": {"MCPTRACK_INPUT_TOK": "${input:tok}"}`, "claude-code": `"env": {"U": "${U}"}`, "codex": `env_vars = ["U"]`,
		"opencode": `"environment": {"U": "{env:U}"}`, "goose": "env_keys:\n    - U\n",
	} {
		if got := text(t, m.file(hostFiles()[host].file)); !strings.Contains(got, want) {
			t.Errorf("%s: no %s in\n%s", host, want, got)
		}
	}
	m.run(t, 0, "connect --undo")
	for host, f := range hostFiles() {
		if text(t, m.file(f.file)) != f.text {
			t.Errorf("%s is not restored", host)
		}
	}
}

// Equal entries of several hosts share one server, until the last host is disconnected; a server with
// the same name that differs gets another name in mcptrack's config, which existed before.
func TestSharing(t *testing.T) {
	m := newMachine(t)
	cursor, gemini, windsurf := m.file(".cursor/mcp.json"), m.file(".gemini/settings.json"), m.file(".codeium/windsurf/mcp_config.json")
	const mine = "{\n  // mine\n  \"mcpServers\": {\"docs\": {\"command\": \"sh\", \"args\": [\"-x\"]}},\n  \"webhooks\": []\n}\n"
	m.put(t, m.own(), mine)
	m.put(t, cursor, `{"mcpServers": {"github": {"command": "sh"}, "docs": {"command": "sh", "args": ["-x"]}}}`)
	m.put(t, gemini, `{"mcpServers": {"github": {"command": "sh", "timeout": 5}}}`)
	m.put(t, windsurf, `{"mcpServers": {"github": {"command": "sh", "args": ["-c"]}, "docs": {"command": "sh", "args": ["-y"]}}}`)
	m.run(t, 0, "connect cursor --yes")
	m.run(t, 0, "connect --yes")
	for path, want := range map[string][]string{cursor: {"github", "docs"}, gemini: {"github"}, windsurf: {"github-windsurf", "docs-windsurf"}} {
		for _, id := range want {
			name, _, _ := strings.Cut(id, "-")
			if got := server(t, path, name).Args; got[len(got)-1] != id {
				t.Errorf("%s: %q, want %s", path, got, id)
			}
		}
	}
	m.run(t, 0, "connect --undo cursor windsurf")
	if server(t, m.own(), "github"); strings.Contains(text(t, m.own()), "windsurf") {
		t.Errorf("left:\n%s", text(t, m.own()))
	}
	m.run(t, 0, "connect --undo")
	if got := text(t, m.own()); got != mine {
		t.Errorf("got:\n%s", got)
	}
}

// A project's file moves to a config in the project, relative to it, once the user has approved it.
func TestProject(t *testing.T) {
	m := newMachine(t)
	m.put(t, ".mcp.json", `{"mcpServers": {"github": {"command": "sh", "env": {"T": "`+secret+`"}}}}`)
	m.put(t, ".vscode/mcp.json", `{"servers": {"v": {"command": "sh"}}}`)
	if out := m.run(t, 3, "connect claude-code --yes"); !strings.Contains(out, "mcptrack trust --host claude-code ") {
		t.Error(out)
	}
	if out := m.run(t, 0, "connect --yes"); strings.Count(out, "not approved") != 2 {
		t.Error(out)
	}
	m.run(t, 0, "trust --yes")
	m.run(t, 0, "connect --yes")
	got := server(t, ".mcp.json", "github")
	if want := []string{"--approved", "--config", "mcp-servers.json", "github"}; !slices.Equal(got.Args, want) {
		t.Errorf("%q", got.Args)
	}
	if strings.Contains(text(t, ".vscode/mcp.json"), "attach") {
		t.Error("a file that is not approved was changed")
	}
	approved, err := m.env.Approvals().Approved(".")
	srv := server(t, "mcp-servers.json", "github")
	if err != nil || !approved.Digests()[srv.Intent.Digest] {
		t.Errorf("%+v, %v", approved, err)
	}
	m.run(t, 0, "trust --host vscode --yes")
	m.run(t, 0, "connect vscode --yes")
	if got := server(t, ".vscode/mcp.json", "v"); got.Dir != m.resolved(t) || got.Args[2] != "mcp-servers.json" {
		t.Errorf("%+v", got)
	}
	m.run(t, 0, "connect --undo vscode-insiders") // reads the same file
	if strings.Contains(text(t, ".vscode/mcp.json"), "attach") {
		t.Error("not restored")
	}
	other := t.TempDir()
	t.Chdir(other)
	if out := m.run(t, 0, "connect --undo"); !strings.Contains(out, "configs in other folders are connected too") {
		t.Error(out)
	}
	t.Chdir(m.project)
	m.run(t, 0, "connect --undo")
	if left, _ := filepath.Glob("*"); !slices.Equal(left, []string{".mcp.json", ".vscode"}) {
		t.Errorf("left: %q", left)
	}
}

// resolved returns the working directory, which macOS names differently.
func (m *machine) resolved(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A symbolic link that leads out of the project is not followed, neither for the host's file nor for
// mcptrack's config; a link to the user's own file is followed and stays.
func TestLinks(t *testing.T) {
	m := newMachine(t)
	t.Setenv("MCPTRACK_TRUST", m.project)
	victim := filepath.Join(m.home, "victim.json")
	m.put(t, victim, `{"mcpServers": {"x": {"command": "sh"}}}`)
	if err := os.Symlink(victim, ".mcp.json"); err != nil {
		t.Skip(err)
	}
	m.run(t, 1, "connect claude-code --yes")
	if out := m.run(t, 0, "connect --yes"); !strings.Contains(out, "leads out of this folder") {
		t.Error(out)
	}
	m.put(t, ".cursor/mcp.json", `{"mcpServers": {"x": {"command": "sh"}}}`)
	if err := os.Symlink(victim, "mcp-servers.json"); err != nil {
		t.Fatal(err)
	}
	m.run(t, 1, "connect cursor --yes")
	if strings.Contains(text(t, victim), "attach") || len(text(t, victim)) != 40 {
		t.Errorf("written: %s", text(t, victim))
	}
	link := m.file(".gemini/settings.json")
	target := filepath.Join(m.home, "dotfiles", "gemini.json")
	const settings = `{"mcpServers": {"g": {"command": "sh"}}}`
	m.put(t, target, settings)
	if err := os.Chmod(target, 0o640); err != nil {
		t.Fatal(err)
	}
	m.put(t, filepath.Join(filepath.Dir(link), "x"), "")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	m.run(t, 0, "connect gemini --yes")
	info, err := os.Stat(target)
	if linked, _ := os.Readlink(link); linked != target || err != nil || info.Mode().Perm() != 0o640 || !strings.Contains(text(t, target), "attach") {
		t.Errorf("%q, %v, %v:\n%s", linked, info.Mode(), err, text(t, target))
	}
	m.run(t, 0, "connect --undo gemini")
	if text(t, target) != settings {
		t.Error(text(t, target))
	}
}

// Entries that are disabled, not usable, or mcptrack itself are left alone, with the reason.
func TestLeftAlone(t *testing.T) {
	m := newMachine(t)
	path := m.file(".cursor/mcp.json")
	before := `{"mcpServers": {"off": {"command": "sh", "disabled": true}, "gone": {"command": "no-such-program"}, "way": {"command": "/x/mcptrack", "args": ["attach", "a"]},
		"self": {"command": "mcptrack", "args": ["gateway"]}, "helper": {"url": "https://example.com", "headersHelper": "x"}, "host": {"command": "no-such-program", "args": ["${NOT_SET_HERE}"]},
		"bare": {"command": "sh", "env": {"TOKEN": "$MY_TOKEN"}}}}`
	m.put(t, path, before)
	out := m.run(t, 0, "connect --yes -o json")
	var doc struct {
		Files []struct {
			Servers []struct {
				Name, Reason string
				Changed      bool
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Files) != 1 {
		t.Fatal(out, err)
	}
	want := map[string]string{"off": "disabled", "gone": `not configured: there is no program "no-such-program" in PATH`, "way": "already connected",
		"self": "it runs mcptrack itself", "helper": `it uses "headersHelper", which mcptrack does not support`, "host": "", "bare": `Server "bare": "env.TOKEN" has $MY_TOKEN, which is not expanded; write ${MY_TOKEN}`}
	for _, s := range doc.Files[0].Servers {
		if reason, ok := want[s.Name]; !ok || reason != s.Reason || s.Changed != (reason == "") {
			t.Errorf("%+v, want %q", s, reason)
		}
	}
	if len(doc.Files[0].Servers) != len(want) {
		t.Error(out)
	}
	m.run(t, 0, "connect --undo")
	if text(t, path) != before {
		t.Error(text(t, path))
	}
}

// Files that cannot be read safely are not changed, and other hosts are connected nevertheless.
func TestHostileFiles(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, path string){
		"duplicate keys": func(t *testing.T, path string) {
			t.Helper()
			write(t, path, `{"mcpServers": {"a": {"command": "sh"}}, "mcpServers": {"b": {"command": "sh", "env": {"T": "`+secret+`"}}}}`)
		},
		"not JSON": func(t *testing.T, path string) { t.Helper(); write(t, path, `{"mcpServers": {"a": `+secret) },
		"too large": func(t *testing.T, path string) {
			t.Helper()
			write(t, path, `{"mcpServers": {"a": {"command": "sh"}}, "x": "`+strings.Repeat("x", 2<<20)+`"}`)
		},
		"others may write": func(t *testing.T, path string) {
			t.Helper()
			write(t, path, `{"mcpServers": {"a": {"command": "sh"}}}`)
			if err := os.Chmod(path, 0o666); err != nil || runtime.GOOS == "windows" {
				t.Skip(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			path := m.file(".cursor/mcp.json")
			m.put(t, path, "")
			spoil(t, path)
			before := text(t, path)
			m.put(t, m.file(".gemini/settings.json"), `{"mcpServers": {"g": {"command": "sh"}}}`)
			m.run(t, 3, "connect cursor --yes")
			m.run(t, 0, "connect --yes")
			if text(t, path) != before || !strings.Contains(text(t, m.file(".gemini/settings.json")), "attach") {
				t.Errorf("%.300s\n%s", text(t, path), text(t, m.file(".gemini/settings.json")))
			}
		})
	}
	m := newMachine(t) // a settings file may be large
	path := m.file(".claude.json")
	before := `{"history": ["` + strings.Repeat("x\\n", 1<<19) + `"],` + "\n" + `"mcpServers": {"g": {"command": "sh", "env": {"T": "` + secret + `"}}}}`
	m.put(t, path, before)
	out := m.run(t, 0, "connect --dry-run")
	if !strings.Contains(out, "\n+    \"command\"") || len(out) > 10_000 {
		t.Errorf("%d: %.1000s", len(out), out)
	}
	m.run(t, 0, "connect --yes")
	m.run(t, 0, "connect --undo")
	if text(t, path) != before {
		t.Error("not restored")
	}
	before = `{"history":["` + strings.Repeat(strings.Repeat("x", 100)+`","`, 11_000) + `"],"mcpServers":{"g":{"command":"sh","env":{"T":"` + secret + `"}}}}` // on one line
	m.put(t, path, before)
	if out := m.run(t, 0, "connect --dry-run"); !strings.Contains(out, "\n-    \"command\": \"sh\"") || !strings.Contains(out, "***") || len(out) > 10_000 {
		t.Errorf("%d: %.1000s", len(out), out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// An entry that was edited by hand is left alone and named; one that is no longer connected leaves the
// record.
func TestEditedByHand(t *testing.T) {
	m := newMachine(t)
	path := m.file(".cursor/mcp.json")
	before := `{"mcpServers": {"a": {"command": "sh"}, "b": {"command": "sh", "args": ["b"]}, "c": {"command": "sh", "args": ["c"]}}}`
	m.put(t, path, before)
	m.run(t, 0, "connect --yes")
	edited := strings.NewReplacer(`"a"]`, `"a", "--verbose"]`, `"c"`, `"d"`).Replace(text(t, path))
	m.put(t, path, edited)
	if out := m.run(t, 1, "connect --undo"); !strings.Contains(out, "it was edited after connect") {
		t.Error(out)
	}
	if got := text(t, path); !strings.Contains(got, "--verbose") || !strings.Contains(got, `"b": {"command": "sh", "args": ["b"]}`) {
		t.Error(got)
	}
	server(t, m.own(), "a")
	m.put(t, path, strings.Replace(text(t, path), `, "--verbose"`, "", 1))
	m.run(t, 0, "connect --undo")
	if got := text(t, path); !strings.Contains(got, `"a": {"command": "sh"}`) {
		t.Error(got)
	}
	server(t, m.own(), "c") // "d" still uses it
	if text(t, path+".mcptrack-backup") != before {
		t.Error("the backup is not the first original")
	}
}

// A run that was interrupted before it changed the host's file is completed by the next, and undone like
// any other.
func TestInterrupted(t *testing.T) {
	for name, lose := range map[string]bool{"after the record": true, "after mcptrack's config": false} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			path := m.file(".cursor/mcp.json")
			const before = `{"mcpServers": {"a": {"command": "sh"}}}`
			m.put(t, path, before)
			m.run(t, 0, "connect --yes")
			m.put(t, path, before)
			if err := os.Remove(m.own()); lose && err != nil {
				t.Fatal(err)
			} else if !lose {
				m.put(t, m.own(), `{"servers": [{"id": "a", "command": "sh", "trackResources": true}]}`)
				if err := os.Chmod(m.own(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m.run(t, 0, "connect --yes")
			server(t, m.own(), "a")
			m.run(t, 0, "connect --undo")
			if got := text(t, path); got != before {
				t.Error(got)
			}
			if _, err := os.Stat(m.own()); err == nil {
				t.Errorf("left: %s", text(t, m.own()))
			}
		})
	}
}

// Without the record of what connect changed, disconnect names the backup.
func TestRecordIsMissing(t *testing.T) {
	m := newMachine(t)
	files := hostFiles()
	path := m.file(files["cursor"].file)
	m.put(t, path, files["cursor"].text)
	m.put(t, m.file(files["zed"].file), files["zed"].text)
	m.run(t, 0, "connect cursor --only github --yes")
	connected := text(t, path)
	if err := os.RemoveAll(m.env.StateDir("connect")); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"connect --undo", "connect --undo cursor --json", "connect --undo --dry-run"} {
		if out := m.run(t, 1, line); !strings.Contains(out, "copy the entry from "+path+".mcptrack-backup") || strings.Contains(out, "zed") {
			t.Errorf("%s: %s", line, out)
		}
	}
	if text(t, path) != connected {
		t.Error("the file was changed")
	}
	m.run(t, 0, "connect --undo zed")
	m.put(t, path, files["cursor"].text)
	if out := m.run(t, 0, "connect --undo"); !strings.Contains(out, "nothing is connected here") {
		t.Error(out)
	}
}

// An entry in a list is found by its name, although others were added before it.
func TestList(t *testing.T) {
	m := newMachine(t)
	path := m.file(".continue/config.yaml")
	m.put(t, path, "mcpServers:\n  - name: a # x\n    command: sh\n  - name: b\n    command: sh\n    args: [b]\n")
	m.run(t, 0, "connect --yes")
	m.put(t, path, strings.Replace(text(t, path), "mcpServers:\n", "mcpServers:\n  - name: new\n    command: sh\n", 1))
	m.run(t, 0, "connect --undo")
	if got, want := text(t, path), "mcpServers:\n  - name: new\n    command: sh\n  - name: a # x\n    command: sh\n  - name: b\n    command: sh\n    args: [b]\n"; got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// connect asks on the terminal, and refuses a file that changes while it asks.
func TestQuestion(t *testing.T) {
	m := newMachine(t)
	path := m.file(".cursor/mcp.json")
	before := `{"mcpServers": {"a": {"command": "sh", "env": {"T": "` + secret + `"}}}}`
	m.put(t, path, before)
	if out := m.run(t, 2, "connect"); !strings.Contains(out, "--yes") {
		t.Error(out)
	}
	var asked bytes.Buffer
	answer := func(s string, meanwhile func()) {
		asked.Reset()
		m.env.Terminal = func() (*commands.Terminal, error) {
			meanwhile()
			return &commands.Terminal{Reader: strings.NewReader(s + "\n"), Writer: &asked}, nil
		}
	}
	nothing := func() {}
	answer("n", nothing)
	m.run(t, 1, "connect")
	answer("y", func() { m.put(t, path, before+" ") })
	m.run(t, 1, "connect")
	if text(t, path) != before+" " {
		t.Error(text(t, path))
	}
	answer("y", nothing)
	m.run(t, 0, "connect")
	if !strings.Contains(text(t, path), "attach") || !strings.Contains(asked.String(), "Change 1 server in 1 file? [y/N]") || strings.Contains(asked.String(), secret) {
		t.Errorf("%s\n%s", text(t, path), asked.String())
	}
	m.run(t, 0, "connect --undo")
	if text(t, path) != before+" " {
		t.Error(text(t, path))
	}
}
