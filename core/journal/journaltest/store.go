// Package journaltest gives tests a store on a network: the program nats-server with
// JetStream, on the loopback, as one node or as a cluster of three. Only tests import it.
//
// The version of nats-server is the one in scripts/tools.mod. The first test on a machine
// waits until it is built; later ones need no network.
package journaltest

import "testing"

// Store starts a server of one node and returns its URL. The test's end stops it and removes
// its data.
func Store(t testing.TB) (url string) {
	t.Helper()
	return Start(t, t.TempDir()).URL
}

// Server is a NATS server of one node, which can be stopped and started again. Its methods
// are for the goroutine of the test.
type Server struct {
	URL string // the same after every start
	Dir string // what it stores

	t    testing.TB
	node *node
}

// Start starts a server with the data of dir, and returns when it is ready. The test's end
// stops it. An empty dir means a server without JetStream.
func Start(t testing.TB, dir string) *Server {
	t.Helper()
	ports := freePorts(t, 2)
	s := &Server{
		URL: "nats://" + loopback(ports[0]), Dir: dir, t: t,
		node: newNode(t, program(t), nodeConfig{name: "n", dir: dir, client: ports[0], monitor: ports[1]}),
	}
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

// Start starts the server after Stop, and returns when it is ready.
func (s *Server) Start() {
	s.t.Helper()
	if err := s.node.start(); err != nil {
		s.t.Fatal(err)
	}
	if err := s.node.ready(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// Stop stops the server and waits for its end. What it stored stays.
func (s *Server) Stop() { s.node.stop() }
