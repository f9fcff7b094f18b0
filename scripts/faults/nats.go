package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/nats-io/nats-server/v2/server"
)

// node runs a NATS server until it is killed: its name, folder, client port and cluster
// port, and the addresses of the routes to the others.
func node(args []string) error {
	if len(args) < 4 {
		return errors.New("node NAME DIR PORT CLUSTER_PORT [ROUTE...]")
	}
	port, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	clusterPort, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	opts := &server.Options{ServerName: args[0], StoreDir: args[1], Host: "127.0.0.1", Port: port, NoLog: true, NoSigs: true,
		JetStream: true, JetStreamMaxStore: 1 << 40, JetStreamMaxMemory: 1 << 30, SyncAlways: true}
	if len(args) > 4 {
		opts.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: clusterPort, NoAdvertise: true}
	}
	for _, r := range args[4:] {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: r})
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return nil
}

// nats is one NATS node: a process, and the wires to it.
type nats struct {
	name, dir   string
	port, route string  // ports of clients and of routes
	routes      []*wire // to the others
	clients     []*wire // one for each tracker
	cmd         *exec.Cmd
}

func (n *nats) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"node", n.name, n.dir, n.port, n.route}
	for _, w := range n.routes {
		args = append(args, w.addr)
	}
	n.cmd = exec.Command(self, args...)
	n.cmd.Stderr = os.Stderr
	return n.cmd.Start()
}

func (n *nats) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait()
}

// newCluster starts nodes that reach each other through wires, and makes wires for so many
// trackers.
func newCluster(dir string, size, trackers int) ([]*nats, error) {
	var nodes []*nats
	for i := range size {
		n := &nats{name: fmt.Sprint("n", i), dir: filepath.Join(dir, fmt.Sprint("n", i))}
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
		if err := n.start(); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}
