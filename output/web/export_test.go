package web

// MostConns is mostConns, for tests that open many.
func MostConns() int { return mostConns() }

// Conns returns the number of open connections.
func (s *Server) Conns() int {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	return len(s.conns.used)
}
