//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// newGateway starts a gateway of these servers, and of those with these entries of a config.
func newGateway(o options, fixtures []*fixture, entries []string, args ...string) (*tracker, error) {
	dir, err := os.MkdirTemp(o.dir, "gateway-")
	if err != nil {
		return nil, err
	}
	g := &tracker{bin: o.bin, dir: dir, addr: freeAddr(), command: "gateway", args: args, env: []string{"XDG_STATE_HOME=" + dir}, fixtures: fixtures, entries: entries}
	return g, errors.Join(g.configure(), g.start())
}

// gatewayRestarts: calls through a gateway while the HTTP server behind it is away for
// 0.3 s, once and three times in a row. Every call that fails is lost, unless the server
// may have processed it: such calls must not be repeated.
func gatewayRestarts(o options, report *report, name string) error {
	for _, w := range []way{{"http", "legacy"}, {"http", "modern"}} {
		st, err := newFixture(w, "docs", "", newOracle())
		if err != nil {
			return err
		}
		g, err := newGateway(o, []*fixture{st}, nil)
		if err != nil {
			return err
		}
		c := newClient("calls", g.addr, false)
		if err := c.connect(context.Background()); err != nil {
			return err
		}
		if err := c.call(context.Background(), "echo", "first"); err != nil {
			return fmt.Errorf("the gateway does not work: %w", err)
		}
		for _, times := range []int{1, 3} {
			r := result{rounds: 1}
			var calling sync.WaitGroup
			var mu sync.Mutex
			began := time.Now()
			calling.Go(func() {
				for range times {
					st.die()
					time.Sleep(300 * time.Millisecond)
					if err := st.live(); err != nil {
						report.note("%v", err)
					}
					time.Sleep(200 * time.Millisecond)
				}
			})
			for i := range 20 {
				time.Sleep(50 * time.Millisecond)
				calling.Go(func() {
					sent := time.Now()
					err := c.call(context.Background(), "echo", fmt.Sprint(i))
					mu.Lock()
					defer mu.Unlock()
					r.slowest = max(r.slowest, time.Since(sent))
					if err != nil && !strings.Contains(err.Error(), "may have been processed") {
						r.lost++
						report.note("gateway, %s, %d restarts, call %d after %v, at %v: %v", w, times, i, time.Since(sent).Round(time.Millisecond), sent.Sub(began).Round(time.Millisecond), err)
					}
				})
			}
			calling.Wait()
			report.row(fmt.Sprintf("%s, %d times", name, times), w.String(), r)
			time.Sleep(3 * time.Second)
		}
		g.end(syscall.SIGTERM)
		st.close()
	}
	return nil
}

// audience is a gateway of servers of every way, and clients of both eras, some of which can be
// asked something.
type audience struct {
	*tracker
	name    string
	report  *report
	oracle  *oracle
	clients []*client
	shared  string // a URI that several servers list
}

// gatewayClients: what the clients of a gateway know, who list and read only what is announced,
// while the lists of its servers and their resources change, servers and the gateway fail.
func gatewayClients(o options, report *report, name string) error {
	a := &audience{name: name, report: report, oracle: newOracle()}
	var fixtures []*fixture
	for _, w := range ways() {
		st, err := newOwnFixture(w, w.String(), a.oracle)
		if err != nil {
			return err
		}
		defer st.close()
		fixtures = append(fixtures, st)
	}
	var err error
	if a.tracker, err = newGateway(o, fixtures, nil); err != nil {
		return err
	}
	defer a.end(syscall.SIGKILL)
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	for _, modern := range []bool{false, true} {
		era := map[bool]string{false: "legacy", true: "modern"}[modern]
		a.clients = append(a.clients, a.client(era, modern), a.client(era+", sampling", modern, "sampling"),
			a.client(era+", all", modern, "sampling", "elicitation", "roots"))
	}
	for _, c := range a.clients {
		following.Go(func() { c.follow(ctx) })
	}
	time.Sleep(time.Second)
	a.row("connect", func() error { return nil })
	meanwhile := func(announce bool) { a.each(func(st *fixture) { st.swap(announce); st.set(st.uri(0), announce) }) }
	for range 3 {
		was := a.announcements()
		a.row("lists change", func() error { meanwhile(true); return nil })
		time.Sleep(2500 * time.Millisecond)
		a.once(was)
	}
	a.calls(ctx)
	for _, fault := range []struct {
		name    string
		happens func() error
	}{
		{"servers die", func() error {
			a.each((*fixture).die)
			meanwhile(false)
			time.Sleep(500 * time.Millisecond)
			var failed []error
			for _, st := range fixtures {
				failed = append(failed, st.live())
			}
			return errors.Join(failed...)
		}},
		{"servers stop for 4 s", func() error {
			a.each((*fixture).hang)
			meanwhile(true)
			time.Sleep(4 * time.Second)
			a.each((*fixture).resume)
			return nil
		}},
		{"connections break", func() error { a.each(func(st *fixture) { st.docs.Disconnect() }); meanwhile(false); return nil }},
		{"gateway killed", func() error { a.end(syscall.SIGKILL); meanwhile(false); return a.start() }},
		{"gateway stopped and started", func() error { a.end(syscall.SIGTERM); meanwhile(false); return a.start() }},
		{"gateway stopped for 4 s", func() error {
			a.signal(syscall.SIGSTOP)
			meanwhile(true)
			time.Sleep(4 * time.Second)
			a.signal(syscall.SIGCONT)
			return nil
		}},
		{"clients connect while lists change", func() error {
			for i := range 6 {
				c := a.client("late", i%2 == 1, []string{"sampling", "elicitation", "roots"}[i/2])
				a.clients = append(a.clients, c)
				following.Go(func() { c.follow(ctx) })
				time.Sleep(time.Duration(i*5) * time.Millisecond)
				a.each(func(st *fixture) { st.swap(true) })
			}
			return nil
		}},
	} {
		meanwhile(true)
		a.row("lists change", func() error { return nil })
		a.row(fault.name, fault.happens)
	}
	a.calls(ctx)
	stop()
	following.Wait()
	if !a.end(syscall.SIGTERM) {
		report.row(name+": exit", "all", result{rounds: 1, hung: 1})
	}
	return nil
}

// client makes a client that follows one resource of every server.
func (a *audience) client(name string, modern bool, capabilities ...string) *client {
	c := newClient(name, a.addr, modern, capabilities...)
	for _, st := range a.fixtures {
		c.follows = append(c.follows, st.uri(0))
	}
	return c
}

// row lets something happen and waits until every client knows what is true then. Those that can be
// asked something must know it within a second after the others.
func (a *audience) row(what string, happens func() error) {
	results := map[*client]*result{}
	if err := happens(); err != nil {
		a.report.note("%s: %s: %v", a.name, what, err)
		a.report.row(a.name+": "+what, "all", result{rounds: 1, hung: 1})
	}
	for _, c := range a.clients {
		results[c] = &result{rounds: 1}
	}
	over := time.Now()
	waiting, late := slices.Clone(a.clients), map[*client]string{} // late says what they did not know in time
	plain := time.Duration(0)                                      // the slowest of those that cannot be asked anything
	for ; len(waiting) > 0 && time.Since(over) < time.Minute; time.Sleep(10 * time.Millisecond) {
		waiting = slices.DeleteFunc(waiting, func(c *client) bool {
			differs := c.differs(a.truth(len(c.capabilities) > 0))
			if differs != "" {
				if plain > 0 && time.Since(over) > plain+time.Second && late[c] == "" {
					late[c] = differs
				}
				return false
			}
			results[c].slowest = time.Since(over)
			if len(c.capabilities) == 0 {
				plain = max(plain, results[c].slowest)
			}
			return true
		})
	}
	for _, c := range waiting {
		results[c].lost++
		results[c].slowest = time.Since(over)
		a.report.note("%s: %s: after %v %s does not know: %.600s", a.name, what, time.Minute, c.name, c.differs(a.truth(len(c.capabilities) > 0)))
	}
	for c, r := range results {
		if r.lost == 0 && r.slowest > plain+time.Second {
			r.stale++
			a.report.note("%s: %s: %s knows it after %v, others after %v: %.600s", a.name, what, c.name, r.slowest.Round(time.Millisecond), plain.Round(time.Millisecond), late[c])
		}
		a.report.row(a.name+": "+what, c.name, *r)
	}
}

// truth returns what a client should know, under the names that the gateway gives.
func (a *audience) truth(capable bool) (lists map[string]map[string]string, texts map[string]string) {
	lists = map[string]map[string]string{"tools": {}, "prompts": {}, "resources": {}, "templates": {}}
	texts = map[string]string{}
	all := a.oracle.of("")
	for key, v := range all {
		switch {
		case v <= 0 || key.list == "":
		case key.list == "resources":
			lists[key.list][a.exported(key)] = ""
		default:
			lists[key.list][a.exported(key)] = fmt.Sprintf("version %d", v)
		}
	}
	for _, st := range a.fixtures {
		texts[st.uri(0)] = fmt.Sprintf("version %d", all[at{server: st.id, uri: st.uri(0)}])
		for _, k := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Templates} {
			lists[string(k)][a.exported(st.item(k, "echo"))] = repeats
		}
		if capable && st.asks {
			st.mu.Lock()
			lists["tools"][a.exported(at{st.id, "asks", "tools"})] = st.asking
			st.mu.Unlock()
		}
	}
	return lists, texts
}

// exported returns the name under which the gateway lists an item.
func (a *audience) exported(key at) string {
	switch {
	case key.list == "tools" || key.list == "prompts":
		return key.server + "_" + key.uri
	case key.uri == a.shared:
		return "mcptrack://server/" + key.server + "/" + key.uri
	}
	return key.uri
}

func (a *audience) announcements() map[*client]map[string]int {
	out := map[*client]map[string]int{}
	for _, c := range a.clients {
		out[c] = c.announcements()
	}
	return out
}

// once counts announcements of tools and prompts beyond one for each server since was.
func (a *audience) once(was map[*client]map[string]int) {
	for _, c := range a.clients {
		now := c.announcements()
		for _, list := range []string{"tools", "prompts"} {
			if n := now[list] - was[c][list] - len(a.fixtures); n > 0 {
				a.report.note("%s: %s were announced to %s %d times more than they changed", a.name, list, c.name, n)
				a.report.row(a.name+": lists change", c.name, result{duplicated: n})
			}
		}
	}
}

// calls calls a tool of every server: as a modern client does at a server that speaks both eras, in
// the modern era.
func (a *audience) calls(ctx context.Context) {
	for _, c := range a.clients {
		r := result{rounds: 1}
		for _, st := range a.fixtures {
			arg := fmt.Sprintf("%s-%s-%d", c.name, st.id, c.serial.Load())
			began := time.Now()
			if err := c.call(ctx, a.exported(st.item(catalog.Tools, "echo")), arg); err != nil {
				r.lost++
				a.report.note("%s: %s calls a tool of %s: %v", a.name, c.name, st.id, err)
				continue
			}
			r.slowest = max(r.slowest, time.Since(began))
			if era := st.called(arg); st.era == "both" && c.modern && era != "modern" {
				r.lost++
				a.report.note("%s: %s calls a tool of %s, which gets the call in the %s era", a.name, c.name, st.id, era)
			}
		}
		a.report.row(a.name+": calls", c.name, r)
	}
}

// called returns the era in which the server was called with the argument.
func (s *fixture) called(arg string) string {
	for _, m := range slices.Backward(s.docs.Wire()) {
		if m.Method != "tools/call" || !strings.Contains(string(m.Params), arg) {
			continue
		}
		var params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		_ = json.Unmarshal(m.Params, &params) // as it was sent
		if slices.Contains(slices.Collect(maps.Keys(params.Meta)), "io.modelcontextprotocol/protocolVersion") {
			return "modern"
		}
		return "legacy"
	}
	return "unknown"
}

// peer is a server of the TypeScript SDK that speaks both eras over HTTP: its notes change every five
// seconds, and a tool and a resource come and go every three.
type peer struct {
	program, port string
	args          []string
	cmd           *exec.Cmd
}

// start starts the server and waits until it listens.
func (p *peer) start() error {
	p.cmd = exec.Command(p.program, append(p.args, "--http="+cmp.Or(p.port, "0"))...)
	p.cmd.SysProcAttr = endsWithThis()
	errs, err := p.cmd.StderrPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(errs)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "listening on http://127.0.0.1:"); ok {
			p.port = strings.TrimSuffix(url, "/mcp")
			go func() {
				for lines.Scan() { // until it ends
				}
			}()
			return nil
		}
	}
	return errors.Join(errors.New("the server of the TypeScript SDK ended"), p.cmd.Wait())
}

func (p *peer) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// realPeers: a server of an SDK that speaks both eras, over HTTP and stdio, behind a gateway with clients
// of both eras, while the server and the gateway are killed. Every client has to see the tool come and
// go and the notes change; over HTTP a client of the server itself says what is true.
func realPeers(o options, report *report, name string) error {
	node := filepath.Join(o.peers, "node_modules", ".bin", "node")
	if _, err := exec.LookPath(node); err != nil {
		if node, err = exec.LookPath("node"); err != nil {
			return err
		}
	}
	script, err := filepath.Abs(filepath.Join(o.peers, "ts-modern.mjs"))
	if err != nil {
		return err
	}
	p := &peer{program: node, args: []string{script}}
	if err := p.start(); err != nil {
		return err
	}
	defer func() { p.kill() }()
	g, err := newGateway(o, nil, []string{fmt.Sprintf(`"http": {"type": "http", "url": "http://127.0.0.1:%s/mcp", "trackResources": true}`, p.port),
		fmt.Sprintf(`"stdio": {"command": %q, "args": [%q, "--stdio"], "trackResources": true}`, node, script)})
	if err != nil {
		return err
	}
	defer g.end(syscall.SIGKILL)
	direct := newClient("direct", "127.0.0.1:"+p.port, true)
	ctx, stop := context.WithCancel(context.Background())
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	var clients []*client
	for _, modern := range []bool{false, true} {
		for _, capabilities := range [][]string{nil, {"sampling", "elicitation", "roots"}} {
			era := map[bool]string{false: "legacy", true: "modern"}[modern]
			c := newClient(strings.TrimSuffix(era+", "+strings.Join(capabilities, " "), ", "), g.addr, modern, capabilities...)
			for _, server := range []string{"http", "stdio"} {
				c.follows = append(c.follows, "mcptrack://server/"+server+"/note:///a.txt")
			}
			clients = append(clients, c)
			following.Go(func() { c.follow(ctx) })
		}
	}
	for _, fault := range []struct {
		name    string
		happens func() error
	}{
		{"no fault", func() error { return nil }},
		{"server killed", func() error { p.kill(); time.Sleep(time.Second); return p.start() }},
		{"gateway killed", func() error { g.end(syscall.SIGKILL); return g.start() }},
	} {
		if err := fault.happens(); err != nil {
			return err
		}
		var watching sync.WaitGroup
		for _, c := range clients {
			watching.Go(func() {
				r, began := result{rounds: 1}, time.Now()
				missing := c.watch(direct, time.Minute)
				r.slowest = time.Since(began)
				if r.lost = len(missing); r.lost > 0 {
					report.note("%s: %s: within a minute %s does not see %v", name, fault.name, c.name, missing)
				}
				report.row(name+": "+fault.name, c.name, r)
			})
		}
		watching.Wait()
	}
	if !g.end(syscall.SIGTERM) {
		report.row(name+": exit", "all", result{rounds: 1, hung: 1})
	}
	return nil
}

// watch waits until the client has seen the tool of both servers come and go, for the one over HTTP
// when it was so, and their notes change. It returns what it has not seen.
func (c *client) watch(direct *client, limit time.Duration) (missing []string) {
	want := map[string]bool{"http's tool": true, "http without it": true, "stdio's tool": true, "stdio without it": true}
	texts := map[string]string{}
	for _, uri := range c.follows {
		want[uri], texts[uri] = true, c.text(uri)
	}
	for end := time.Now().Add(limit); len(want) > 0 && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := direct.get(context.Background(), "tools"); err != nil {
			continue // it is away
		}
		if !c.lists("tools", "stdio_touch") || !c.lists("tools", "http_touch") {
			continue
		}
		there := direct.lists("tools", "extra")
		if c.lists("tools", "http_extra") == there {
			delete(want, map[bool]string{true: "http's tool", false: "http without it"}[there])
		}
		delete(want, map[bool]string{true: "stdio's tool", false: "stdio without it"}[c.lists("tools", "stdio_extra")])
		for uri, was := range texts {
			if now := c.text(uri); now != was && was != "" {
				delete(want, uri)
			} else if was == "" {
				texts[uri] = now
			}
		}
	}
	for what := range want {
		missing = append(missing, what)
	}
	return missing
}
