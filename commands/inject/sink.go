package inject

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/realtime"
)

// sink is where messages go: one session, the sessions of a proxy, or stdout.
type sink struct {
	name   string                   // for people
	offer  func(*event.Event) error // accepts an event; an error ends the command
	passed func(id string)          // records that events up to an id need no delivery
	finish func()                   // called when no more events will be offered
	// run delivers messages until ctx ends or nothing is left to deliver. If nil, offer itself
	// delivers.
	run     func(ctx context.Context) error
	after   string      // id of the event after which to resume; empty if there is none
	reached func() bool // reports whether the endpoint has ever been reached
}

// sink returns the sink that the flags select. feed is the address of the feed that the events come from, if any.
func (o *options) sink(ctx context.Context, env *cli.Env, g *cli.Globals, log *slog.Logger, r *receipts, feed string) (*sink, error) {
	s := &sink{passed: func(string) {}, finish: func() {}, reached: func() bool { return true }}
	switch {
	case o.dryRun:
		s.offer = o.dry(env, r)
		return s, nil
	case o.listen != "":
		return s, o.proxy(ctx, s, env, g, log, r)
	}
	return s, o.session(s, env, g, log, r, feed)
}

// dry returns a function that prints the client events instead of sending them.
func (o *options) dry(env *cli.Env, r *receipts) func(*event.Event) error {
	d := &realtime.DryRun{W: env.Out, Message: o.message(), Respond: o.respond, Dialect: o.api(), Session: o.sessionID}
	return func(e *event.Event) error {
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
	}
}

// session joins a running session as a sideband, or starts a new session.
func (o *options) session(to *sink, env *cli.Env, g *cli.Globals, log *slog.Logger, r *receipts, feed string) error {
	stored, err := o.progressFile(env, feed)
	if err != nil {
		return err
	}
	var s *realtime.Session
	save := func(every time.Duration) {
		if err := stored.Save(func() realtime.Progress { return s.Progress() }, every); err != nil {
			log.Warn("cannot store which messages were sent; a restart would repeat some of them", "err", err)
		}
	}
	d := o.delivery(g)
	d.Injected = func(x []realtime.Receipt) {
		save(0) // save before printing, so that a printed message is never sent again
		r.print(x)
	}
	d.Failed = func(x realtime.Failure) {
		save(0)
		warnFailed(log, x)
	}
	s, err = realtime.NewSession(realtime.SessionOptions{Endpoint: o.endpoint, Delivery: d, Call: o.callID != "", Resume: stored.Begin, Logger: log})
	if err != nil {
		return o.targetFailure(err)
	}
	to.name, to.after, to.finish = o.destination(), stored.Begin.Cursor, s.Finish
	to.offer = func(e *event.Event) error { s.Offer(e); return nil }
	to.passed = func(id string) { s.Pass(id); save(idleSave) }
	to.reached = func() bool { return s.Stats().Connections > 0 }
	to.run = func(ctx context.Context) error {
		err := s.Run(ctx)
		save(0)
		st := s.Stats()
		log.Info("injection ended", "injected", st.Injected, "failed", st.Failed, "merged", st.Merged, "dropped", st.Dropped, "waiting", st.Waiting)
		if err == realtime.ErrEnded { //nolint:errorlint // Run returns it bare
			fmt.Fprintln(env.Err, "the session has ended")
		}
		return err
	}
	return nil
}

// idleSave is the interval at which progress is saved while nothing is delivered.
const idleSave = 5 * time.Second

// progressFile opens the file that records how far a feed was delivered to a target; each
// combination of feed and target has its own file. Without a feed, delivery cannot resume, because
// the event ids of tracked servers are valid for one run only.
func (o *options) progressFile(env *cli.Env, feed string) (*realtime.ProgressFile, error) {
	dir := env.StateDir()
	if feed == "" || dir == "" {
		return &realtime.ProgressFile{}, nil
	}
	// Include only the query members that identify the conversation; others may vary or be secret.
	name := strings.Join([]string{feed, o.endpoint.Address(), o.endpoint.Query.Get("call_id"), o.endpoint.Query.Get("model")}, "\x00")
	sum := sha256.Sum256([]byte(name))
	return realtime.OpenProgress(filepath.Join(dir, "inject", hex.EncodeToString(sum[:12])+".json"))
}

// destination describes the session that messages are sent to.
func (o *options) destination() string {
	switch {
	case o.callID != "":
		return "call " + printable.Line(o.callID, 100)
	case o.sessionID != "":
		return "session " + printable.Line(o.sessionID, 100)
	case o.model != "":
		return "a new session with " + printable.Line(o.model, 100)
	}
	return "a session at " + o.endpoint.Address()
}

// proxy accepts applications and forwards their sessions.
func (o *options) proxy(ctx context.Context, to *sink, env *cli.Env, g *cli.Globals, log *slog.Logger, r *receipts) error {
	d := o.delivery(g)
	d.Injected = r.print
	d.Failed = func(x realtime.Failure) { warnFailed(log, x) }
	p, err := realtime.NewProxy(realtime.ProxyOptions{
		Upstream: o.endpoint, Delivery: d, Logger: log, RefreshTools: o.refreshTools, ServerURL: o.serverURL,
	})
	if err != nil {
		return o.targetFailure(err)
	}
	var reread <-chan struct{} // nil with --from and --stdin: nothing is reloaded
	if o.from == "" && !o.stdin {
		reread = o.Reloads(env, g)
	}
	tokens, err := o.access.Tokens(log, reread)
	if err != nil {
		return err
	}
	server, ln, err := o.access.Listen(ctx, log, tokens, o.listen, nil)
	if err != nil {
		return listenFailure(err)
	}
	server.Handle("/", p)
	server.OnShutdown(p.Shutdown)
	fmt.Fprintf(env.Err, "listening on ws%s\n", strings.TrimPrefix(server.URL(), "http"))
	to.name = "every session that connects"
	to.offer = func(e *event.Event) error { p.Offer(e); return nil }
	to.finish = func() {
		log.Warn("the source of updates has ended; sessions are still forwarded, without updates")
	}
	to.run = func(ctx context.Context) error {
		defer func() { _ = ln.Close() }()
		return server.Serve(ctx, ln)
	}
	return nil
}

// listenFailure replaces --addr by --listen in a listening error.
func listenFailure(err error) error {
	if f, ok := errors.AsType[*cli.Failure](err); ok {
		if rest, found := strings.CutPrefix(f.Err.Error(), "--addr"); found {
			f.Err = errors.New("--listen" + rest)
		}
	}
	return err
}

func warnFailed(log *slog.Logger, x realtime.Failure) {
	log.Warn("an update was not injected", "server", printable.Line(x.ServerID, 128), "uri", printable.Line(x.ResourceURI, 300), "err", x.Reason)
}

// receipt is the document that is printed for each delivered message.
type receipt struct {
	Type        string `json:"type"`
	EventID     string `json:"eventId"`
	ServerID    string `json:"serverId"`
	ResourceURI string `json:"resourceUri"`
	ItemID      string `json:"itemId"`
	LatencyMs   int64  `json:"latencyMs"` // time since the oldest update that the message covers
	Merged      int    `json:"merged"`    // number of older updates that the message also covers
	Timestamp   string `json:"timestamp"`
	Session     string `json:"session,omitempty"` // set with --listen
}

// errEnough ends the command after --count delivered messages.
var errEnough = errors.New("--count reached")

// receipts prints receipts and counts them.
type receipts struct {
	limit  int // value of --count; 0 means no limit
	format document.Format
	tty    bool
	end    context.CancelCauseFunc // ends the command

	mu      sync.Mutex // guards the fields below: a proxy's sessions print concurrently
	out     io.Writer
	counted int
	failed  error
}

// print writes the receipts of one item with a single write. It ends the command when --count is
// reached or the write fails.
func (r *receipts) print(all []realtime.Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full() || r.failed != nil {
		return
	}
	if r.limit > 0 {
		all = all[:min(len(all), r.limit-r.counted)]
	}
	var b bytes.Buffer
	err := error(nil)
	for _, x := range all {
		err = errors.Join(err, r.append(&b, x))
	}
	if err == nil {
		_, err = r.out.Write(b.Bytes())
	}
	if err != nil {
		r.failed = fmt.Errorf("write receipt: %w", err)
		r.end(r.failed)
		return
	}
	for range all {
		r.count()
	}
}

// count counts one delivered message, and ends the command when --count is reached. r.mu must be
// held.
func (r *receipts) count() {
	if r.counted++; r.full() {
		r.end(errEnough)
	}
}

func (r *receipts) full() bool { return r.limit > 0 && r.counted >= r.limit }

// append appends one receipt in the output format.
func (r *receipts) append(b *bytes.Buffer, x realtime.Receipt) error {
	line := receipt{Type: "injected", EventID: x.EventID, ServerID: x.ServerID, ResourceURI: x.ResourceURI, ItemID: x.ItemID,
		LatencyMs: x.Latency.Milliseconds(), Merged: x.Merged, Timestamp: x.At.UTC().Format(event.TimeFormat), Session: x.Session}
	switch {
	case r.tty:
		_, err := fmt.Fprintf(b, "%s  %s  injected  %s  %v\n", x.At.Format("15:04:05.000"), printable.Line(x.ServerID, 64),
			printable.Line(x.ResourceURI, 0), x.Latency.Round(time.Millisecond))
		return err
	case r.format.Name == "name":
		_, err := fmt.Fprintln(b, x.ItemID)
		return err
	case !r.format.Table() && r.format.Name != "json":
		return document.WriteEach(b, r.format, line)
	}
	doc, err := printable.Marshal(line)
	b.Write(append(doc, '\n'))
	return err
}

// outcome returns the command's error. failed is the error from the sink or the source. unreached
// describes what could not be reached, and is empty if nothing.
func (r *receipts) outcome(ctx context.Context, failed error, unreached string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full() {
		return nil
	}
	if r.failed != nil {
		failed = r.failed
	}
	refused, isRefused := errors.AsType[*realtime.RefusedError](failed)
	switch {
	case errors.Is(failed, syscall.EPIPE), errors.Is(failed, realtime.ErrEnded):
		return nil
	case isRefused:
		f := &cli.Failure{Exit: cli.ExitRefused, Code: "refused", Err: failed}
		switch refused.Status {
		case 401, 403, 3000, 3003:
			f.Hint = "check the key: it must belong to the project that owns the call"
		case 404:
			f.Hint = "the call, session or model does not exist, or has ended"
		}
		if refused.Status == 0 || refused.Status >= 4000 {
			f.Hint = "the endpoint refused the session: check --url and --model"
		}
		return f
	case failed != nil:
		return failed
	}
	if !errors.Is(context.Cause(ctx), cli.ErrTimeout) {
		return nil // an interrupt is the normal end
	}
	switch {
	case unreached != "":
		return cli.Unreachable("--log-level info shows why", "--timeout expired and %s could not be reached", unreached)
	case r.limit > 0:
		return cli.TimeoutBefore("--count was reached")
	}
	return nil
}
