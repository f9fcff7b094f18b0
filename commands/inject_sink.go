package commands

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/realtime"
	"github.com/mcptrack/mcptrack/output/web"
)

// sink returns where events go.
func (o *injectOptions) sink(ctx context.Context, env *Env, g *globals, r *receipts) (*sink, error) {
	log := g.logger(env)
	switch {
	case o.dryRun:
		return o.dry(env, r), nil
	case o.listen != "":
		return o.proxy(ctx, env, log, r)
	}
	return o.session(env, log, r)
}

// dry prints what would be sent.
func (o *injectOptions) dry(env *Env, r *receipts) *sink {
	d := &realtime.DryRun{W: env.Out, Message: o.message(), Respond: o.respond, Dialect: o.api(), Session: o.sessionID}
	return &sink{
		offer: func(e *event.Event) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.full() {
				return nil
			}
			written, err := d.Write(e)
			if written {
				r.count()
			}
			return err
		},
		pass: func(string) {}, finish: func() {}, reached: func() bool { return true },
	}
}

// session is the sideband of a call, or a session of our own.
func (o *injectOptions) session(env *Env, log *slog.Logger, r *receipts) (*sink, error) {
	stored, err := o.progressFile(env)
	if err != nil {
		return nil, err
	}
	var s *realtime.Session
	save := func(every time.Duration) {
		if err := stored.Save(func() realtime.Progress { return s.Progress() }, every); err != nil {
			log.Warn("cannot store which messages were sent; a restart would repeat some of them", "err", err)
		}
	}
	d := o.delivery()
	d.Injected = func(x []realtime.Receipt) {
		save(0) // first: what is printed is never sent again
		r.print(x)
	}
	d.Failed = func(x realtime.Failure) {
		save(0)
		warnFailed(log, x)
	}
	s, err = realtime.NewSession(realtime.SessionOptions{
		Endpoint: o.endpoint, Delivery: d, Call: o.callID != "", Resume: stored.Begin(), Logger: log, MCP: o.mcpServers(),
	})
	if err != nil {
		return nil, o.targetFailure(err)
	}
	return &sink{
		offer:  func(e *event.Event) error { s.Offer(e); return nil },
		pass:   func(id string) { s.Pass(id); save(idleSave) },
		finish: s.Finish,
		resume: func() string { return stored.Begin().Cursor },
		run: func(ctx context.Context) error {
			err := s.Run(ctx)
			save(0)
			st := s.Stats()
			log.Info("injection ended", "injected", st.Injected, "failed", st.Failed, "merged", st.Merged, "dropped", st.Dropped, "waiting", st.Waiting)
			if err == realtime.ErrEnded { //nolint:errorlint // Run returns it bare
				fmt.Fprintln(env.Err, "the session has ended")
			}
			return err
		},
		reached: func() bool { return s.Stats().Connections > 0 },
	}, nil
}

// proxy accepts applications and forwards their sessions.
func (o *injectOptions) proxy(ctx context.Context, env *Env, log *slog.Logger, r *receipts) (*sink, error) {
	d := o.delivery()
	d.Injected = r.print
	d.Failed = func(x realtime.Failure) { warnFailed(log, x) }
	p, err := realtime.NewProxy(realtime.ProxyOptions{
		Upstream: o.endpoint, Delivery: d, Logger: log, RefreshTools: o.refreshTools, ServerURL: o.serverURL,
	})
	if err != nil {
		return nil, o.targetFailure(err)
	}
	var reread <-chan struct{} // with --from and --stdin nothing is reloaded
	if o.from == "" && !o.stdin {
		reread = o.reloads(env)
	}
	tokens, err := o.access.tokens(log, reread)
	if err != nil {
		return nil, err
	}
	access, err := o.access.options(log, tokens)
	if err != nil {
		return nil, err
	}
	server, err := web.New(access)
	if err != nil {
		return nil, webFailure(err)
	}
	ln, err := server.Listen(ctx, o.listen)
	if err != nil {
		return nil, listenFailure(err)
	}
	server.Handle("/", p)
	server.OnShutdown(p.Shutdown)
	fmt.Fprintf(env.Err, "listening on ws%s\n", strings.TrimPrefix(server.URL(), "http"))
	return &sink{
		offer: func(e *event.Event) error { p.Offer(e); return nil },
		pass:  func(string) {},
		finish: func() {
			log.Warn("the source of updates has ended; sessions are still forwarded, without updates")
		},
		run: func(ctx context.Context) error {
			defer func() { _ = ln.Close() }()
			return server.Serve(ctx, ln)
		},
		reached: func() bool { return true },
	}, nil
}

// listenFailure names the flag of the address.
func listenFailure(err error) error {
	err = webFailure(err)
	if f, ok := err.(*failure); ok && f.exit == exitUsage { //nolint:errorlint // made by webFailure
		f.err = fmt.Errorf("--listen%s", strings.TrimPrefix(f.err.Error(), "--addr"))
	}
	return err
}

func warnFailed(log *slog.Logger, x realtime.Failure) {
	if x.ResourceURI == "" {
		log.Warn("the endpoint could not import the tools of a server", "server", printable.Line(x.ServerID, 128), "err", x.Reason)
		return
	}
	log.Warn("an update was not injected", "server", printable.Line(x.ServerID, 128), "uri", printable.Line(x.ResourceURI, 300), "err", x.Reason)
}
