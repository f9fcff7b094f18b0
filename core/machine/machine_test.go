package machine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// table builds a process table. Each line has a pid, the parent's pid, whether stdin is a pipe (|)
// or not (-), the memory in bytes, and the command line with its arguments separated by blanks; a
// tab separates arguments that contain blanks.
func table(t *testing.T, text string) []process {
	t.Helper()
	var out []process
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		var p process
		var stdin string
		if _, err := fmt.Sscanf(line, "%d %d %s %d", &p.pid, &p.parent, &stdin, &p.memory); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		_, command, _ := strings.Cut(line, ": ")
		command = strings.TrimSuffix(command, "\n")
		if p.args = strings.Split(command, "\t"); len(p.args) == 1 {
			p.args = strings.Split(command, " ")
		}
		p.stdio, p.started = stdin == "|", time.Unix(int64(p.pid), 0)
		out = append(out, p)
	}
	return out
}

// shown returns the groups as lines: command, and for each server its pid, starter and memory.
func shown(groups []Group) []string {
	out := []string{}
	for _, g := range groups {
		var line strings.Builder
		line.WriteString(g.Command)
		for _, s := range g.Servers {
			by := fmt.Sprintf("%s %d", s.StartedBy, s.Starter)
			if s.Orphan {
				by = "orphan"
			}
			line.WriteString(fmt.Sprintf(" | %d %s %d", s.PID, by, s.Memory))
		}
		out = append(out, line.String())
	}
	return out
}

func TestServersAreFoundInAProcessTable(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		table    string
		commands [][]string
		want     []string
	}{
		"two sessions, each with a package in wrappers": {`
			1 0 - 1 : /sbin/init
			10 1 - 5 : claude
			11 10 | 100 : npm exec @modelcontextprotocol/server-everything@1.2.3 stdio
			12 11 | 1 : sh	-c	mcp-server-everything stdio
			13 12 | 50 : node /home/u/.npm/_npx/0a/node_modules/.bin/mcp-server-everything stdio
			20 1 - 5 : node /usr/lib/node_modules/@openai/codex/bin/codex.js
			21 20 | 100 : npm exec @modelcontextprotocol/server-everything stdio
			22 21 | 60 : node /home/u/.npm/_npx/0a/node_modules/.bin/mcp-server-everything stdio`, nil,
			[]string{"npx @modelcontextprotocol/server-everything@1.2.3 stdio | 11 Claude Code 10 151 | 21 Codex 20 160"}},
		"a configured command without mcp in its name": {`
			5 1 - 1 : zed-editor
			6 5 | 7 : /opt/weather/serve --port 3
			7 5 | 7 : /opt/weather/serve --port 4
			8 5 | 7 : typescript-language-server --stdio`, [][]string{{"/opt/weather/serve", "--port", "3"}},
			[]string{"serve --port 3 | 6 Zed 5 7"}},
		"a configured npx command": {`
			5 1 - 1 : opencode
			6 5 | 7 : npm exec weather
			7 6 | 3 : node /x/_npx/1/node_modules/.bin/weather`, [][]string{{"npx", "-y", "weather"}}, []string{"npx weather | 6 opencode 5 10"}},
		"other runners": {`
			1 0 - 1 : /sbin/init
			10 1 - 5 : claude
			11 10 | 1 : pnpm --silent dlx --package=@s/mcp-a mcp-a x
			12 10 | 1 : npx --loglevel error -p @s/mcp-b mcp-b
			13 10 | 1 : docker run -itp 80:80 --cap-add X mcp/c
			14 10 | 1 : uv --directory /d run mcp-d.py
			15 10 | 1 : env A=b npx mcp-e`, nil,
			[]string{"docker mcp/c | 13 Claude Code 10 1", "npx mcp-a x | 11 Claude Code 10 1", "npx mcp-b | 12 Claude Code 10 1", "npx mcp-e | 15 Claude Code 10 1", "uvx mcp-d.py | 14 Claude Code 10 1"}},
		"an orphan, a service, and a server in a shell": {`
			1 0 - 1 : /sbin/init
			2 1 - 1 : /usr/lib/systemd/systemd --user
			30 1 | 4 : /home/u/.venv/bin/python -m mcp_server_time
			31 2 | 4 : uv tool uvx mcp-server-git --repository /r
			32 2 - 4 : node /srv/mcp-notes/server.js --http
			40 1 - 1 : -zsh
			41 40 - 4 : ./github-mcp-server http`, nil,
			[]string{"github-mcp-server http | 41 zsh 40 4", "node /srv/mcp-notes/server.js --http | 32  0 4",
				"python mcp_server_time | 30 orphan 4", "uvx mcp-server-git --repository /r | 31 orphan 4"}},
		"a host that is process 1 of a container": {`
			1 0 - 1 : claude
			2 1 | 4 : docker run -i --rm -e TOKEN --name x mcp/fetch:latest`, nil, []string{"docker mcp/fetch:latest | 2 Claude Code 1 4"}},
		"mcptrack is a server and starts servers": {`
			1 0 - 1 : init
			2 1 - 1 : claude
			3 2 | 10 : mcptrack gateway --stdio
			4 3 | 4 : node node_modules/.bin/mcp-server-memory
			5 1 - 1 : mcptrack watch --demo
			6 5 | 2 : mcptrack demo-server`, nil,
			[]string{"mcptrack gateway --stdio | 3 Claude Code 2 10", "node mcp-server-memory | 4 mcptrack 3 4", "mcptrack demo-server | 6 mcptrack 5 2"}},
		"programs that are no servers": {`
			1 0 - 1 : init
			2 1 - 1 : bash
			3 2 - 1 : vim mcp.json
			4 2 - 1 : grep -r mcp-server .
			5 2 - 1 : npx @modelcontextprotocol/inspector
			6 2 - 1 : python /home/u/mcp-site/app/manage.py
			7 2 - 1 : node /home/u/mcptrack/tool.js
			8 2 - 1 : sh	-c	
			9 2 - 1 : npx`, [][]string{{"npx"}, {}}, []string{}},
		"secrets": {`
			2 1 - 1 : claude
			3 2 | 1 : mcp-server-x --api-key 0123456789abcdef0123456789abcdef`, nil, []string{"mcp-server-x --api-key [secret] | 3 Claude Code 2 1"}},
		"a cycle": {`
			2 3 | 1 : mcp-server-a
			3 2 | 1 : mcp-server-b`, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := shown(find(table(t, test.table), test.commands))
			if test.want == nil {
				return // it must only end
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestShareableKeepsTheLargestCopy(t *testing.T) {
	t.Parallel()
	g := Group{Servers: []Server{{Memory: 10, stdio: true}, {Memory: 30, stdio: true}, {Memory: 20, stdio: true}, {Memory: 100}}}
	if n, memory := g.Shareable(); n != 2 || memory != 30 {
		t.Errorf("%d servers, %d bytes", n, memory)
	}
	g = Group{Servers: []Server{{Memory: 100}}}
	if n, memory := g.Shareable(); n != 0 || memory != 0 {
		t.Errorf("a single server: %d servers, %d bytes", n, memory)
	}
}

// Each session needs its own relay to the daemon, so relays are not copies; and a group tells whether a
// config runs its command.
func TestRelaysAreNoCopies(t *testing.T) {
	t.Parallel()
	groups := find(table(t, `
		1 0 - 1 : init
		2 1 - 1 : claude
		3 2 | 10 : mcptrack-attach --config /c memory
		4 2 | 10 : mcptrack-attach --config /c memory
		5 2 | 10 : mcptrack attach memory
		6 2 | 10 : mcptrack attach memory
		7 2 | 4 : npx mcp-a
		8 2 | 3 : npx mcp-b
		9 2 | 3 : npx mcp-b`), [][]string{{"npx", "mcp-a"}})
	servers := 0
	for _, g := range groups {
		n, _ := g.Shareable()
		servers += n
		if g.Relay != strings.Contains(g.Command, "attach") || g.Configured != (g.Command == "npx mcp-a") {
			t.Errorf("%+v", g)
		}
	}
	if len(groups) != 4 || servers != 1 {
		t.Errorf("%d groups, %d servers to share", len(groups), servers)
	}
}
