// Package machine finds the MCP servers that run on this machine: how many copies of each, how much
// memory they use, who started them, and which of them lost the program that started them.
//
// A server is recognised by its command line. It counts as one if a config runs that command, or if
// the name of its program, script, package, module or image contains "mcp". A server that is
// started through a wrapper (npx, uvx, sh -c, docker) is one server: the wrapper with all its
// descendants. Only processes of the calling user are reported; root sees those of all users.
//
// The package reads the process table once and keeps nothing. It never reads the environment of a
// process, and masks credentials in command lines. Command lines are untrusted: every process can
// choose its own.
//
// Library: shirou/gopsutil for the process table of macOS and Windows (maintained, BSD).
package machine

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/launcher"
	"github.com/mcptrack/mcptrack/core/printable"
)

// A Group holds the running copies of one command.
type Group struct {
	Command    string // one printable line, with credentials masked
	Configured bool   // a config runs the command
	Relay      bool   // it is mcptrack attach, which passes the messages of one session to the daemon
	Servers    []Server
}

// Memory returns the memory of all servers in bytes.
func (g *Group) Memory() (sum int64) {
	for i := range g.Servers {
		sum += g.Servers[i].Memory
	}
	return sum
}

// Orphans returns the number of orphans.
func (g *Group) Orphans() (n int) {
	for i := range g.Servers {
		if g.Servers[i].Orphan {
			n++
		}
	}
	return n
}

// Shareable returns what one shared copy would save: the number of servers that would not be needed
// and their memory in bytes. The largest copy stays. Servers that do not use stdio are already
// shared by their clients and do not count, and each session needs a relay of its own.
func (g *Group) Shareable() (servers int, memory int64) {
	if g.Relay {
		return 0, 0
	}
	var largest int64
	for i := range g.Servers {
		if s := &g.Servers[i]; s.stdio {
			servers++
			memory += s.Memory
			largest = max(largest, s.Memory)
		}
	}
	return max(servers-1, 0), memory - largest
}

// A Server is one running server: a process together with its descendants.
type Server struct {
	PID int
	// StartedBy is a printable name of the program that started the server, such as "Claude Code",
	// and its process id; empty and 0 if that program has ended.
	StartedBy string
	Starter   int
	Since     time.Time
	// Memory is the memory of the whole tree in bytes. Where the system reports it (Linux), memory
	// that several processes share is divided among them; elsewhere each process counts it in full.
	Memory int64
	// Orphan is true if the program that started the server has ended. The server cannot receive
	// requests any more.
	Orphan bool

	stdio bool
	tree  []process // root first
}

// Servers reads the process table and returns the running servers, grouped by command. The group
// that uses most memory comes first, and within a group the oldest server. commands are the
// commands that configs run as servers: the program followed by its arguments.
func Servers(ctx context.Context, commands [][]string) ([]Group, error) {
	all, err := processes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	return find(all, commands), nil
}

// find groups the servers in a process table.
func find(all []process, commands [][]string) []Group {
	s := survey{byPID: make(map[int]*process, len(all)), children: map[int][]*process{}, known: map[string]bool{}, roots: map[int]bool{}}
	for _, args := range commands {
		if l := launchOf(args); l.program != "" && l.program != l.by {
			s.known[l.key()] = true
		}
	}
	for i := range all {
		p := &all[i]
		p.launch = launchOf(p.args)
		p.host = hostOf(p.args, p.launch)
		s.byPID[p.pid] = p
		s.children[p.parent] = append(s.children[p.parent], p)
	}
	for i := range all {
		if s.isServer(&all[i]) {
			s.roots[s.root(&all[i]).pid] = true
		}
	}
	groups := map[string]*Group{}
	for i := range all {
		p := &all[i]
		if !s.roots[p.pid] {
			continue
		}
		key := p.launch.key()
		if groups[key] == nil {
			groups[key] = &Group{Command: p.launch.line(), Configured: s.known[key], Relay: p.launch.isRelay()}
		}
		groups[key].Servers = append(groups[key].Servers, s.server(p))
	}
	out := make([]Group, 0, len(groups))
	for _, g := range groups {
		sort.Slice(g.Servers, func(i, j int) bool {
			a, b := &g.Servers[i], &g.Servers[j]
			return cmp.Or(a.Since.Compare(b.Since), a.PID-b.PID) < 0
		})
		out = append(out, *g)
	}
	sort.Slice(out, func(i, j int) bool {
		return cmp.Or(cmp.Compare(out[j].Memory(), out[i].Memory()), strings.Compare(out[i].Command, out[j].Command)) < 0
	})
	return out
}

// A process is one entry of the process table.
type process struct {
	pid, parent int
	args        []string
	started     time.Time
	identity    string // on Linux, tells the process from another one that inherits its pid
	memory      int64
	stdio       bool // stdin is a pipe or socket, or unknown

	launch launch
	host   string // name of the program if it starts MCP servers; empty otherwise
}

// survey finds servers in one process table.
type survey struct {
	byPID    map[int]*process
	children map[int][]*process
	known    map[string]bool // keys of configured launches
	roots    map[int]bool    // processes that represent one server each
}

func (s *survey) isServer(p *process) bool {
	return s.known[p.launch.key()] || p.launch.isNamedServer()
}

// root returns the outermost wrapper of a server.
func (s *survey) root(p *process) *process {
	for range len(s.byPID) { // a table that changes while it is read may contain a cycle
		parent := s.byPID[p.parent]
		if parent == nil || parent.host != "" || !s.isServer(parent) {
			break
		}
		p = parent
	}
	return p
}

// server describes the server whose root is p.
func (s *survey) server(p *process) Server {
	out := Server{PID: p.pid, Since: p.started, stdio: p.stdio}
	waiting, seen := []*process{p}, map[int]bool{p.pid: true}
	for len(waiting) > 0 {
		next := waiting[0]
		waiting = waiting[1:]
		out.tree = append(out.tree, *next)
		out.Memory += next.memory
		for _, child := range s.children[next.pid] {
			if !seen[child.pid] && !s.roots[child.pid] {
				seen[child.pid] = true
				waiting = append(waiting, child)
			}
		}
	}
	starter := s.byPID[p.parent]
	if starter == nil || reaps(starter) {
		// A service that its user started in the background also belongs to init, but no program
		// is connected to its stdin.
		out.Orphan = p.stdio
		return out
	}
	for range len(s.byPID) {
		parent := s.byPID[starter.parent]
		if starter.host != "" || parent == nil || reaps(parent) {
			break
		}
		if parent.host != "" || starter.launch.wraps {
			starter = parent
			continue
		}
		break
	}
	out.Starter = starter.pid
	out.StartedBy = cmp.Or(starter.host, printable.Line(starter.launch.program, 60), "unknown")
	return out
}

// reaps reports whether a process adopts orphans: init, or the user's service manager. Init may
// also be a host, in a container.
func reaps(p *process) bool {
	return p.host == "" && (p.pid == 1 || p.launch.program == "systemd")
}

// A launch is a command line without the parts in which equal servers differ.
type launch struct {
	by      string // npx, uvx, docker, node, python; empty for a program of its own
	program string // package, script, module, image or program
	args    []string
	wraps   bool // a shell or package runner
}

// key identifies equal launches. It does not depend on the wrapper, because a config may say npx
// where the process table says "npm exec".
func (l launch) key() string {
	name := l.program
	if i := strings.LastIndexByte(name, '@'); i > 0 && l.by != "docker" { // a version
		name = name[:i]
	}
	return name + "\x00" + strings.Join(l.args, "\x00")
}

// line returns the command as one printable line.
func (l launch) line() string {
	args := slices.Concat([]string{l.program}, l.args)
	if l.by != "" {
		args = slices.Insert(args, 0, l.by)
	}
	return printable.Line(strings.Join(credential.MaskArgs(args), " "), 300)
}

// isNamedServer reports whether the name of the program says that it is an MCP server. Of the path
// of a script, only the file and its folder count.
func (l launch) isNamedServer() bool {
	name := strings.ToLower(l.program)
	if path.IsAbs(name) || strings.Count(name, "/") > 1 {
		name = path.Join(path.Base(path.Dir(name)), path.Base(name))
	}
	switch base := path.Base(name); {
	case l.isRelay():
		return true
	case base == "mcptrack":
		return slices.ContainsFunc(l.args, func(a string) bool { return a == "--stdio" || a == "demo-server" })
	case base == "mcp", strings.Contains(name, "inspector"): // clients
		return false
	}
	name = strings.ReplaceAll(name, "mcptrack", "")
	return strings.Contains(name, "mcp") || strings.Contains(name, "modelcontextprotocol")
}

// isRelay reports whether the program passes the messages of one session to the daemon.
func (l launch) isRelay() bool {
	base := path.Base(l.program)
	return base == "mcptrack-attach" || base == "mcptrack" && slices.Contains(l.args, "attach")
}

// launchOf parses a command line.
func launchOf(args []string) launch {
	if len(args) == 1 { // npm replaces its command line by a title
		args = strings.Fields(args[0])
	}
	c := launcher.Parse(args)
	l := launch{by: c.Tool, program: c.Name, args: c.Args, wraps: c.Wraps}
	switch {
	case c.Kind == launcher.NPM && c.Tool != "deno":
		l.by = "npx"
	case c.Tool == "uv" || c.Tool == "pipx":
		l.by = "uvx"
	case c.Tool == "podman":
		l.by = "docker"
	case c.Tool != "" && c.Tool != "docker" && c.Tool != "python":
		l.by = "node"
	}
	switch c.Kind {
	case launcher.Program:
		l.program = launcher.Base(c.Name)
	case launcher.File:
		l.program = scriptName(c.Name)
	}
	l.program = cmp.Or(l.program, l.by)
	return l
}

// scriptName returns the package of a script, or the path of a script that belongs to none.
func scriptName(file string) string {
	file = strings.ReplaceAll(file, `\`, "/")
	if i := strings.LastIndex(file, "node_modules/"); i >= 0 {
		parts := strings.Split(file[i+len("node_modules/"):], "/")
		switch {
		case parts[0] == ".bin" && len(parts) > 1:
			return parts[1]
		case strings.HasPrefix(parts[0], "@") && len(parts) > 1:
			return parts[0] + "/" + parts[1]
		}
		return parts[0]
	}
	if dir, name := path.Split(file); strings.HasSuffix(dir, "/bin/") || strings.HasSuffix(dir, "/Scripts/") {
		return name
	}
	return file
}

// Memory returns the memory of processes, each with its descendants, in bytes; see [Server]. A
// process that does not run is omitted.
func Memory(ctx context.Context, pids []int) (map[int]int64, error) {
	all, err := processes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var sum func(p process, depth int) int64
	sum = func(p process, depth int) int64 {
		total := p.memory
		if depth == 0 {
			return total // a process table that was read while it changed may contain a cycle
		}
		for _, child := range children[p.pid] {
			total += sum(child, depth-1)
		}
		return total
	}
	out := map[int]int64{}
	for _, p := range all {
		for _, pid := range pids {
			if p.pid == pid {
				out[pid] = sum(p, 64)
			}
		}
	}
	return out, nil
}
