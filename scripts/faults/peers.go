//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

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
