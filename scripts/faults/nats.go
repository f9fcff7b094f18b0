//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// nats is one NATS node: a process of nats-server, and the wires to it.
type nats struct {
	program, name, dir string
	port, route        string  // ports of clients and of routes
	routes             []*wire // to the others
	clients            []*wire // one for each tracker
	cmd                *exec.Cmd
}

// configure writes the config: what is stored is synced before it is acknowledged, and
// neither clients nor other nodes are told of ways around the wires.
func (n *nats) configure() error {
	conf := map[string]any{
		"server_name": n.name,
		"listen":      "127.0.0.1:" + n.port,
		"jetstream":   map[string]any{"store_dir": n.dir, "max_file_store": int64(1 << 40), "max_memory_store": 1 << 30, "sync_interval": "always"},
	}
	if len(n.routes) > 0 {
		var routes []string
		for _, w := range n.routes {
			routes = append(routes, "nats://"+w.addr)
		}
		conf["cluster"] = map[string]any{"name": "c", "listen": "127.0.0.1:" + n.route, "no_advertise": true, "routes": routes}
	}
	data, err := json.Marshal(conf) // which the format of nats-server contains
	if err != nil {
		return err
	}
	return os.WriteFile(n.dir+".conf", data, 0o600)
}

// start starts the node, which writes its log beside its folder, and waits until it listens.
func (n *nats) start() error {
	n.cmd = exec.Command(n.program, "-c", n.dir+".conf", "-l", n.dir+".log")
	n.cmd.Stderr, n.cmd.SysProcAttr = os.Stderr, endsWithThis()
	if err := n.cmd.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+n.port)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s does not listen within 20 s: %w", n.program, err)
		}
	}
}

func (n *nats) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

// newCluster starts nodes that reach each other through wires, and makes wires for so many
// trackers. The folder dir exists or is made.
func newCluster(program, dir string, size, trackers int) ([]*nats, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var nodes []*nats
	for i := range size {
		n := &nats{program: program, name: fmt.Sprint("n", i), dir: filepath.Join(dir, fmt.Sprint("n", i))}
		_, n.port, _ = net.SplitHostPort(freeAddr())
		_, n.route, _ = net.SplitHostPort(freeAddr())
		nodes = append(nodes, n)
	}
	for i, n := range nodes {
		for j, other := range nodes {
			if i == j {
				continue
			}
			w, err := newWire("127.0.0.1:" + other.route)
			if err != nil {
				return nil, err
			}
			n.routes = append(n.routes, w)
		}
		for range trackers {
			w, err := newWire("127.0.0.1:" + n.port)
			if err != nil {
				return nil, err
			}
			n.clients = append(n.clients, w)
		}
		if err := n.configure(); err != nil {
			return nil, err
		}
		if err := n.start(); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}
