package mcpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
)

var errClosed = errors.New("the server is shutting down")

// ServeIO serves one client that speaks newline-delimited JSON-RPC of either era. It
// returns nil when in ends or the server closes, the cause of ctx when that is done,
// and otherwise the error of reading or writing. When in ends, all requests are
// answered and listens get their result; in all other cases requests in flight are
// cancelled first.
//
// ServeIO closes in if it is an io.Closer. It also closes out if the client does not
// read the last answers within 1 s after ctx is done or the server closes, or if one
// Write after the end of in takes longer than 1 s. A Read or Write that Close does not
// interrupt, such as one on a terminal, outlives ServeIO.
func (s *Server) ServeIO(ctx context.Context, in io.Reader, out io.Writer) error {
	if !s.enter() {
		closeIf(in)
		return nil
	}
	defer s.wg.Done()
	c := &conn{
		srv:    s,
		ending: make(chan struct{}),
		slots:  make(chan struct{}, s.opts.MaxInFlight),
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer context.AfterFunc(s.ctx, func() { c.cancel(errClosed) })()
	c.out = newOutbox(func(err error) { c.cancel(err) })
	abandon := func() {
		closeIf(out)
		c.out.leave()
	}
	defer context.AfterFunc(c.ctx, func() {
		timer := time.NewTimer(drainTimeout)
		defer timer.Stop()
		select {
		case <-timer.C:
			abandon()
		case <-c.out.gone:
		}
	})()
	go c.out.run(out) // waited for by finish

	lines, read := readLines(c.ctx, in, s.opts.MaxMessage)
	err := c.read(lines)
	if err != nil {
		c.cancel(err)
	}
	var watch sync.WaitGroup
	watch.Go(func() { c.out.watch(abandon) })
	c.finish()
	watch.Wait()
	c.cancel(nil)
	closeIf(in)
	select {
	case <-read:
	case <-time.After(100 * time.Millisecond): // Close does not interrupt this Read
	}
	if errors.Is(err, errClosed) {
		err = nil
	}
	return err
}

// read handles messages until the end of input, for which it returns nil.
func (c *conn) read(lines <-chan rawLine) error {
	for {
		select {
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case l := <-lines:
			switch {
			case l.err == nil:
				c.handle(l.text)
			case errors.Is(l.err, errLong):
				c.fail(nil, errorf(mcp.CodeInvalidRequest, "the message is larger than %d bytes", c.srv.opts.MaxMessage))
			case errors.Is(l.err, io.EOF):
				return nil
			default:
				return fmt.Errorf("read from the client: %w", l.err)
			}
		}
	}
}

// finish ends everything that the connection started and waits for it.
func (c *conn) finish() {
	close(c.ending)
	if c.legacy != nil {
		c.legacy.mute()
	}
	c.wg.Wait()
	if c.legacy != nil {
		c.legacy.leave()
		c.legacy.sub.Close()
	}
	close(c.out.quit)
	<-c.out.gone
}

var errLong = errors.New("line too long")

// rawLine is one line of input, or the error that ended it.
type rawLine struct {
	text []byte
	err  error
}

// readLines reads in on a new goroutine, the only sender on lines, which is never
// closed: an error other than errLong is the last value. lines is unbuffered, so that
// requests wait in the client's pipe. The goroutine ends with in or, once ctx is done,
// at the next line, and closes ended then.
func readLines(ctx context.Context, in io.Reader, limit int) (lines <-chan rawLine, ended <-chan struct{}) {
	sent, done := make(chan rawLine), make(chan struct{})
	go func() {
		defer close(done)
		r := bufio.NewReaderSize(in, 64<<10)
		for {
			text, err := readLine(r, limit)
			if len(text) > 0 || err != nil {
				select {
				case sent <- rawLine{text, err}:
				case <-ctx.Done():
					return
				}
			}
			if err != nil && !errors.Is(err, errLong) {
				return
			}
		}
	}()
	return sent, done
}

// readLine returns the next line without its line end, or errLong for one that exceeds
// the limit and is skipped. An unterminated last line counts; io.EOF follows it.
func readLine(r *bufio.Reader, limit int) (text []byte, err error) {
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(text)+len(part) > limit+1; long {
			text = nil
		} else {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || len(text) == 0 && !long):
			return nil, err
		case long:
			return nil, errLong
		}
		return trimEnd(text), nil
	}
}

func trimEnd(text []byte) []byte {
	for len(text) > 0 && (text[len(text)-1] == '\n' || text[len(text)-1] == '\r' || text[len(text)-1] == ' ') {
		text = text[:len(text)-1]
	}
	return text
}

func closeIf(v any) {
	if c, ok := v.(io.Closer); ok {
		_ = c.Close()
	}
}
