package demo

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

const (
	defaultInterval = 2 * time.Second
	minInterval     = 10 * time.Millisecond
	maxInterval     = time.Hour
	maxLine         = 4 << 20 // bytes of one request
	// goodbye bounds how long a client that does not read can delay the end.
	goodbye = time.Second
)

// Options of a demo server. The zero value is usable.
type Options struct {
	// Seed chooses which lines and messages come. 0 is a seed like any other.
	Seed uint64
	// Interval is the time between two ticks. 0: 2 s. It is held within 10 ms
	// and 1 h, also when the tool set_interval changes it.
	Interval time.Duration
	// Now is the clock whose time is shown. Nil: time.Now.
	Now func() time.Time
	// Version is what the server says of itself. Empty: "dev".
	Version string
}

// Serve serves one client that speaks newline-delimited JSON-RPC, of the
// initialize era or of 2026-07-28, until in ends (nil) or ctx is done (its
// cause). All answers to requests read before the end of in are written. An error
// of out ends Serve. However it ends, in is closed if it is an io.Closer; a Read of
// in that Close does not interrupt, such as one on a terminal, is left behind. When
// ctx is done and the client does not read the last answers within 1 s, out is
// closed as well.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opts Options) error {
	interval := clamp(cmp.Or(opts.Interval, defaultInterval))
	if opts.Now == nil {
		opts.Now = time.Now
	}
	o := newOffice(opts, interval)
	c := newConn(ctx, o.srv, out)
	o.notify = c.updated

	lines := readLines(c.ctx, in)
	context.AfterFunc(c.ctx, func() { closeIf(in) }) // close ends c.ctx
	stuck := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(goodbye)
		defer timer.Stop()
		select {
		case <-timer.C:
			closeIf(out)
		case <-c.written:
		}
	})
	defer stuck()

	err := o.run(c, lines)
	return c.close(err)
}

// run is the one goroutine that owns the office: requests and ticks change and
// read it in turn.
func (o *office) run(c *conn, lines <-chan line) error {
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for interval := o.interval; ; {
		select {
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case l := <-lines:
			if l.err == io.EOF {
				return nil
			}
			if l.err != nil {
				return fmt.Errorf("read request: %w", l.err)
			}
			c.handle(l.text)
		case <-ticker.C:
			o.step()
		}
		if interval != o.interval {
			interval = o.interval
			ticker.Reset(interval)
		}
	}
}

// line is one line of input, or how it ended.
type line struct {
	text json.RawMessage
	err  error
}

// readLines reads in on its own goroutine, which alone sends on the channel and
// never closes it: its last value has err set. The channel is unbuffered, so that
// requests wait in the client's pipe. The goroutine ends with in or, after ctx,
// with the next line.
func readLines(ctx context.Context, in io.Reader) <-chan line {
	lines := make(chan line)
	go func() {
		send := func(l line) bool {
			select {
			case lines <- l:
				return true
			case <-ctx.Done():
				return false
			}
		}
		scan := bufio.NewScanner(in)
		scan.Buffer(nil, maxLine)
		for scan.Scan() {
			if text := scan.Bytes(); len(text) > 0 && !send(line{text: append(json.RawMessage(nil), text...)}) {
				return
			}
		}
		err := scan.Err()
		if err == nil {
			err = io.EOF
		}
		send(line{err: err})
	}()
	return lines
}

func closeIf(v any) {
	if c, ok := v.(io.Closer); ok {
		c.Close()
	}
}

func clamp(d time.Duration) time.Duration { return min(max(d, minInterval), maxInterval) }

// newServer declares everything the demo can do, also what comes only later.
func newServer(version string) *server.MCPServer {
	return server.NewMCPServer("mcptrack-demo", cmp.Or(version, "dev"),
		server.WithResourceCapabilities(true, true),
		server.WithToolCapabilities(true),
		server.WithPromptCapabilities(true),
		server.WithRecovery(),
		server.WithInstructions("A demo whose resources, tools and prompts change by themselves. Subscribe and watch."),
	)
}
