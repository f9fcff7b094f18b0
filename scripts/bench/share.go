//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	shareSessions = 8
	shareCalls    = 10_000
	attachStarts  = 50
	attachCalls   = 3000

	shareScenario  = "share 8 x 10"
	attachScenario = "attach call"

	// settled is how long processes are left alone before their memory is read.
	settled = time.Second
)

// A published server is a program of scripts/bench/servers or scripts/bench/drift. All of them start
// without a network and, unless env names variables, without credentials.
type published struct {
	name, program string
	args          []string
	env           []string // variables that must be set
}

func publishedServers(folder string) []published {
	return []published{
		{name: "commands", program: "mcp-server-commands"},
		{name: "context7", program: "context7-mcp"},
		{name: "eslint", program: "mcp"},
		{name: "everything", program: "mcp-server-everything"},
		{name: "fetch", program: "mcp-fetch-server"},
		{name: "filesystem", program: "mcp-server-filesystem", args: []string{folder}},
		{name: "git", program: "git-mcp-server"},
		{name: "memory", program: "mcp-server-memory"},
		{name: "playwright", program: "playwright-mcp", args: []string{"--headless"}},
		{name: "thinking", program: "mcp-server-sequential-thinking"},
	}
}

// prepareShare installs the published servers.
func (b *bench) prepareShare(ctx context.Context) error { return install(ctx, b.published, b.servers) }

// install installs the packages of a folder by its lockfile into another folder, unless they are installed.
func install(ctx context.Context, from, into string) error {
	lock, err := os.ReadFile(filepath.Join(from, "package-lock.json"))
	if err != nil {
		return err
	}
	stamp := filepath.Join(into, "installed.json")
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, lock) {
		return nil
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	for _, name := range []string{".npmrc", "package.json", "package-lock.json"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(into, name), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--loglevel=error")
	cmd.Dir = into
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci in %s: %w: %s", into, err, bytes.TrimSpace(out))
	}
	return os.WriteFile(stamp, lock, 0o644)
}

// share compares eight sessions of a host, in one folder and with ten published servers each, that
// start the servers themselves, with eight that start mcptrack-attach.
func (b *bench) share(ctx context.Context) error {
	if err := b.readPrograms(ctx); err != nil {
		return err
	}
	for range b.seldom() {
		if err := b.shareDirect(ctx); err != nil {
			return fmt.Errorf("direct: %w", err)
		}
		if err := b.shareAttached(ctx); err != nil {
			return fmt.Errorf("attached: %w", err)
		}
	}
	r := b.report
	r.Notes = append(r.Notes, "not compared: mcp-stdio-mux (it is in none of npm, PyPI and the Go module proxy)")
	r.atMost(10, shareScenario, "server processes") // one for each server and folder
	r.atMost(10, shareScenario, "server processes, 10,000 calls")
	r.ratio(1.0/shareSessions, shareScenario, "server processes", "direct")
	r.ratio(0.2, shareScenario, "PSS", "direct")
	r.ratio(1.5, shareScenario, "first session", "direct") // it starts the daemon, too
	r.atMost(100, shareScenario, "second session")
	r.atMost(100, shareScenario, "eighth session")
	r.atMost(8, shareScenario, "peak RSS of attach")
	r.atMost(50, shareScenario, "list")
	return nil
}

// readPrograms starts each server once, so that its files are in memory when it is measured.
func (b *bench) readPrograms(ctx context.Context) error {
	place, err := b.newPlace("")
	if err != nil {
		return err
	}
	s, _, err := openSession(ctx, place.folder, place.env, b.serverCommands(place))
	return errors.Join(err, s.close(), reapOrphans(time.Now()))
}

// serverCommands returns the commands of the published servers.
func (b *bench) serverCommands(p place) [][]string {
	var argvs [][]string
	for _, s := range publishedServers(p.folder) {
		argvs = append(argvs, append([]string{b.serverProgram(s)}, s.args...))
	}
	return argvs
}

// shareDirect measures sessions that start the servers themselves.
func (b *bench) shareDirect(ctx context.Context) (err error) {
	place, err := b.newPlace("")
	if err != nil {
		return err
	}
	sessions, err := b.openSessions(ctx, place, b.serverCommands(place), "direct")
	defer func() { err = errors.Join(err, closeAll(sessions), reapOrphans(time.Now())) }()
	if err != nil {
		return err
	}
	time.Sleep(settled)
	all, err := descendants(os.Getpid())
	if err != nil {
		return err
	}
	pss, err := proportional(all)
	b.report.add(shareScenario, "processes", "", "direct", float64(len(all)))
	b.report.add(shareScenario, "server processes", "", "direct", float64(len(all)))
	b.report.add(shareScenario, "PSS", "MiB", "direct", pss)
	return err
}

// shareAttached measures sessions that start mcptrack-attach, and with them open the memory of the
// daemon and the command list.
func (b *bench) shareAttached(ctx context.Context) (err error) {
	place, err := b.newPlace("daemon.sock")
	if err != nil {
		return err
	}
	servers := map[string]any{}
	var names []string
	for _, s := range publishedServers(place.folder) {
		servers[s.name] = map[string]any{"command": b.serverProgram(s), "args": s.args}
		names = append(names, s.name)
	}
	file, err := b.writeConfig(servers)
	if err != nil {
		return err
	}
	var argvs [][]string
	for _, name := range names {
		argvs = append(argvs, []string{b.attach, name, "--config", file})
	}
	defer func() { err = errors.Join(err, b.stopDaemon(ctx, place)) }()
	sessions, err := b.openSessions(ctx, place, argvs, "mcptrack")
	defer func() { err = errors.Join(err, closeAll(sessions)) }() // before the daemon stops
	if err != nil {
		return err
	}
	time.Sleep(settled)
	daemon, err := b.daemonPID(ctx, place)
	if err != nil {
		return err
	}
	if err := b.sharedMemory(sessions, daemon); err != nil {
		return err
	}
	if err := b.shareLists(ctx, place, file); err != nil {
		return err
	}
	if err := callEcho(sessions, names); err != nil {
		return err
	}
	running, err1 := descendants(daemon)
	rss, err2 := memory(daemon, "VmRSS")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	b.report.add(shareScenario, "server processes, 10,000 calls", "", "mcptrack", float64(len(running)))
	b.report.add(shareScenario, "RSS of daemon, 10,000 calls", "MiB", "mcptrack", rss)
	peak, err := peakOf(sessions)
	b.report.add(shareScenario, "peak RSS of attach", "MiB", "mcptrack", peak)
	return err
}

// sharedMemory counts the processes and reads their memory.
func (b *bench) sharedMemory(sessions []session, daemon int) error {
	all, err := descendants(os.Getpid())
	if err != nil {
		return err
	}
	var attached []int
	for _, s := range sessions {
		for _, c := range s {
			attached = append(attached, c.cmd.Process.Pid)
		}
	}
	pss, err1 := proportional(all)
	relays, err2 := proportional(attached)
	own, err3 := proportional([]int{daemon})
	rss, err4 := memory(daemon, "VmRSS")
	r := b.report
	r.add(shareScenario, "processes", "", "mcptrack", float64(len(all)))
	r.add(shareScenario, "server processes", "", "mcptrack", float64(len(all)-len(attached)-1))
	r.add(shareScenario, "PSS", "MiB", "mcptrack", pss)
	r.add(shareScenario, "PSS of 80 attach", "MiB", "mcptrack", relays)
	r.add(shareScenario, "PSS of daemon", "MiB", "mcptrack", own)
	r.add(shareScenario, "RSS of daemon, idle", "MiB", "mcptrack", rss)
	return errors.Join(err1, err2, err3, err4)
}

// shareLists measures the command list, which starts the servers unless it uses the daemon.
func (b *bench) shareLists(ctx context.Context, place place, file string) error {
	argv := []string{b.mcptrack, "--config", file, "list", "--json"}
	alone, err := b.newPlace("none.sock")
	if err != nil {
		return err
	}
	alone.folder = place.folder
	took, err := place.run(ctx, alone.env, argv)
	if err != nil {
		return err
	}
	b.report.add(shareScenario, "list", "ms", "no daemon", milliseconds(took))
	for range b.often() {
		took, err := place.run(ctx, place.env, argv)
		if err != nil {
			return err
		}
		b.report.add(shareScenario, "list", "ms", "mcptrack", milliseconds(took))
	}
	return nil
}

// callEcho calls a tool of one server through all sessions at the same time.
func callEcho(sessions []session, names []string) error {
	failed := make([]error, len(sessions))
	var wg sync.WaitGroup
	for i, s := range sessions {
		wg.Go(func() {
			for at, name := range names {
				if name != "everything" {
					continue
				}
				for range shareCalls / shareSessions {
					if _, err := s[at].ask("tools/call", map[string]any{"name": "echo", "arguments": map[string]any{"message": "hello"}}); err != nil {
						failed[i] = err
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// attached measures mcptrack-attach before a daemon and a server that answers immediately: its
// start, its memory, and what both add to a call.
func (b *bench) attached(ctx context.Context) error {
	for range b.runs {
		if err := b.attachedOnce(ctx); err != nil {
			return err
		}
	}
	b.report.atMost(15, attachScenario, "first byte")
	b.report.atMost(8, attachScenario, "peak RSS")
	b.report.atMost(0.3, attachScenario, "added, p99")
	return nil
}

func (b *bench) attachedOnce(ctx context.Context) (err error) {
	place, err := b.newPlace("daemon.sock")
	if err != nil {
		return err
	}
	server := []string{b.self, "many", "10"}
	file, err := b.writeConfig(map[string]any{"many": map[string]any{"command": server[0], "args": server[1:]}})
	if err != nil {
		return err
	}
	through := []string{b.attach, "many", "--config", file}
	defer func() { err = errors.Join(err, b.stopDaemon(ctx, place)) }()
	// The first starts the daemon and the server, and keeps both awake.
	open, _, err := openSession(ctx, place.folder, place.env, [][]string{server, through})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, open.close()) }()
	for range attachStarts {
		for client, argv := range map[string][]string{"direct": server, "mcptrack": through} {
			c, err := startStdio(ctx, place.folder, place.env, argv)
			if err != nil {
				return err
			}
			err = c.initialized()
			if err := errors.Join(err, c.close()); err != nil {
				return err
			}
			b.report.add(attachScenario, "first byte", "ms", client, milliseconds(c.first))
		}
	}
	var took [2][]float64
	params := json.RawMessage(`{"name":"t000","arguments":{"text":"hello"}}`)
	for n := range attachCalls + 200 {
		for i, c := range open {
			began := time.Now()
			if _, err := c.ask("tools/call", params); err != nil {
				return err
			}
			if n >= 200 { // caches are warm
				took[i] = append(took[i], milliseconds(time.Since(began)))
			}
		}
	}
	b.report.percentiles(attachScenario, "", "ms", "direct", took[0])
	b.report.percentiles(attachScenario, "", "ms", "mcptrack", took[1])
	p50, p99 := attachCalls/2, attachCalls*99/100 // both are sorted
	b.report.add(attachScenario, "added, p50", "ms", "mcptrack", took[1][p50]-took[0][p50])
	b.report.add(attachScenario, "added, p99", "ms", "mcptrack", took[1][p99]-took[0][p99])
	peak, err := peakOf([]session{open[1:]})
	b.report.add(attachScenario, "peak RSS", "MiB", "mcptrack", peak)
	return err
}

// A place is a user's home with a folder to work in, and the environment of its programs.
type place struct {
	folder string
	env    []string
}

// newPlace makes an empty home. socket is the name of the daemon's socket in it; "" for none.
func (b *bench) newPlace(socket string) (place, error) {
	home, err := os.MkdirTemp(b.tmp, "home")
	if err != nil {
		return place{}, err
	}
	p := place{folder: filepath.Join(home, "project"), env: append(os.Environ(), "HOME="+home, "XDG_RUNTIME_DIR="+home,
		"XDG_CONFIG_HOME=", "XDG_STATE_HOME=", "XDG_DATA_HOME=", "MCPTRACK_CONFIG=")}
	if socket != "" {
		p.env = append(p.env, "MCPTRACK_SOCKET="+filepath.Join(home, socket))
	}
	return p, os.Mkdir(p.folder, 0o755)
}

// run runs a command to its end, and returns how long it took.
func (p *place) run(ctx context.Context, env, argv []string) (time.Duration, error) {
	cmd := p.command(ctx, argv)
	cmd.Env, cmd.Stdout = env, io.Discard
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return time.Since(began), nil
}

func (p *place) command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = p.folder, p.env
	return cmd
}

func (b *bench) serverProgram(s published) string { return programOf(b.servers, s) }

// programOf returns the path of a program that is installed in a folder.
func programOf(folder string, s published) string {
	return filepath.Join(folder, "node_modules", ".bin", s.program)
}

// openSessions opens sessions one after another, and adds how long the first, the second and the last
// took. After an error it returns those that are open.
func (b *bench) openSessions(ctx context.Context, p place, argvs [][]string, client string) ([]session, error) {
	var sessions []session
	metrics := map[int]string{0: "first session", 1: "second session", shareSessions - 1: "eighth session"}
	for i := range shareSessions {
		s, took, err := openSession(ctx, p.folder, p.env, argvs)
		if err != nil {
			return sessions, err
		}
		sessions = append(sessions, s)
		if metrics[i] != "" {
			b.report.add(shareScenario, metrics[i], "ms", client, milliseconds(took))
		}
	}
	return sessions, nil
}

func closeAll(sessions []session) error {
	var failed []error
	for _, s := range sessions {
		failed = append(failed, s.close())
	}
	return errors.Join(failed...)
}

// daemonPID asks the daemon for its process.
func (b *bench) daemonPID(ctx context.Context, p place) (int, error) {
	out, err := p.command(ctx, []string{b.mcptrack, "daemon", "status", "--json"}).Output()
	if err != nil {
		return 0, fmt.Errorf("daemon status: %w", err)
	}
	var status struct{ PID int }
	if err := json.Unmarshal(out, &status); err != nil || status.PID <= 0 {
		return 0, fmt.Errorf("daemon status says %.200s: %w", out, err)
	}
	return status.PID, nil
}

// stopDaemon stops the daemon and waits until it and its servers are gone.
func (b *bench) stopDaemon(ctx context.Context, p place) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneLimit) // also if the bench is interrupted
	defer cancel()
	_, err := p.run(ctx, p.env, []string{b.mcptrack, "daemon", "stop"})
	return errors.Join(err, reapOrphans(time.Now()))
}

// descendants returns the processes that a process has started, and those that these have started.
func descendants(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, file := range stats {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		child, parent, err := parentOf(string(data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if parent > 0 {
			children[parent] = append(children[parent], child)
		}
	}
	found := children[pid]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found, nil
}

// parentOf reads a process and its parent from /proc/PID/stat. The parent is 0 if the process has
// ended and only waits for its parent.
func parentOf(stat string) (pid, parent int, err error) {
	before, _, found1 := strings.Cut(stat, " (")
	_, after, found2 := cutLast(stat, ") ") // the name may hold blanks and parentheses
	fields := strings.Fields(after)
	if !found1 || !found2 || len(fields) < 2 {
		return 0, 0, fmt.Errorf("%.100q is not the state of a process", stat)
	}
	pid, err1 := strconv.Atoi(before)
	parent, err2 := strconv.Atoi(fields[1])
	if fields[0] == "Z" {
		parent = 0
	}
	return pid, parent, errors.Join(err1, err2)
}

func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

// proportional returns the memory of processes in MiB. What several processes share is divided among
// them, so that it is counted once.
func proportional(pids []int) (mib float64, err error) {
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, err
		}
		one, err := kilobytes(string(data), "\nPss")
		if err != nil {
			return 0, fmt.Errorf("process %d: %w", pid, err)
		}
		mib += one
	}
	return mib, nil
}

// peakOf returns the most memory that any process of the sessions has had resident, in MiB.
func peakOf(sessions []session) (mib float64, err error) {
	for _, s := range sessions {
		for _, c := range s {
			one, err := memory(c.cmd.Process.Pid, "VmHWM")
			if err != nil {
				return 0, err
			}
			mib = max(mib, one)
		}
	}
	return mib, nil
}
