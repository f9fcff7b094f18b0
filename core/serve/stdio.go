package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

var errClosed = errors.New("the server is shutting down")

// ServeIO serves one client that speaks newline-delimited JSON-RPC of either era,
// until in ends or the server closes (nil), ctx is done (its cause), or reading or
// writing fails. When in ends, what was asked before is answered and listens get
// their result; in all other cases calls in work are cancelled first.
//
// ServeIO closes in if it is an io.Closer. It also closes out if the client does not
// read the last answers: for 1 s after ctx is done or the server closes, or 1 s for
// one Write after in ended. A Read or Write that Close does not interrupt, such as
// one on a terminal, is left behind.
func (s *Server) ServeIO(ctx context.Context, in io.Reader, out io.Writer) error {
	if !s.enter() {
		closeIf(in)
		return nil
	}
	defer s.wg.Done()
	c := &conn{
		srv:    s,
		ending: make(chan struct{}),
		slots:  make(chan struct{}, s.opts.MaxInWork),
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer context.AfterFunc(s.ctx, func() { c.cancel(errClosed) })()
	c.out = newOutbox(func(err error) { c.cancel(err) })
	abandon := func() {
		closeIf(out)
		c.out.leave()
	}
	defer context.AfterFunc(c.ctx, func() {
		timer := time.NewTimer(goodbye)
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
	case <-time.After(100 * time.Millisecond): // left behind
	}
	if errors.Is(err, errClosed) {
		err = nil
	}
	return err
}

// read handles messages until there are none, which is no error.
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
				c.refuse(nil, refuse(CodeInvalidRequest, "a message has more than %d bytes", c.srv.opts.MaxMessage))
			case errors.Is(l.err, io.EOF):
				return nil
			default:
				return fmt.Errorf("read from the client: %w", l.err)
			}
		}
	}
}

// finish ends what the connection started, and returns when it has ended.
func (c *conn) finish() {
	close(c.ending)
	c.wg.Wait()
	if c.legacy != nil {
		c.legacy.sub.Close()
	}
	close(c.out.quit)
	<-c.out.gone
}

var errLong = errors.New("line too long")

// rawLine is one line of input, or how it ended.
type rawLine struct {
	text []byte
	err  error
}

// readLines reads in on its own goroutine, which alone sends on the channel and
// never closes it: after an error other than errLong nothing comes. The channel is
// unbuffered, so that requests wait in the client's pipe. The goroutine ends with
// in or, after ctx, with the next line; it closes ended then.
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

// readLine returns the next line without its end, or errLong for one that is
// skipped. A last line without an end counts; io.EOF comes after it.
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
