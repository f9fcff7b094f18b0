//go:build unix

package guard

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/locktest"
)

// Nothing is served by a lock that others can change, until they cannot any more.
func TestLockOfOthers(t *testing.T) {
	path := locktest.Path(t)
	o := offered(t, "dig digs")
	write(t, path, o)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	insecure := guarded(t, Options{Path: path, Insecure: true}).Judge("docs", nil, o)
	g := guarded(t, Options{Path: path})
	unsafe := g.Judge("docs", nil, o)
	if got, plain := served(t, unsafe, o), served(t, insecure, o); unsafe.Blocked() == nil || insecure.Blocked() != nil || plain != "dig=digs" {
		t.Errorf("%s (%v), insecure: %s (%v)", got, unsafe.Blocked(), plain, insecure.Blocked())
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	for {
		read := g.Changes()
		if g.Judge("docs", lock.Policy{}, o).Blocked() == nil {
			break
		}
		<-read
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
