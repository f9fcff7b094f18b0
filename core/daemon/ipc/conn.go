package ipc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/nowait"
)

const (
	maxLine   = 1 << 20 // bytes in one line of the handshake
	maxNames  = 1024    // variables for which a daemon asks once
	maxName   = 256     // bytes in the name of a variable
	maxRounds = 8       // times that a daemon may ask; it asks twice

	// stepTimeout is how long a client may take to send a line.
	stepTimeout = 10 * time.Second
)

// CodeProtocol is the code of a Refused whose reason is the version of the handshake.
const CodeProtocol = "protocol"

// errHandshake is returned if the other end does not follow the handshake.
var errHandshake = errors.New("the handshake is invalid")

// lines is a connection that carries lines of JSON during the handshake. Reads after the handshake
// return first what was read with its last line.
type lines struct {
	net.Conn
	r *bufio.Reader
	w *nowait.Writer
}

func newLines(conn net.Conn) lines {
	return lines{conn, bufio.NewReaderSize(nowait.NewReader(conn), 4<<10), nowait.NewWriter(conn)}
}

func (l lines) Read(p []byte) (int, error) { return l.r.Read(p) }

func (l lines) Write(p []byte) (int, error) { return l.w.Write(p) }

// Try is that of a [nowait.Writer].
func (l lines) Try(p []byte) int { return l.w.Try(p) }

// CloseWrite tells the other end that nothing follows.
func (l lines) CloseWrite() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// ReadLine reads a line of at most most bytes, with its newline. It returns a last line without one together with
// io.EOF. The caller owns the line.
func ReadLine(r *bufio.Reader, most int) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > most {
			return nil, fmt.Errorf("a line is longer than %d bytes", most)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// receive reads one line into v.
func (l lines) receive(v any) error {
	line, err := ReadLine(l.r, maxLine)
	switch {
	case errors.Is(err, io.EOF) && len(line) > 0:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case json.Unmarshal(line, v) != nil:
		return fmt.Errorf("%w: a line is not the expected JSON", errHandshake)
	}
	return nil
}

// send writes v as one line.
func (l lines) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(line) >= maxLine {
		return fmt.Errorf("%w: a line would be longer than %d bytes", errHandshake, maxLine)
	}
	_, err = l.Write(append(line, '\n'))
	return err
}

// Conn is a connection of a client, as the daemon sees it. After OK it carries what the client's
// purpose says.
type Conn struct {
	lines
	Hello Hello

	ctx   context.Context // the daemon's; its end interrupts the handshake
	stop  func() bool
	build Build
}

// Accept reads the client's Hello. It returns an error, and closes the connection, if the client does
// not send one in time or has another version of the handshake. The caller ends the handshake with
// OK or Refuse. ctx ends a handshake that is in progress.
func Accept(ctx context.Context, conn net.Conn, build Build) (*Conn, error) {
	c := &Conn{lines: newLines(conn), ctx: ctx, build: build}
	c.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := c.step(func() error { return c.receive(&c.Hello) })
	if err == nil && c.Hello.Protocol != Protocol {
		return nil, c.refuseProtocol()
	}
	if err != nil {
		return nil, c.fail(err)
	}
	return c, nil
}

// step runs one step of the handshake within the time for it.
func (c *Conn) step(do func() error) error {
	if err := c.SetDeadline(time.Now().Add(stepTimeout)); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

// fail closes the connection and returns the error that ends the handshake.
func (c *Conn) fail(err error) error {
	c.stop()
	_ = c.Close()
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return fmt.Errorf("handshake of a client: %w", err)
}

func (c *Conn) refuseProtocol() error {
	older, hint := "this program is older than the daemon", "upgrade the program that the client starts"
	if c.Hello.Protocol > Protocol {
		older, hint = "the daemon is older than this program", "run mcptrack daemon stop"
	}
	refused := &Refused{Code: CodeProtocol, Message: older + " and cannot use it", Hint: hint, Exit: 1}
	if err := c.Refuse(refused); err != nil {
		return err
	}
	return fmt.Errorf("handshake of a client: its version is %d, and %d is needed", c.Hello.Protocol, Protocol)
}

// answer sends an answer.
func (c *Conn) answer(a Answer) error {
	a.Protocol, a.Build, a.PID = Protocol, c.build, os.Getpid()
	return c.send(a)
}

// Need asks the client for environment variables and returns those that are set there. An error
// ends the connection.
func (c *Conn) Need(names []string) (map[string]string, error) {
	if len(names) == 0 {
		return map[string]string{}, nil
	}
	if len(names) > maxNames {
		return nil, c.fail(fmt.Errorf("%w: the config names more than %d variables", errHandshake, maxNames))
	}
	for _, name := range names {
		if !validName(name) {
			return nil, c.fail(fmt.Errorf("%w: %q is no name of a variable", errHandshake, name[:min(len(name), maxName)]))
		}
	}
	var got Values
	if err := c.step(func() error {
		if err := c.answer(Answer{Need: names}); err != nil {
			return err
		}
		return c.receive(&got)
	}); err != nil {
		return nil, c.fail(err)
	}
	values := make(map[string]string, len(names))
	for _, name := range names {
		if v, ok := got.Env[name]; ok && !strings.ContainsRune(v, 0) {
			values[name] = v
		}
	}
	return values, nil
}

func validName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsAny(name, "=\x00")
}

// OK accepts the client. After an error the connection is closed.
func (c *Conn) OK() error {
	if err := c.step(func() error { return c.answer(Answer{OK: true}) }); err != nil {
		return c.fail(err)
	}
	if !c.stop() {
		return c.fail(context.Cause(c.ctx))
	}
	return nil
}

// Refuse refuses the client and closes the connection.
func (c *Conn) Refuse(reason *Refused) error {
	if err := c.step(func() error { return c.answer(Answer{Error: reason}) }); err != nil {
		return c.fail(err)
	}
	c.stop()
	return c.Close()
}

// clientHandshake sends the client's Hello and answers the daemon's questions. lookup returns the
// values of environment variables. answers is called with each message of the daemon.
func (l lines) clientHandshake(hello Hello, lookup func(string) (string, bool), answers func()) (Answer, error) {
	// A daemon that refuses a client may close the connection before it has read everything: its
	// answer explains a failed write.
	sent := l.send(hello)
	for range maxRounds {
		var a Answer
		err := l.receive(&a)
		answers()
		switch {
		case err != nil && sent != nil:
			return Answer{}, sent
		case err != nil:
			return Answer{}, err
		case a.Error != nil:
			return a, a.Error
		case a.Protocol != Protocol:
			return a, &Refused{Code: CodeProtocol, Message: "the daemon has another version of mcptrack, which this program cannot use",
				Hint: "run mcptrack daemon stop", Exit: 1}
		case a.OK:
			return a, nil
		case len(a.Need) == 0:
			return a, fmt.Errorf("%w: the daemon sent neither an answer nor a question", errHandshake)
		}
		values := Values{Env: make(map[string]string, len(a.Need))}
		for _, name := range a.Need {
			v, ok := lookup(name)
			if !ok || !validName(name) {
				continue
			}
			if err := notText("the variable "+name, v); err != nil {
				return Answer{}, err
			}
			values.Env[name] = v
		}
		sent = l.send(values)
	}
	return Answer{}, fmt.Errorf("%w: the daemon asks for variables again and again", errHandshake)
}

// lost reports whether an error means that the daemon has ended.
func lost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || isReset(err)
}
