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
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/daemon/wire"
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
	c, err := wire.Accept(ctx, raw, d.opts.Build)
	if err != nil {
		if !errors.Is(err, io.EOF) { // a client that only tries whether somebody listens
			d.opts.Logger.Debug("a connection was refused", "err", err)
		}
		return
	}
	switch c.Hello.Purpose {
	case wire.Status:
		if c.OK() == nil {
			_ = json.NewEncoder(c).Encode(d.Status()) // an error means that the client has left
		}
	case wire.Stop, wire.Handover:
		if c.OK() != nil {
			return
		}
		kept = true
		d.mu.Lock()
		d.waiting = append(d.waiting, raw)
		d.mu.Unlock()
		cause := ErrStopped
		if c.Hello.Purpose == wire.Handover {
			cause = ErrHandover
		}
		d.end(cause)
	case wire.Attach, wire.HTTP:
		d.serveView(ctx, c)
	default:
		_ = c.Refuse(&wire.Refused{Code: "purpose", Message: "this daemon does not know the purpose of the connection", Hint: "run mcptrack daemon stop, and try again"})
	}
}

// serveView serves a client of a view.
func (d *Daemon) serveView(ctx context.Context, c *wire.Conn) {
	who, source, err := d.open(ctx, c.Hello, c.Need)
	var v *View
	if err == nil && c.Hello.Purpose == wire.HTTP && d.opts.HTTP == nil {
		err = &wire.Refused{Code: "purpose", Message: "this daemon serves no events"}
	}
	in := io.Reader(c)
	accepted := err == nil && c.Hello.Purpose == wire.Attach && asksForNames(source.Config)
	if accepted { // before it is known what the client calls itself
		if c.OK() != nil {
			return
		}
		who.called, in = d.called(ctx, c, in)
	}
	if err == nil {
		var seated func(*View)
		var stand func()
		who, seated, stand = d.sit(who, source)
		defer stand()
		if v, err = d.enter(who, source); err == nil {
			seated(v)
		}
	}
	if err != nil && accepted {
		d.opts.Logger.Error("cannot serve a client", "err", printable.Reason(err, 1000))
		return
	}
	if err != nil {
		refused, ok := errors.AsType[*wire.Refused](err)
		if !ok {
			refused = &wire.Refused{Code: "failed", Message: printable.Reason(err, 1000)}
		}
		_ = c.Refuse(refused)
		return
	}
	defer v.leave()
	if c.Hello.Purpose == wire.HTTP {
		v.awaitApplied(ctx)
		if c.OK() == nil {
			v.serveHTTP(ctx, c)
		}
		return
	}
	if !accepted && c.OK() != nil {
		return
	}
	if err := v.attach(ctx, c, in); err != nil && ctx.Err() == nil {
		d.opts.Logger.Debug("a client left", "err", err)
	}
}

// maxRounds limits how often a client is asked for variables: those of the config may depend on those
// that determine where the config is.
const maxRounds = 4

// open reads the config of a client. It gets the client's variables from ask: those that servers
// inherit, and those that the config depends on.
func (d *Daemon) open(ctx context.Context, hello wire.Hello, ask func(names []string) (map[string]string, error)) (party, Source, error) {
	who := party{Hello: hello}
	who.realFolder, _ = filepath.EvalSymlinks(hello.Folder) // a folder that cannot be read has only its path
	env := &environment{path: hello.Path, known: map[string]string{}, asked: map[string]bool{}}
	for _, name := range d.inherited() {
		_, _ = env.lookup(name)
	}
	need := env.missing()
	values, err := ask(need)
	if err != nil {
		return who, Source{}, err
	}
	env.add(need, values)
	who.inherited = maps.Clone(values)
	for range maxRounds {
		source, err := d.opts.Open(ctx, Client{Hello: hello, LookupEnv: env.lookup})
		if need = env.missing(); len(need) == 0 {
			who.env = env.known
			return who, source, err
		}
		if values, err = ask(need); err != nil {
			return who, Source{}, err
		}
		env.add(need, values)
	}
	return who, Source{}, &wire.Refused{Code: "config_invalid", Message: "the config needs too many variables"}
}

// environment is what is known about the environment of a client.
type environment struct {
	path string

	mu    sync.Mutex
	known map[string]string
	asked map[string]bool
	need  []string
}

func (e *environment) lookup(name string) (string, bool) {
	if name == "PATH" {
		return e.path, e.path != ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if value, ok := e.known[name]; ok || e.asked[name] {
		return value, ok
	}
	e.asked[name] = true
	e.need = append(e.need, name)
	return "", false
}

// missing returns the names that were looked up but are not known yet.
func (e *environment) missing() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	need := e.need
	e.need = nil
	return need
}

func (e *environment) add(need []string, values map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, name := range need {
		if value, ok := values[name]; ok {
			e.known[name] = value
		}
	}
}

// lastRequests is how long a daemon that ends reads what its clients have already sent. The relay of a
// client closes its sending side earlier.
const lastRequests = 2 * time.Second

// attach serves MCP to a client until it leaves. When ctx ends, it tells the client's relay so, reads
// what the client has already sent, and answers all that is in flight. in returns what the client sends.
func (v *View) attach(ctx context.Context, c *wire.Conn, in io.Reader) error {
	v.settle(ctx)
	serving, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	if c.Hello.Resumes {
		serving = gateway.Resumed(serving)
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer cancel(nil)
	out := &lines{conn: c}
	first := v.hash()
	if err := out.report(first); err != nil {
		return err
	}
	tasks.Go(func() { v.reportLists(serving, out, first) })
	tasks.Go(func() {
		select {
		case <-serving.Done():
			return
		case <-ctx.Done():
		}
		_ = c.SetReadDeadline(time.Now().Add(lastRequests))
		ends := map[string]any{"ends": true, "handover": errors.Is(context.Cause(ctx), ErrHandover)}
		tasks.Go(func() { _ = out.control(ends) }) // an error means that the client has left
		select {
		case <-serving.Done():
		case <-time.After(v.d.opts.Drain):
			cancel(fmt.Errorf("%w; the request may have been executed", context.Cause(ctx)))
		}
	})
	return v.gw.Server().ServeIO(serving, &untilStopped{in, ctx}, out)
}

// reportLists tells the client's relay which lists the client is about to see, so that the relay can
// tell after a reconnect whether they differ. first contains the lists that it was told.
func (v *View) reportLists(ctx context.Context, out *lines, first map[string]string) {
	for {
		lists, next := v.current()
		if lists != nil && !maps.Equal(lists, first) {
			if out.report(lists) != nil {
				return
			}
			first = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-next:
		}
	}
}

// report tells the relay the hashes of the lists.
func (l *lines) report(lists map[string]string) error {
	return l.control(map[string]any{"lists": lists})
}

// control writes a line for the relay.
func (l *lines) control(members map[string]any) error {
	line, err := json.Marshal(map[string]any{"mcptrack": members})
	if err != nil {
		panic(err) // strings and a bool
	}
	_, err = l.Write(append(line, '\n'))
	return err
}

// lines writes whole lines from several goroutines.
type lines struct {
	mu   sync.Mutex
	conn *wire.Conn
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn.Write(p)
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
func (v *View) serveHTTP(ctx context.Context, c *wire.Conn) {
	one := &oneConn{conn: c, closed: make(chan struct{})}
	srv := &http.Server{
		Handler: v.http, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 12 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				_ = one.Close()
			}
		},
	}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	_ = srv.Serve(one) // ends with the connection
	_ = srv.Close()
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn   net.Conn
	once   sync.Once
	taken  sync.Once
	closed chan struct{} // closed by Close
}

func (o *oneConn) Accept() (net.Conn, error) {
	var conn net.Conn
	o.taken.Do(func() { conn = o.conn })
	if conn != nil {
		return conn, nil
	}
	<-o.closed
	return nil, net.ErrClosed
}

func (o *oneConn) Close() error {
	o.once.Do(func() { close(o.closed) })
	return nil
}

func (o *oneConn) Addr() net.Addr { return o.conn.LocalAddr() }
