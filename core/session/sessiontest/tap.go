package sessiontest

import (
	"bufio"
	"context"
	"io"
	"sync"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// Tap changes what a server writes to its standard output: each line, without its end,
// is replaced by what change returns. It is a [session.DialFunc] of one server.
type Tap struct {
	Server *Fake
	Change func(line string) string

	pipes sync.WaitGroup
}

// Dial connects to the server.
func (t *Tap) Dial(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
	out, in, wait := t.Server.Pipe()
	t.pipes.Go(wait)
	r, w := io.Pipe()
	t.pipes.Go(func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 4<<20)
		for lines.Scan() {
			if _, err := io.WriteString(w, t.Change(lines.Text())+"\n"); err != nil {
				break
			}
		}
		_, _ = out.Close(), w.Close()
	})
	s, err := session.OverIO(ctx, r, in, srv, opts)
	if err != nil {
		_, _ = r.Close(), in.Close()
	}
	return s, err
}

// Wait waits until all connections have ended.
func (t *Tap) Wait() {
	t.Server.Disconnect()
	t.pipes.Wait()
}
