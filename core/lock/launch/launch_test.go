package launch_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock/launch"
	"github.com/mcptrack/mcptrack/core/peertest"
)

// machine is a folder with a home folder and a project, and returns paths in it.
type machine string

func newMachine(t *testing.T, files map[string]string) machine {
	t.Helper()
	m := machine(t.TempDir())
	for _, dir := range []string{"home", "project"} {
		must(t, os.MkdirAll(m.path(dir), 0o755))
	}
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Dir(m.path(name)), 0o755))
		must(t, os.WriteFile(m.path(name), []byte(text), 0o755))
	}
	return m
}

func (m machine) path(name string) string { return filepath.Join(string(m), filepath.FromSlash(name)) }

// of returns the launch of a command that runs in the project. Blanks separate its arguments.
func (m machine) of(t *testing.T, command string) (launch.Launch, []string) {
	t.Helper()
	args := strings.Fields(command)
	srv := config.Server{Transport: config.TransportStdio, Program: config.Program{Command: args[0], Args: args[1:], Dir: m.path("project"), Env: map[string]config.Secret{}}}
	// Caches are where they are on Linux, whatever the system of the test.
	for name, value := range map[string]string{"UV_CACHE_DIR": ".cache/uv", "UV_TOOL_DIR": ".local/share/uv/tools"} {
		srv.Env[name] = config.NewSecret(m.path("home/" + value))
	}
	getenv := func(name string) string {
		return map[string]string{"XDG_CACHE_HOME": m.path("home/.cache"), "UV_CACHE_DIR": "/not/inherited"}[name]
	}
	return launch.Of(t.Context(), srv, launch.Machine{Home: m.path("home"), Getenv: getenv})
}

const (
	serverMemory = "sha512-YqSHUNk6KI84u994ayb82ALaDb/oYAuwqRw+cFeFUS+XbRvCYIkkxo20bSm7zDsbzKPi3l/x1mYwI5Pypmwx9g=="
	hashOfA      = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" // of "a"
)

// npxFiles are the files that npm 11.19 wrote for
// "npx -y @modelcontextprotocol/server-memory@2025.8.4", without the other dependencies.
func npxFiles() map[string]string {
	const dir = "home/.npm/_npx/38990cc974db7f23/"
	const packages = `"node_modules/@modelcontextprotocol/sdk": {"version": "1.0.1", "integrity": "sha512-x"},
		"node_modules/@modelcontextprotocol/server-memory": {"version": "2025.8.4", "integrity": "` + serverMemory + `", "license": "MIT", "bin": {"mcp-server-memory": "dist/index.js"}}`
	return map[string]string{
		dir + "package.json": `{"dependencies": {"@modelcontextprotocol/server-memory": "^2025.8.4"}, "_npx": {"packages": ["@modelcontextprotocol/server-memory@2025.8.4"]}}`,
		dir + "package-lock.json": `{"name": "38990cc974db7f23", "lockfileVersion": 3, "requires": true, "packages": {
			"": {"dependencies": {"@modelcontextprotocol/server-memory": "^2025.8.4"}}, ` + packages + `}}`,
		dir + "node_modules/.package-lock.json": `{"name": "38990cc974db7f23", "lockfileVersion": 3, "requires": true, "packages": {` + packages + `}}`,
	}
}

func TestNPX(t *testing.T) {
	t.Parallel()
	files := npxFiles()
	files["home/.npmrc"] = "//registry.example/:_authToken=hunter2hunter2\ncache = ${HOME}/.npm\n" // elsewhere by default on Windows
	git := "home/.npm/_npx/aaaaaaaaaaaaaaaa/"
	files[git+"package.json"] = `{"dependencies": {"server": "github:o/server", "zod": "^4"}, "_npx": {"packages": ["zod@^4", "server@github:o/server"]}}`
	files[git+"package-lock.json"] = `{"packages": {"node_modules/zod": {"version": "4.1.2", "integrity": "sha512-zod"},
		"node_modules/server": {"version": "1.0.0", "resolved": "git+ssh://git@github.com/o/server.git#0123456789abcdef"}}}`
	alias := "home/.npm/_npx/f3c1b0bd5f2c2c5f/" // not the hash of anything: it must not be found
	files[alias+"package.json"] = `{"dependencies": {"other": "^1"}, "_npx": {"packages": ["other"]}}`
	files[alias+"package-lock.json"] = `{"packages": {"node_modules/other": {"version": "1.0.0", "integrity": "sha512-o"}}}`
	files["project/package.json"] = `{}`
	files["project/node_modules/.package-lock.json"] = `{"packages": {"node_modules/local": {"version": "3.0.0", "integrity": "sha512-local"},
		"node_modules/@modelcontextprotocol/server-memory": {"version": "1.1.1", "integrity": "sha512-older"},
		"node_modules/alias": {"name": "real", "version": "2.0.0", "integrity": "sha512-real"}}}`
	m := newMachine(t, files)
	memory := launch.Package{Type: launch.NPM, Name: "@modelcontextprotocol/server-memory", Requested: "2025.8.4", Version: "2025.8.4", Integrity: serverMemory}
	for command, test := range map[string]struct {
		want    []launch.Package
		problem string
	}{
		"npx -y @modelcontextprotocol/server-memory@2025.8.4":                         {want: []launch.Package{memory}},
		"npx -y --package=@modelcontextprotocol/server-memory@2025.8.4 -- mcp-server": {want: []launch.Package{memory}},
		"npm exec -y @modelcontextprotocol/server-memory@2025.8.4 -- --x":             {want: []launch.Package{memory}},
		"sh -c npx": {problem: "does not say what"},
		"cmd /c npx -y @modelcontextprotocol/server-memory@2025.8.4": {want: []launch.Package{memory}},
		"env A=b npx @modelcontextprotocol/server-memory@2025.8.4":   {want: []launch.Package{memory}},
		"npx -y @modelcontextprotocol/server-memory":                 {want: []launch.Package{{Type: launch.NPM, Name: memory.Name, Version: "1.1.1", Integrity: "sha512-older"}}},
		"npx @modelcontextprotocol/server-memory@latest":             {want: []launch.Package{{Type: launch.NPM, Name: memory.Name, Requested: "latest", Version: "1.1.1", Integrity: "sha512-older"}}},
		"npx -p server@github:o/server -p zod@^4 server":             {want: []launch.Package{{Type: launch.NPM, Name: "server", Requested: "github:o/server", Version: "1.0.0", Integrity: "git:0123456789abcdef"}, {Type: launch.NPM, Name: "zod", Requested: "^4", Version: "4.1.2", Integrity: "sha512-zod"}}},
		"npx local":          {want: []launch.Package{{Type: launch.NPM, Name: "local", Version: "3.0.0", Integrity: "sha512-local"}}},
		"npx alias@npm:real": {want: []launch.Package{{Type: launch.NPM, Name: "real", Version: "2.0.0", Integrity: "sha512-real"}}},
		"npx other":          {want: []launch.Package{{Type: launch.NPM, Name: "other"}}, problem: "the package other is not in npm's cache"},
		"npx other@1.2.3":    {want: []launch.Package{{Type: launch.NPM, Name: "other", Requested: "1.2.3", Version: "1.2.3"}}, problem: "the content of the package other is not known"},
		"npx --cache /nowhere @modelcontextprotocol/server-memory@^9":  {want: []launch.Package{{Type: launch.NPM, Name: memory.Name, Requested: "^9", Version: "1.1.1", Integrity: "sha512-older"}}},
		"npx https://user:hunter2hunter2@h.example/server.tgz":         {want: []launch.Package{{Type: launch.NPM, Name: "https://user:[secret]@h.example/server.tgz"}}, problem: "is not in npm's cache"},
		"npx ../../../etc@1.0.0":                                       {want: []launch.Package{{Type: launch.NPM, Name: "../../../etc@1.0.0"}}, problem: "is not in npm's cache"},
		"bunx server@1.0.0":                                            {want: []launch.Package{{Type: launch.NPM, Name: "server", Requested: "1.0.0", Version: "1.0.0"}}, problem: "the content of the package"},
		"deno run -A npm:@s/server@1.0.0/bin":                          {want: []launch.Package{{Type: launch.NPM, Name: "@s/server", Requested: "1.0.0", Version: "1.0.0"}}, problem: "the content of the package"},
		"deno run https://x.example/a.ts":                              {problem: "read from the network"},
		"docker run -i --rm -e A r.example:5000/a/b:1.0@sha256:00 --x": {want: []launch.Package{{Type: launch.OCI, Name: "r.example:5000/a/b", Requested: "1.0", Integrity: "sha256:00"}}},
		"podman run mcp/fetch":                                         {want: []launch.Package{{Type: launch.OCI, Name: "mcp/fetch"}}, problem: "without a digest"},
		"github-mcp-server stdio":                                      {problem: "searched in PATH"},
	} {
		got, problems := m.of(t, command)
		if diff := cmp.Diff(test.want, got.Packages); diff != "" {
			t.Errorf("%s: -want +got:\n%s", command, diff)
		}
		if text := strings.Join(problems, "\n"); (text == "") != (test.problem == "") || !strings.Contains(text, test.problem) || strings.Contains(text, "hunter2") {
			t.Errorf("%s: problems %q, want %q", command, text, test.problem)
		}
	}
}

// A package that is installed globally is run instead of the one in npx's cache.
func TestGlobalNPM(t *testing.T) {
	t.Parallel()
	files := npxFiles()
	prefix := "home/global/"
	files["home/.npmrc"] = "cache = ${HOME}/.npm\nprefix=${HOME}/global\n"
	if runtime.GOOS != "windows" {
		prefix += "lib/"
	}
	files[prefix+"node_modules/@modelcontextprotocol/server-memory/package.json"] = `{"version": "2025.8.4"}`
	m := newMachine(t, files)
	want := launch.Package{Type: launch.NPM, Name: "@modelcontextprotocol/server-memory", Version: "2025.8.4"}
	if got, problems := m.of(t, "npx -y @modelcontextprotocol/server-memory"); len(got.Packages) != 1 || got.Packages[0] != want || len(problems) != 1 {
		t.Errorf("%+v, %q", got, problems)
	}
	want.Requested = "2025.8.4"
	if got, _ := m.of(t, "npx -y @modelcontextprotocol/server-memory@2025.8.4"); len(got.Packages) != 1 || got.Packages[0] != want {
		t.Errorf("%+v", got)
	}
	want.Integrity = serverMemory
	if got, _ := m.of(t, "npx -y -p @modelcontextprotocol/server-memory@2025.8.4 mcp-server-memory"); len(got.Packages) != 1 || got.Packages[0] != want {
		t.Errorf("%+v", got)
	}
}

// The cache of pnpm 12.21. A newer folder wins for a request that does not name the version.
func TestPNPM(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	for version, id := range map[string]string{"2025.8.4": "8b015daeadd6220e33564e2b51d2e663", "2026.8.31": "0b"} {
		dir := "home/.cache/pnpm/dlx/" + id + "/pkg/"
		files[dir+"package.json"] = `{"name":"dlx","version":"0.0.0","dependencies":{"@modelcontextprotocol/server-memory":"` + version + `"}}`
		files[dir+"node_modules/@modelcontextprotocol/server-memory/package.json"] = `{"version": "` + version + `"}`
		files[dir+"pnpm-lock.yaml"] = "lockfileVersion: '9.0'\n\npackages:\n\n  '@modelcontextprotocol/server-memory@" + version + "':\n    resolution: {integrity: sha512-" + version + "==}\n    hasBin: true\n"
	}
	m := newMachine(t, files)
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(m.path("home/.cache/pnpm/dlx/8b015daeadd6220e33564e2b51d2e663/pkg"), old, old))
	for command, want := range map[string]launch.Package{
		"pnpm dlx @modelcontextprotocol/server-memory@2025.8.4": {Requested: "2025.8.4", Version: "2025.8.4", Integrity: "sha512-2025.8.4=="},
		"pnpx @modelcontextprotocol/server-memory":              {Version: "2026.8.31", Integrity: "sha512-2026.8.31=="},
		"pnpm dlx @modelcontextprotocol/server-memory@1.0.0":    {Requested: "1.0.0", Version: "1.0.0"},
	} {
		want.Type, want.Name = launch.NPM, "@modelcontextprotocol/server-memory"
		got, _ := m.of(t, command)
		if diff := cmp.Diff([]launch.Package{want}, got.Packages); diff != "" {
			t.Errorf("%s: -want +got:\n%s", command, diff)
		}
	}
}

// pythonFiles installs a package in an environment, as pip and uv do.
func pythonFiles(files map[string]string, env, name, version, content string) {
	site := env + "/lib/python3.12/site-packages/"
	info := site + name + "-" + version + ".dist-info/"
	files[info+"METADATA"] = "Name: " + name
	files[info+"RECORD"] = "../../../bin/" + name + ",sha256=" + env + ",200\n" + name + "/__init__.py,sha256=" + content + ",12\r\n" + name + "/__pycache__/x.pyc,,\n" +
		name + "-" + version + ".dist-info/RECORD,,\n" + name + "-" + version + ".dist-info/INSTALLER,sha256=" + env + ",2\n"
}

func TestPython(t *testing.T) {
	t.Parallel()
	files := map[string]string{"project/.venv/pyvenv.cfg": "", "project/pkg/__main__.py": "a", "project/server.py": "a", "project/sub/server.py": "b"}
	pythonFiles(files, "home/.cache/uv/environments-v2/i/old", "mcp_server_git", "2025.1.0", "x")
	pythonFiles(files, "home/.cache/uv/environments-v2/i/new", "mcp_server_git", "2026.1.0", "y")
	pythonFiles(files, "home/.local/share/uv/tools/mcp-server-time", "mcp_server_time", "1.0.0", "x")
	pythonFiles(files, "home/.cache/uv/environments-v2/i/new", "mcp_server_time", "2.0.0", "y")
	pythonFiles(files, "home/.local/share/pipx/.cache/0a", "mcp_server_git", "2025.1.0", "x")
	pythonFiles(files, "project/.venv", "mcp_server_git", "2025.1.0", "x")
	pythonFiles(files, "home/.cache/uv/environments-v2/i/new", "of_git", "1.0.0", "y")
	files["home/.cache/uv/environments-v2/i/new/lib/python3.12/site-packages/of_git-1.0.0.dist-info/direct_url.json"] = `{"url": "https://h.example/r", "vcs_info": {"vcs": "git", "commit_id": "0123"}}`
	pythonFiles(files, "home/.cache/uv/environments-v2/i/new", "compiled", "1.0.0", "y")
	files["home/.cache/uv/environments-v2/i/new/lib/python3.12/site-packages/compiled-1.0.0.dist-info/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n"
	m := newMachine(t, files)
	if got, problems := m.of(t, "uvx compiled"); got.Packages[0].Version != "1.0.0" || got.Packages[0].Integrity != "" || len(problems) != 1 {
		t.Errorf("%+v, %q", got, problems)
	}
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(m.path("home/.cache/uv/environments-v2/i/old"), old, old))
	const git, x = "mcp-server-git", "2025.1.0"
	integrity := map[string]string{}
	for command, want := range map[string]launch.Package{
		"uvx mcp-server-git@2025.1.0 --repository /r":  {Name: git, Requested: x, Version: x},
		"uvx --from Mcp.Server_Git[a]==2025.1.0 s":     {Name: git, Requested: "==2025.1.0", Version: x},
		"pipx run --spec mcp-server-git==2025.1.0 s":   {Name: git, Requested: "==2025.1.0", Version: x},
		".venv/bin/mcp-server-git":                     {Name: git, Version: x},
		".venv/bin/python -m mcp_server_git.main":      {Name: git, Version: x},
		"uv tool run mcp-server-git>=2025":             {Name: git, Requested: ">=2025", Version: "2026.1.0"},
		"uvx mcp-server-git":                           {Name: git, Version: "2026.1.0"},
		"uvx mcp-server-time":                          {Name: "mcp-server-time", Version: "1.0.0"},
		"uvx --isolated mcp-server-time":               {Name: "mcp-server-time", Version: "2.0.0"},
		"uvx --from of-git@git+https://h.example/r of": {Name: "of-git", Requested: "git+https://h.example/r", Version: "1.0.0", Integrity: "git:0123"},
	} {
		got, problems := m.of(t, command)
		if len(got.Packages) != 1 || len(problems) > 0 {
			t.Errorf("%s: %v, %q", command, got.Packages, problems)
			continue
		}
		found := got.Packages[0]
		want.Type = launch.PyPI
		if want.Integrity == "" {
			// Files with the same content have the same integrity in all environments.
			key := found.Name + found.Version
			if integrity[key] == "" {
				integrity[key] = found.Integrity
			}
			if want.Integrity = integrity[key]; !strings.HasPrefix(want.Integrity, "record-sha256:") {
				t.Errorf("%s: integrity %s", command, want.Integrity)
			}
		}
		if found != want {
			t.Errorf("%s: %v, want %v", command, found, want)
		}
	}
	if integrity["mcp-server-git2025.1.0"] == integrity["mcp-server-git2026.1.0"] {
		t.Error("other files have the same integrity")
	}
	got, problems := m.of(t, "uv run --with mcp-server-time,of-git mcp run server.py")
	if names := got.Packages; len(names) != 2 || names[0].Version != "2.0.0" || names[1].Name != "of-git" || got.File == nil || len(problems) > 0 {
		t.Errorf("%+v, %q", got, problems)
	}
	for command, want := range map[string]*launch.File{
		"python server.py":                 {Path: "server.py", SHA256: hashOfA},
		"uv run server.py":                 {Path: "server.py", SHA256: hashOfA},
		"uv --directory sub run server.py": {Path: "sub/server.py", SHA256: "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"},
		"python -m pkg":                    {Path: "pkg/__main__.py", SHA256: hashOfA},
		"uv run fastmcp run server.py:app": {Path: "server.py", SHA256: hashOfA},
		"fastmcp run sub/server.py":        {Path: "sub/server.py", SHA256: "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"},
		"fastmcp run missing.py":           nil,
		"python -m missing":                nil,
		"python " + string(m):              nil,
	} {
		got, problems := m.of(t, command)
		if diff := cmp.Diff(want, got.File); diff != "" || (want == nil) != (len(problems) > 0) {
			t.Errorf("%s: %q, -want +got:\n%s", command, problems, diff)
		}
	}
}

func TestScripts(t *testing.T) {
	t.Parallel()
	m := newMachine(t, map[string]string{
		"project/dist/index.js": "a", "project/server": "a", "elsewhere/s.js": "a", "project/large.js": "",
		"project/node_modules/@s/server/dist/index.js": "a", "project/node_modules/unknown/index.js": "a",
		"project/node_modules/.package-lock.json": `{"packages": {"node_modules/@s/server": {"version": "1.0.0", "integrity": "sha512-x"}}}`,
	})
	must(t, os.Truncate(m.path("project/large.js"), launch.MaxFile+1))
	index := &launch.File{Path: "dist/index.js", SHA256: hashOfA}
	for command, want := range map[string]*launch.File{
		"node dist/index.js":                        index,
		"node ./dist/../dist":                       index,
		"node dist/index":                           index,
		"npx -y tsx dist/index.js":                  index,
		"./server":                                  {Path: "server", SHA256: hashOfA},
		"node " + m.path("elsewhere/s.js"):          {Path: "s.js", SHA256: hashOfA},
		"node node_modules/unknown/index.js":        {Path: "node_modules/unknown/index.js", SHA256: hashOfA},
		"node node_modules/@s/server/dist/index.js": nil,
		"node large.js":                             nil,
		"node missing.js":                           nil,
		"./missing":                                 nil,
	} {
		got, _ := m.of(t, command)
		if diff := cmp.Diff(want, got.File); diff != "" {
			t.Errorf("%s: -want +got:\n%s", command, diff)
		}
	}
	got, problems := m.of(t, "node node_modules/@s/server/dist/index.js")
	if want := (launch.Package{Type: launch.NPM, Name: "@s/server", Version: "1.0.0", Integrity: "sha512-x"}); len(problems) > 0 || len(got.Packages) != 1 || got.Packages[0] != want {
		t.Errorf("%v, %q", got.Packages, problems)
	}
	if _, problems := m.of(t, "node large.js"); len(problems) != 1 || !strings.Contains(problems[0], "larger than 33554432 bytes") {
		t.Errorf("%q", problems)
	}
}

// TestRealTree resolves the packages that npm has installed for the tests.
func TestRealTree(t *testing.T) {
	t.Parallel()
	dir := peertest.Path(t)
	var lock struct {
		Packages map[string]struct{ Version, Integrity string }
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", ".package-lock.json"))
	must(t, errors.Join(err, json.Unmarshal(text, &lock)))
	const name = "@modelcontextprotocol/server-everything"
	want := launch.Package{Type: launch.NPM, Name: name, Version: lock.Packages["node_modules/"+name].Version, Integrity: lock.Packages["node_modules/"+name].Integrity}
	if !strings.HasPrefix(want.Integrity, "sha512-") {
		t.Fatalf("%v", want)
	}
	for _, command := range [][]string{
		{"npx", "-y", name}, {"node", "node_modules/.bin/mcp-server-everything", "stdio"}, {"node", "node_modules/" + name + "/dist/index.js"}, {"./node_modules/.bin/mcp-server-everything"},
	} {
		srv := config.Server{Transport: config.TransportStdio, Program: config.Program{Command: command[0], Args: command[1:], Dir: dir}}
		got, problems := launch.Of(t.Context(), srv, launch.Machine{Home: t.TempDir()})
		if len(got.Packages) != 1 || got.Packages[0] != want || got.File != nil || len(problems) > 0 {
			t.Errorf("%q: %+v, %q", command, got, problems)
		}
	}
}

// What the config says is in the lock as written there, without secrets.
func TestOfConfig(t *testing.T) {
	t.Parallel()
	const token = "ghp_hunter2hunter2hunter2hunter2hunter2"
	m := newMachine(t, map[string]string{"project/.env": "FROM_FILE=hunter2hunter2\n", "project/s.js": "a", "bin/node": "", "bin/docker": "", "project/mcptrack.json": `{"servers": {
		"a": {"command": "node", "args": ["${workspaceFolder}/s.js", "--api-key", "` + token + `", "--host=${HOST}"], "env": {"B": "hunter2hunter2", "A": "${HOST}"}, "envFile": ".env", "cwd": "${workspaceFolder}"},
		"b": {"url": "https://me:hunter2hunter2@h.example/mcp?profile=x&api_key=` + token + `#frag", "headers": {"Authorization": "Bearer ` + token + `", "X-A": "1"}},
		"c": {"url": "https://${HOST}/${TOKEN}/mcp"},
		"d": {"command": "docker", "args": ["run", "-e", "API_KEY=hunter2hunter2", "--rm", "img@sha256:00"]},
		"e": {"command": "npx", "args": ["${UNSET}"]}}}`})
	c, problems := config.Load(m.path("project/mcptrack.json"), config.Options{Workspace: m.path("project"), Getenv: func(name string) (string, bool) {
		value, ok := map[string]string{"HOST": "h.internal.example", "TOKEN": token, "PATH": m.path("bin")}[name]
		return value, ok
	}})
	if c == nil {
		t.Fatal(problems)
	}
	for id, want := range map[string]string{
		"a": `{"transport":"stdio","command":"node","args":["${workspaceFolder}/s.js","--api-key","[secret]","--host=${HOST}"],"cwd":"${workspaceFolder}",` +
			`"env":["A","B","FROM_FILE"],"file":{"path":"s.js","sha256":"` + hashOfA + `"}}`,
		"b": `{"transport":"http","url":"https://h.example/mcp?profile=x&api_key=[secret]","headers":["Authorization","X-A"]}`,
		"c": `{"transport":"http","url":"https://${HOST}/${TOKEN}/mcp"}`,
		"d": `{"transport":"stdio","command":"docker","args":["run","-e","API_KEY=[secret]","--rm","img@sha256:00"],"packages":[{"type":"oci","name":"img","integrity":"sha256:00"}]}`,
		"e": `{"transport":"stdio","command":"npx","args":["${UNSET}"]}`,
	} {
		srv, _ := c.Server(id)
		l, problems := launch.Of(t.Context(), srv, launch.Machine{Home: m.path("home")})
		var got strings.Builder
		enc := json.NewEncoder(&got)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(l); err != nil || len(problems) > 0 != (id == "e") {
			t.Errorf("%v, %q", err, problems)
		}
		if got := strings.TrimSpace(got.String()); got != want {
			t.Errorf("%s:\n got %s\nwant %s", id, got, want)
		}
		if strings.Contains(got.String(), "hunter2") {
			t.Error("a secret is in the launch")
		}
	}
}

func TestOfCancelled(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	pythonFiles(files, "home/.cache/uv/environments-v2/i/e", "s", "1.0.0", "x")
	m := newMachine(t, files)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	srv := config.Server{Transport: config.TransportStdio, Program: config.Program{Command: "uvx", Args: []string{"s"}, Dir: m.path("project")}}
	l, problems := launch.Of(ctx, srv, launch.Machine{Home: m.path("home")})
	if len(l.Packages) != 1 || l.Packages[0].Version != "" || len(problems) != 1 {
		t.Errorf("%+v, %q", l, problems)
	}
}

// Files in caches are hostile.
func FuzzCaches(f *testing.F) {
	f.Add(`{"packages": {"node_modules/s": {"version": "1", "integrity": "x"}}}`, "s/a.py,sha256=x,1\n", "packages:\n  s@1.0.0: {resolution: {integrity: x}}")
	f.Add(`{"packages": {"node_modules/s": null}}`, ",,,\n\n..", "packages: [")
	f.Fuzz(func(t *testing.T, lock, record, yaml string) {
		m := newMachine(t, map[string]string{
			"project/package.json": "{}", "project/node_modules/.package-lock.json": lock,
			"home/.local/share/uv/tools/s/lib/python3/site-packages/s-1.dist-info/RECORD": record,
			"home/.cache/pnpm/dlx/x/pkg/package.json":                                     `{"dependencies": {"s": "1.0.0"}}`,
			"home/.cache/pnpm/dlx/x/pkg/node_modules/s/package.json":                      `{"version": "1.0.0"}`,
			"home/.cache/pnpm/dlx/x/pkg/pnpm-lock.yaml":                                   yaml,
		})
		for _, command := range []string{"npx s", "uvx s", "pnpm dlx s"} {
			if l, _ := m.of(t, command); len(l.Packages) != 1 || l.Packages[0].Name == "" {
				t.Errorf("%s: %+v", command, l)
			}
		}
	})
}

// A machine that remembers hashes reads a program only once, and again when it was replaced or modified.
func TestRemembering(t *testing.T) {
	t.Parallel()
	m := newMachine(t, map[string]string{"project/server": "a"})
	machine := launch.Machine{Home: m.path("home")}.Remembering()
	hash := func() string {
		srv := config.Server{Transport: config.TransportStdio, Program: config.Program{Command: "./server", Dir: m.path("project")}}
		l, problems := launch.Of(t.Context(), srv, machine)
		if l.File == nil || len(problems) > 0 {
			t.Fatalf("%+v, %q", l, problems)
		}
		return l.File.SHA256
	}
	write := func(name, text string, modified time.Time) {
		must(t, os.WriteFile(m.path(name), []byte(text), 0o755))
		must(t, os.Chtimes(m.path(name), modified, modified))
	}
	at := time.Now().Add(-time.Hour)
	write("project/server", "a", at)
	first := hash()
	write("project/server", "b", at) // which shows that it is not read again
	if hash() != first || first != hashOfA {
		t.Errorf("the hash of the same file is %s, then %s", first, hash())
	}
	write("project/server", "b", at.Add(time.Second))
	modified := hash()
	write("project/server", "bc", at.Add(time.Second))
	longer := hash()
	write("project/new", "cd", at.Add(time.Second))
	must(t, os.Rename(m.path("project/new"), m.path("project/server")))
	if replaced := hash(); modified == first || longer == modified || replaced == longer {
		t.Errorf("modified %s, longer %s, replaced %s", modified, longer, replaced)
	}
	must(t, os.Remove(m.path("project/server")))
	srv := config.Server{Transport: config.TransportStdio, Program: config.Program{Command: "./server", Dir: m.path("project")}}
	if l, problems := launch.Of(t.Context(), srv, machine); l.File != nil || len(problems) != 1 {
		t.Errorf("%+v, %q", l, problems)
	}
	var both sync.WaitGroup
	write("project/server", "a", at)
	for range 20 {
		both.Go(func() {
			if got, _ := launch.Of(t.Context(), srv, machine); got.File == nil || got.File.SHA256 != hashOfA {
				t.Errorf("%+v", got)
			}
		})
	}
	both.Wait()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
