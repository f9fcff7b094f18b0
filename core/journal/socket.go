package journal

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// A process that uses a data directory lets other processes of the same user read its log
// through a Unix socket in the directory, which only that user can enter. The protocol is that
// of the server in this process.

const (
	socketName = "socket"
	// longestSocket is the longest path that a socket may have on all systems. A socket whose
	// path would be longer is created elsewhere, and a symbolic link in the directory leads to
	// it.
	longestSocket = 100
	tempSocket    = "mcptrack-socket-"
)

// socket accepts connections of readers and passes them to the server.
type socket struct {
	listener net.Listener
	link     string // in the data directory
	temp     string // the directory of the socket, if it is elsewhere
	connect  func() (net.Conn, error)

	running sync.WaitGroup
	mu      sync.Mutex // guards all below
	conns   map[net.Conn]struct{}
	closed  bool
}

// listen creates the socket of a data directory whose lock is held. connect connects to the
// server.
func (d *dir) listen(connect func() (net.Conn, error)) (*socket, error) {
	s := &socket{link: filepath.Join(d.path, socketName), connect: connect, conns: map[net.Conn]struct{}{}}
	s.removeOld()
	path := s.link
	if len(path) > longestSocket {
		var err error
		if s.temp, err = os.MkdirTemp("", tempSocket); err != nil {
			return nil, fmt.Errorf("journal: create the socket for other processes that read the log: %w", err)
		}
		path = filepath.Join(s.temp, socketName)
	}
	var err error
	if s.listener, err = net.Listen("unix", path); err == nil && s.temp != "" {
		err = os.Symlink(path, s.link)
	}
	if err != nil {
		s.remove()
		return nil, fmt.Errorf("journal: create the socket for other processes that read the log: %w", err)
	}
	s.running.Go(s.accept)
	return s, nil
}

// removeOld removes what a killed run left behind.
func (s *socket) removeOld() {
	if to, err := os.Readlink(s.link); err == nil && strings.HasPrefix(filepath.Base(filepath.Dir(to)), tempSocket) {
		_ = os.Remove(to)
		_ = os.Remove(filepath.Dir(to)) // only if it is empty
	}
	_ = os.Remove(s.link)
}

func (s *socket) remove() {
	if s.listener != nil {
		_ = s.listener.Close()
	}
	_ = os.Remove(s.link)
	if s.temp != "" {
		_ = os.Remove(filepath.Join(s.temp, socketName))
		_ = os.Remove(s.temp)
	}
}

func (s *socket) accept() {
	for {
		reader, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // such as too many open files
			time.Sleep(100 * time.Millisecond)
			continue
		}
		server, err := s.connect()
		if err != nil || !s.add(reader, server) {
			_ = reader.Close()
			continue
		}
		s.running.Go(func() { s.copy(server, reader) })
		s.running.Go(func() { s.copy(reader, server) })
	}
}

// add registers the two ends of a connection, so that close closes them.
func (s *socket) add(reader, server net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = server.Close()
		return false
	}
	s.conns[reader], s.conns[server] = struct{}{}, struct{}{}
	return true
}

// copy copies until one end is closed, and closes both.
func (s *socket) copy(to, from net.Conn) {
	_, _ = io.Copy(to, from) // either end may close it in any way
	_ = to.Close()
	_ = from.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, to)
	delete(s.conns, from)
}

// close removes the socket, closes all connections and waits.
func (s *socket) close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.remove()
	s.running.Wait()
}

// socketDialer connects to the socket of a data directory, for the NATS client.
type socketDialer struct{ dir string }

// Dial implements [nats.CustomDialer]; the address is ignored.
func (d socketDialer) Dial(_, _ string) (net.Conn, error) {
	path, err := filepath.EvalSymlinks(filepath.Join(d.dir, socketName))
	if err != nil {
		return nil, err
	}
	return net.DialTimeout("unix", path, 5*time.Second)
}
