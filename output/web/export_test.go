package web

// MostConns is mostConns, for tests that open many.
func MostConns() int { return mostConns() }
