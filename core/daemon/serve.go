package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/printable"
)

// serve serves one connection until it ends or ctx ends.
func (d *Daemon) serve(ctx context.Context, raw net.Conn) {
	kept := false
	defer func() {
		if !kept {
			_ = raw.Close()
		}
	}()
	c, err := ipc.Accept(ctx, raw, d.opts.Build)
	if err != nil {
		if !errors.Is(err, io.EOF) { // a client that only tries whether somebody listens
			d.opts.Logger.Debug("a connection was refused", "err", err)
		}
		return
	}
	switch c.Hello.Purpose {
	case ipc.Status:
		if c.OK() == nil {
			_ = json.NewEncoder(c).Encode(d.Status()) // an error means that the client has left
		}
	case ipc.Stop, ipc.Handover:
		if c.OK() != nil {
			return
		}
		kept = true
		d.mu.Lock()
		d.waiting = append(d.waiting, raw)
		d.mu.Unlock()
		cause := ErrStopped
		if c.Hello.Purpose == ipc.Handover {
			cause = ErrHandover
		}
		d.end(cause)
	case ipc.Attach, ipc.HTTP:
		d.serveGroup(ctx, c)
	default:
		_ = c.Refuse(&ipc.Refused{Code: "purpose", Message: "this daemon does not know the purpose of the connection", Hint: "run mcptrack daemon stop, and try again"})
	}
}

// serveGroup serves a client of a group.
func (d *Daemon) serveGroup(ctx context.Context, c *ipc.Conn) {
	who, source, err := d.open(ctx, c.Hello, c.Need)
	var g *Group
	if err == nil && c.Hello.Purpose == ipc.HTTP && d.opts.HTTP == nil {
		err = &ipc.Refused{Code: "purpose", Message: "this daemon serves no events"}
	}
	in := io.Reader(c)
	accepted := err == nil && c.Hello.Purpose == ipc.Attach && asksForNames(source.Config)
	if accepted { // before it is known what the client calls itself
		if c.OK() != nil {
			return
		}
		who.name, in = d.clientName(ctx, c, in)
	}
	if err == nil {
		var taken func(*Group)
		var leave func()
		who, taken, leave = d.takeSlot(who, source)
		defer leave()
		if g, err = d.enter(who, source); err == nil {
			taken(g)
		}
	}
	if err != nil && accepted {
		d.opts.Logger.Error("cannot serve a client", "err", printable.Reason(err, 1000))
		return
	}
	if err != nil {
		refused, ok := errors.AsType[*ipc.Refused](err)
		if !ok {
			refused = &ipc.Refused{Code: "failed", Message: printable.Reason(err, 1000)}
		}
		_ = c.Refuse(refused)
		return
	}
	defer g.leave()
	if c.Hello.Purpose == ipc.HTTP {
		g.awaitApplied(ctx)
		handler := g.handler()
		if handler == nil {
			_ = c.Refuse(&ipc.Refused{Code: "failed", Message: "the config has just changed; try again"})
		} else if c.OK() == nil {
			serveHTTP(ctx, c, handler)
		}
		return
	}
	if !accepted && c.OK() != nil {
		return
	}
	if err := g.attach(ctx, c, in); err != nil && ctx.Err() == nil {
		d.opts.Logger.Debug("a client left", "err", err)
	}
}

// open reads the config of a client. It gets the client's variables from ask, at most twice: those that servers
// inherit and that determine where the config is, before it reads anything; and then those that the config names.
func (d *Daemon) open(ctx context.Context, hello ipc.Hello, ask func(names []string) (map[string]string, error)) (client, Source, error) {
	who := client{Hello: hello, env: map[string]string{}}
	inherited := d.inherited()
	names := slices.Concat(inherited, d.opts.Reads)
	for asked := map[string]bool{}; ; {
		values, err := ask(names)
		if err != nil {
			return who, Source{}, err
		}
		maps.Copy(who.env, values)
		first := who.inherited == nil
		if first {
			who.realFolder, _ = filepath.EvalSymlinks(hello.Folder) // a folder that cannot be read has only its path
			who.inherited = maps.Clone(values)
			maps.DeleteFunc(who.inherited, func(name, _ string) bool { return !slices.Contains(inherited, name) })
		}
		for _, name := range names {
			asked[name] = true
		}
		names = nil
		d.mu.Lock()
		who.asOf = d.edits
		d.mu.Unlock()
		source, err := d.opts.Open(ctx, Client{Hello: hello, LookupEnv: func(name string) (string, bool) {
			if name == "PATH" {
				return hello.Path, hello.Path != ""
			}
			value, ok := who.env[name]
			if !asked[name] {
				asked[name] = true
				names = append(names, name)
			}
			return value, ok
		}})
		if !first || len(names) == 0 {
			return who, source, err
		}
	}
}

// lastRequests is how long a daemon that ends reads what its clients have already sent. The relay of a
// client closes its sending side earlier.
const lastRequests = 2 * time.Second

// attach serves MCP to a client until it leaves. When ctx ends, it tells the client's relay so, reads
// what the client has already sent, and answers all that is in flight. in returns what the client sends.
func (g *Group) attach(ctx context.Context, c *ipc.Conn, in io.Reader) error {
	g.settle(ctx, c.Hello.Seen)
	serving, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if c.Hello.Resumes {
		serving = gateway.Resumed(serving)
	}
	out := &lines{conn: c}
	told := make(chan struct{}) // closed when the function below has ended
	stop := context.AfterFunc(ctx, func() {
		defer close(told)
		_ = c.SetReadDeadline(time.Now().Add(lastRequests))
		defer time.AfterFunc(g.d.opts.Drain, func() {
			cancel(fmt.Errorf("%w; the request may have been executed", context.Cause(ctx)))
		}).Stop()
		_ = out.control(map[string]any{"ends": true, "handover": errors.Is(context.Cause(ctx), ErrHandover)}) // an error means that the client has left
		<-serving.Done()
	})
	defer func() {
		cancel(nil)
		if !stop() {
			_ = c.Close() // interrupts a blocked Write
			<-told
		}
	}()
	return g.gw.Server().ServeResumable(serving, &untilStopped{in, ctx}, out, c.Hello.Seen, func(list, digest string) {
		_ = out.control(map[string]any{"seen": map[string]string{list: digest}}) // an error means that the client has left
	})
}

// control writes a line for the relay.
func (l *lines) control(members map[string]any) error {
	line, err := json.Marshal(map[string]any{"mcptrack": members})
	if err != nil {
		panic(err) // strings and a bool
	}
	line = append(line, '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.part {
		l.after = append(l.after, line...)
		return nil
	}
	_, err = l.conn.Write(line)
	return err
}

// lines writes the lines of a server, and those for the relay between them.
type lines struct {
	conn *ipc.Conn

	mu    sync.Mutex
	part  bool   // a Try has written a part of a line; a Write follows with the rest
	after []byte // lines for the relay that follow that rest
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.conn.Write(p)
	if err == nil && len(l.after) > 0 {
		_, err = l.conn.Write(l.after)
	}
	l.part, l.after = false, nil
	return n, err
}

// Try writes as much of p as is possible without waiting.
func (l *lines) Try(p []byte) int {
	if !l.mu.TryLock() {
		return 0
	}
	defer l.mu.Unlock()
	n := l.conn.Try(p)
	l.part = 0 < n && n < len(p)
	return n
}

// Close interrupts a blocked Write.
func (l *lines) Close() error { return l.conn.Close() }

// untilStopped is the input of a client, which ends when the daemon stops.
type untilStopped struct {
	in  io.Reader
	ctx context.Context
}

func (u *untilStopped) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	if err != nil && u.ctx.Err() != nil {
		err = io.EOF
	}
	return n, err
}

// serveHTTP serves HTTP on one connection until it ends or ctx ends.
func serveHTTP(ctx context.Context, c *ipc.Conn, handler http.Handler) {
	ended := make(chan struct{}) // closed with the connection
	srv := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 12 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				close(ended)
			}
		},
	}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	_ = srv.Serve(&oneConn{c}) // ends when there is no second connection
	<-ended
}

// oneConn is a listener with one connection.
type oneConn struct{ conn net.Conn }

func (o *oneConn) Accept() (net.Conn, error) {
	conn := o.conn
	if o.conn = nil; conn == nil {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (o *oneConn) Close() error { return nil }

func (o *oneConn) Addr() net.Addr { return nil }
