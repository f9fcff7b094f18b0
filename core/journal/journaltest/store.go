// Package journaltest gives tests a store on a network: a real NATS server with
// JetStream. Only tests import it.
package journaltest

import (
	"fmt"
	"net"
	"net/url"
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
	s := newServer(t, "n", dir)
	s.Start()
	return s
}

// StartCluster starts a cluster of three servers in this process.
func StartCluster(t testing.TB) []*Server {
	t.Helper()
	var nodes []*Server
	var routes []*url.URL
	for i := range 3 {
		s := newServer(t, fmt.Sprint("n", i), t.TempDir())
		s.opts.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: freePort(t)}
		nodes = append(nodes, s)
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", s.opts.Cluster.Port)})
	}
	for _, s := range nodes {
		s.opts.Routes = routes
		s.opts.Port = freePort(t)
	}
	for _, s := range nodes {
		s.Start()
	}
	for _, s := range nodes {
		for !s.running.JetStreamIsCurrent() {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("the cluster has no leader")
			}
		}
	}
	return nodes
}

func newServer(t testing.TB, name, dir string) *Server {
	s := &Server{Dir: dir, t: t, opts: server.Options{ServerName: name, Host: "127.0.0.1", Port: server.RANDOM_PORT,
		NoSigs: true, NoLog: true, JetStream: dir != "", StoreDir: dir, JetStreamMaxStore: 1 << 40, JetStreamMaxMemory: 1 << 30}}
	t.Cleanup(s.Stop)
	return s
}

// freePort is a port that nothing listens on now.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
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

// Leads reports whether the server, one of a cluster, is the leader of a stream.
func (s *Server) Leads(stream string) bool {
	return s.running != nil && s.running.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream)
}

// Stop stops the server and waits for it. Its data stay.
func (s *Server) Stop() {
	if s.running != nil {
		s.running.Shutdown()
		s.running.WaitForShutdown()
		s.running = nil
	}
}
