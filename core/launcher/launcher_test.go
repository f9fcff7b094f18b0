package launcher_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/launcher"
)

func kinds() []string { return []string{"program", "npm", "pypi", "image", "file", "module", "remote"} }

// shown returns a command as "kind tool name [packages] args".
func shown(c launcher.Command) string {
	return fmt.Sprintf("%s %s %s %v %v", kinds()[c.Kind], c.Tool, c.Name, c.Packages, c.Args)
}

// In the table, blanks separate arguments, and "_" stands for a blank within one.
func TestParse(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		// npm
		"npx -y @scope/server@1.2.3 /data":                             "npm npm @scope/server@1.2.3 [@scope/server@1.2.3] [/data]",
		"npx server":                                                   "npm npm server [server] []",
		"npx --yes server@latest --port 3":                             "npm npm server@latest [server@latest] [--port 3]",
		"npx -y -- server -y":                                          "npm npm server [server] [-y]",
		"npx -p @scope/server -p zod server --stdio":                   "npm npm server [@scope/server zod] [--stdio]",
		"npx -y --package=@scope/server@^1 -- run-server --package=x":  "npm npm run-server [@scope/server@^1] [--package=x]",
		"npx --package @scope/server server":                           "npm npm server [@scope/server] []",
		"npx --registry https://r.example -q server":                   "npm npm server [server] []",
		"npx --registry=https://r.example --no-audit server":           "npm npm server [server] []",
		"npx --prefer-offline --cache /c server a":                     "npm npm server [server] [a]",
		"npx --loglevel --yes server":                                  "npm npm server [server] []",
		"npx -p @scope/server -c run-server_--stdio":                   "npm npm run-server [@scope/server] [--stdio]",
		"npx -y github:owner/repo#main":                                "npm npm github:owner/repo#main [github:owner/repo#main] []",
		"npx -y tsx server.ts --a":                                     "file tsx server.ts [tsx] [--a]",
		"npx":                                                          "npm npm  [] []",
		"npx -p":                                                       "npm npm  [] []",
		`C:\Program_Files\nodejs\NPX.CMD -y server`:                    "npm npm server [server] []",
		"npm exec -y @scope/server -- --stdio":                         "npm npm @scope/server [@scope/server] [--stdio]",
		"npm exec server --package=@scope/server":                      "npm npm server [@scope/server] []",
		"npm exec server --package @scope/server -- --package x":       "npm npm server [@scope/server] [--package x]",
		"npm --silent x -p server":                                     "npm npm server [server] []",
		"npm --prefix /p exec -- server":                               "npm npm server [server] []",
		"npm start":                                                    "program  npm [] [start]",
		"npm":                                                          "program  npm [] []",
		"pnpm dlx @scope/server@2 a":                                   "npm pnpm @scope/server@2 [@scope/server@2] [a]",
		"pnpm --silent -C /p dlx --package=@scope/server --silent run": "npm pnpm run [@scope/server] []",
		"pnpm --package @scope/server dlx run":                         "npm pnpm run [@scope/server] []",
		"pnpx server":                                                  "npm pnpm server [server] []",
		"pnpm run start":                                               "program  pnpm [] [run start]",
		"yarn dlx -q -p @scope/server run a":                           "npm yarn run [@scope/server] [a]",
		"bunx --bun -p @scope/server run":                              "npm bun run [@scope/server] []",
		"bun x server@1 a":                                             "npm bun server@1 [server@1] [a]",
		"deno run -A npm:@scope/server@1.2.3/bin /data":                "npm deno npm:@scope/server@1.2.3/bin [@scope/server@1.2.3] [/data]",
		"deno run --allow-net --config deno.json npm:/server@1":        "npm deno npm:/server@1 [server@1] []",
		"deno -A jsr:@scope/server":                                    "remote deno jsr:@scope/server [] []",
		"deno run --allow-read=/x https://x.example/s.ts":              "remote deno https://x.example/s.ts [] []",
		"deno task start":                                              "program  deno [] [task start]",
		// Python
		"uvx mcp-server-git --repository /r":                             "pypi uv mcp-server-git [mcp-server-git] [--repository /r]",
		"uvx mcp-server-git@2025.1":                                      "pypi uv mcp-server-git@2025.1 [mcp-server-git@2025.1] []",
		"uvx --from git+https://h.example/r@v1 --with x --python 3.12 s": "pypi uv s [git+https://h.example/r@v1] []",
		"uvx --from=pkg[all]==1.0 s -p 1":                                "pypi uv s [pkg[all]==1.0] [-p 1]",
		"uvx -qp 3.12 s":                                                 "pypi uv s [s] []",
		"uvx -p3.12 s":                                                   "pypi uv s [s] []",
		"uvx --with mcp python -m server":                                "module python server [] []",
		"uvx --from pkg python3.12 -m server":                            "module python server [pkg] []",
		"uv tool run --isolated s a":                                     "pypi uv s [s] [a]",
		"uv --directory /d --quiet tool run s":                           "pypi uv s [s] []",
		"uv --directory /d run server.py --x":                            "file uv server.py [] [--x]",
		"uv run --with mcp[cli] mcp run server.py":                       "program uv mcp [] [run server.py]",
		"uv run --extra a -m server x":                                   "module uv server [] [x]",
		"uv run python server.py":                                        "file python server.py [] []",
		"uv sync":                                                        "program  uv [] [sync]",
		"pipx run --spec pkg==1 s a":                                     "pypi pipx s [pkg==1] [a]",
		"pipx run s==2":                                                  "pypi pipx s==2 [s==2] []",
		"pipx list":                                                      "program  pipx [] [list]",
		"python3 -u -W ignore server.py -m":                              "file python server.py [] [-m]",
		"/v/bin/python -um server.main a":                                "module python server.main [] [a]",
		"python3.12 -Xdev -mserver":                                      "module python server [] []",
		"python -c print(1) x":                                           "program  python [] [-c print(1) x]",
		"python -m uv tool run s":                                        "pypi uv s [s] []",
		"python":                                                         "program  python [] []",
		"python-server a":                                                "program  python-server [] [a]",
		// containers
		"docker run -i --rm mcp/fetch":                                           "image docker mcp/fetch [] []",
		"docker run -ieTOKEN --rm -v /a:/b r.example:5000/a/b:1 --x":             "image docker r.example:5000/a/b:1 [] [--x]",
		"docker run -it -e A=b --env=C --mount type=bind,src=/a img@sha256:00 s": "image docker img@sha256:00 [] [s]",
		"docker --context x -D container run --network host --pull=always img":   "image docker img [] []",
		"docker run -itp 80:80 img":                                              "image docker img [] []",
		"docker run --new-flag value img":                                        "image docker img [] []",
		"podman --log-level debug run --replace --name n img":                    "image podman img [] []",
		"docker compose run server":                                              "program  docker [] [compose run server]",
		"docker mcp gateway run":                                                 "program  docker [] [mcp gateway run]",
		"docker run --rm":                                                        "image docker  [] []",
		// scripts
		"node --import tsx --enable-source-maps ./dist/index.js --a": "file node ./dist/index.js [] [--a]",
		"node --env-file=.env -r dotenv/config s.js":                 "file node s.js [] []",
		"node -- s.js -- a":               "file node s.js [] [-- a]",
		"node -e code s.js":               "program  node [] [-e code s.js]",
		"bun run --cwd /d server.ts a":    "file bun server.ts [] [a]",
		"bun server.ts":                   "file bun server.ts [] []",
		"deno run -A server.ts":           "file deno server.ts [] []",
		"tsx --tsconfig t.json server.ts": "file tsx server.ts [] []",
		// shells
		"sh -c npx_-y_server_a":          "npm npm server [server] [a]",
		"bash -lc exec_server":           "program  exec [] [server]",
		"cmd /c npx -y server a":         "npm npm server [server] [a]",
		"cmd.exe /d /s /c npx_-y_server": "npm npm server [server] []",
		"env -u X A=b C=d npx server":    "npm npm server [server] []",
		"sh script.sh":                   "program  sh [] [script.sh]",
		"sh -c":                          "program  sh [] [-c]",
		"./server --x":                   "program  ./server [] [--x]",
		"":                               "program   [] []",
	} {
		args := strings.Fields(line)
		for i, a := range args {
			args[i] = strings.ReplaceAll(a, "_", " ")
		}
		if got := shown(launcher.Parse(args)); got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	c := launcher.Parse([]string{"uv", "--directory", "/a", "run", "--directory=/b", "-q", "s.py"})
	if c.Value("--directory") != "/b" || !c.Has("-q") || c.Has("-v") || c.Value("-v") != "" {
		t.Errorf("%v", c.Flags)
	}
	if c := launcher.Parse([]string{"sh", "-c", "cd /x && npx s"}); c.Script != "cd /x && npx s" || !c.Wraps {
		t.Errorf("%+v", c)
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"npx -y s", "sh\x00-c\x00env A=b uvx --from x python -m y", "docker run -ité=x - -- i", "python -\xff", "npm exec --package"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c := launcher.Parse(strings.FieldsFunc(line, func(r rune) bool { return r == 0 || r == ' ' }))
		if c.Kind != launcher.Program && c.Tool == "" {
			t.Errorf("%q: %+v", line, c)
		}
	})
}
