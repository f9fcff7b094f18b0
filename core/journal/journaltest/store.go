// Package journaltest gives tests a store on a network: a real NATS server with JetStream in
// this process, or a cluster of three processes. Only tests import it.
package journaltest

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Store starts a server of one node on a free loopback port, in this process, and
// returns its URL. The test's end stops it and removes its data.
func Store(t testing.TB) (url string) {
	t.Helper()
	return Start(t, t.TempDir()).URL
}

// Server is a NATS server of one node, which can be stopped and started again.
type Server struct {
	URL string // the same after every start
	Dir string // what it stores

	t       testing.TB
	opts    server.Options
	running *server.Server // nil while stopped
}

// Start starts a server with the data of dir, in this process. The test's end stops
// it. An empty dir means a server without JetStream.
func Start(t testing.TB, dir string) *Server {
	t.Helper()
	s := &Server{Dir: dir, t: t, opts: options("n", dir)}
	t.Cleanup(s.Stop)
	s.Start()
	return s
}

// options are those of a server with the data of dir.
func options(name, dir string) server.Options {
	return server.Options{ServerName: name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: dir != "", StoreDir: dir, JetStreamMaxStore: 1 << 40, JetStreamMaxMemory: 1 << 30}
}

// freePorts returns ports that nothing listens on now.
func freePorts(t testing.TB, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// Start starts the server after Stop, on the same port.
func (s *Server) Start() {
	s.t.Helper()
	opts := s.opts // the server changes it
	srv, err := server.NewServer(&opts)
	if err != nil {
		s.t.Error(err)
		return
	}
	srv.Start()
	s.running = srv
	if !srv.ReadyForConnections(10 * time.Second) {
		s.t.Error("the NATS server is not ready")
		return
	}
	s.URL, s.opts.Port = srv.ClientURL(), srv.Addr().(*net.TCPAddr).Port
}

// Stop stops the server and waits for it. Its data stay.
func (s *Server) Stop() {
	if s.running != nil {
		s.running.Shutdown()
		s.running.WaitForShutdown()
		s.running = nil
	}
}
