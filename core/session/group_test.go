package session

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
)

// A session that is closed starts no requests, in the background or not.
func TestListenAfterClose(t *testing.T) {
	t.Parallel()
	s := newSession(config.Server{}, Options{}.withDefaults())
	_ = s.Close()
	if l, err := s.listen(t.Context(), Filter{URIs: []string{"a:b"}}); l != nil || err == nil {
		t.Errorf("%v, %v", l, err)
	}
}
