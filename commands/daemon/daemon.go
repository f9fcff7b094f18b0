// Package daemon implements the daemon command, which runs one set of servers for all clients of a
// user, and its subcommands status, stop and logs. The daemon itself is core/daemon.
//
// Library: natefinch/lumberjack.v2 limits the size of the log file (small, stable, MIT).
package daemon

import (
	"bufio"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gopkg.in/natefinch/lumberjack.v2"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/daemon/relay"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/gateway"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/machine"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/metrics"
	"github.com/mcptrack/mcptrack/output/serverlog"
	"github.com/mcptrack/mcptrack/output/table"
	"github.com/mcptrack/mcptrack/output/web"
)

// Manual contains the help page of this package, as Markdown.
//
//go:embed *.md
var Manual embed.FS

type options struct {
	cli.ConnectFlags
	cli.JournalFlags
	cli.RetentionFlags
	http     httpFlags
	idle     time.Duration
	started  bool // by a client
	replace  bool // the running daemon
	detached bool // no descendant of the client
}

// Command returns the daemon command.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:         "daemon",
		Short:       "Run one set of servers for all sessions of your user",
		Annotations: cli.ManualPage("daemon"),
		Example: `  mcptrack daemon
  mcptrack daemon status
  mcptrack daemon logs --tail 20
  mcptrack daemon stop
  mcptrack daemon --http 8725`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.ConnectFlags.Parse(); err != nil {
				return err
			}
			if err := opts.RetentionFlags.Parse(); err != nil {
				return err
			}
			if opts.idle < 0 {
				return cli.Usage("--idle must not be negative")
			}
			if err := opts.http.check(); err != nil {
				return err
			}
			if opts.http.addr != "" && !cmd.Flags().Changed("idle") {
				opts.idle = 0 // an HTTP client cannot start a daemon
			}
			return run(cmd.Context(), env, g, opts)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&opts.idle, "idle", 10*time.Minute, "`DURATION` without clients after which the daemon ends; 0 means never")
	f.StringVar(&opts.Dir, "data-dir", "", "`DIR` of stored events")
	_ = cmd.MarkFlagDirname("data-dir")
	opts.RetentionFlags.Add(cmd)
	opts.AddServing(cmd)
	f.StringVar(&opts.http.addr, "http", "", "also serve MCP over HTTP on this `ADDRESS` or port")
	opts.http.access.Add(cmd, "clients", "send requests")
	f.BoolVar(&opts.started, "started", false, "a client started this process: log to the file that daemon logs shows")
	f.BoolVar(&opts.replace, "replace", false, "take over from the running daemon")
	f.BoolVar(&opts.detached, "detached", false, "this process is no descendant of the client")
	cli.MainFlags(cmd, "idle", "http", "data-dir")
	for _, internal := range []string{"started", "replace", "detached"} {
		_ = f.MarkHidden(internal)
	}
	cmd.AddCommand(newStatus(env, g), PSCommand(env, g), newLogs(env, g), newStop(env, g))
	return cmd
}

// dataDir returns the directory for the daemon's data.
func (o *options) dataDir(env *cli.Env) (string, error) {
	dir := cmp.Or(o.Dir, env.DaemonDir())
	if dir == "" {
		return "", cli.Usage("no home directory to store events in; set --data-dir")
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// logFile returns the path of the log of a daemon that a client started.
func logFile(env *cli.Env) string { return filepath.Join(env.DaemonDir(), "daemon.log") }

// keptContent is the total size of the texts that the daemon keeps for history.
const keptContent = 256 << 20

// window is the period within which updates of one resource are merged. It is short because clients
// wait for updates.
const window = 200 * time.Millisecond

func run(ctx context.Context, env *cli.Env, g *cli.Globals, opts options) (err error) {
	client, err := env.DaemonClient()
	if err != nil {
		return err
	}
	if (opts.started || opts.replace) && !opts.detached && runtime.GOOS != "windows" {
		flags := []string{"--detached", "--started"}
		if opts.replace {
			flags = append(flags, "--replace")
		}
		ctx, cancel := context.WithTimeout(ctx, handoverTime)
		defer cancel()
		return client.Detach(ctx, flags...)
	}
	shown, closeLog, err := opts.logger(env, g)
	if err != nil {
		return err
	}
	defer closeLog()
	defer func() {
		if err != nil && opts.started && ctx.Err() == nil { // nobody sees stderr
			shown.Error("the daemon failed", "err", printable.Reason(err, 1000))
		}
	}()
	kept := serverlog.New()
	log := slog.New(slog.NewMultiHandler(shown.Handler(), kept))
	dir, err := opts.dataDir(env)
	if err != nil {
		return err
	}
	opts.Dir = dir
	key, err := secretfile.Key(filepath.Join(dir, "daemon.key"))
	if err != nil {
		return err
	}
	oneEach, err := daemon.ReadOneEach(filepath.Join(dir, daemon.OneEachFile))
	if err != nil {
		log.Warn("cannot read which servers need a process for each client", "err", err)
	}
	var d *daemon.Daemon
	defer func() {
		if d != nil {
			d.Release() // last
		}
	}()
	lock, ln, err := opts.takeSocket(ctx, env, client)
	if err != nil {
		return err
	}
	defer lock.Release()
	defer func() { _ = ln.Close() }()
	keep := opts.Keep
	keep.Content = keptContent
	stored, err := opts.JournalFlags.Open(ctx, env, log, keep)
	if err != nil {
		return err
	}
	defer func() {
		if err := stored.Close(); err != nil {
			log.Warn("cannot store the last events", "err", err)
		}
	}()
	tokens, err := opts.http.tokens(env, g, log)
	if err != nil {
		return err
	}
	sessions := opts.SessionOptions(env, g)
	sessions.Environ = func(string) (string, bool) { return "", false } // a server inherits the variables of its clients
	sessions.Limits.MaxLine = cmp.Or(sessions.Limits.MaxLine, relay.MaxRequest)
	sessions.Limits.MaxBody = cmp.Or(sessions.Limits.MaxBody, relay.MaxRequest)
	callers := gateway.NewCallers()
	record, counts := cli.Calls(stored), metrics.New(metrics.Options{Version: env.Version, Journal: stored.Stats})
	var e *engine.Engine
	received := hook.NewReceiver(hook.Options{Deliver: func(d hook.Delivery) { e.Receive(d) }, Logger: log})
	e, err = engine.New(ctx, engine.Desired{}, stored, engine.Options{Logger: log, Applied: func(cfg *config.Config) { received.Apply(cfg.Hooks) }, Tracker: tracker.Options{
		Dial: env.Dial, Session: sessions, Logger: log, AllLists: true, OnDemand: true, Window: window, Texts: true, ClientSide: callers.ClientSide, Card: servercard.Fetch}})
	if err != nil {
		return err
	}
	d = daemon.New(daemon.Options{
		Engine: e, Build: client.Build, Socket: client.Socket, Key: key, Idle: opts.idle, Logger: log, OneEach: oneEach,
		Open: func(ctx context.Context, c daemon.Client) (daemon.Source, error) { return open(ctx, env, g, log, c) },
		Gateway: gatewayOptions(env, sessions, callers, key, tokens, log, func(c calls.Call) {
			record.Add(c)
			counts.Called(c)
		}), Inherited: session.Inherited(), Reads: cli.Reads(), LookupEnv: lookupEnv(env),
		HTTP: serveEvents(e, record, env.Version, kept.Lines, log),
		Memory: func(pids []int) map[int]int64 {
			used, err := machine.Memory(context.WithoutCancel(ctx), pids)
			if err != nil {
				log.Debug("cannot read the memory of the servers", "err", err)
			}
			return used
		},
	})
	run := func(ctx context.Context) error { return d.Run(ctx, ln) }
	if opts.http.addr != "" {
		serve, err := opts.http.listen(ctx, env, log, tokens, d, received, counts)
		if err != nil {
			return err
		}
		ready := make(chan struct{}) // closed now: HTTP clients are served as soon as the daemon runs
		close(ready)
		overSocket := run
		run = func(ctx context.Context) error { return cli.WhileRunning(ctx, overSocket, ready, serve) }
	}
	defer cli.Ballast()()
	log.Info("the daemon is ready", "socket", client.Socket, "pid", os.Getpid(), "version", env.Version)
	if !opts.started {
		fmt.Fprintf(env.Err, "listening on %s\n", printable.Line(client.Socket, 200))
	}
	err = run(ctx)
	log.Info("the daemon has ended", "reason", err)
	if errors.Is(err, daemon.ErrIdle) || errors.Is(err, daemon.ErrStopped) || errors.Is(err, daemon.ErrHandover) || ctx.Err() != nil {
		return nil
	}
	return err
}

// logger returns the daemon's logger. A daemon that a client started logs to a file of limited size.
func (o *options) logger(env *cli.Env, g *cli.Globals) (*slog.Logger, func(), error) {
	if !o.started {
		return g.Logger(env), func() {}, nil
	}
	file := logFile(env)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, nil, err
	}
	crashes, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	err = debug.SetCrashOutput(crashes, debug.CrashOptions{}) // otherwise it would be lost with stderr
	_ = crashes.Close()                                       // it was duplicated
	if err != nil {
		return nil, nil, err
	}
	w := &lumberjack.Logger{Filename: file, MaxSize: 4, MaxBackups: 1} // MiB
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo})), func() { _ = w.Close() }, nil
}

// handoverTime limits how long the running daemon may take to answer what is in flight and to close
// its log.
const handoverTime = 30 * time.Second

// takeSocket takes the lock and the socket of the user's daemon. With --replace it first asks the
// running daemon to hand over.
func (o *options) takeSocket(ctx context.Context, env *cli.Env, client ipc.Client) (*ipc.Lock, net.Listener, error) {
	if o.replace {
		waiting, cancel := context.WithTimeout(ctx, handoverTime)
		starts, err := ipc.HoldStarts(waiting, client.Socket)
		cancel()
		if err != nil {
			return nil, nil, err
		}
		defer starts.Release() // this daemon listens, or the other one still does
	}
	lock, err := o.acquire(ctx, client)
	switch {
	case errors.Is(err, ipc.ErrRunning) && o.replace:
		if lock, err = o.handover(ctx, env, client); err != nil {
			return nil, nil, err
		}
	case errors.Is(err, ipc.ErrRunning):
		return nil, nil, errRunning()
	case err != nil:
		return nil, nil, err
	}
	ln, err := ipc.Listen(client.Socket)
	if err != nil {
		lock.Release()
		return nil, nil, err
	}
	return lock, ln, nil
}

func errRunning() error {
	return &cli.Failure{Exit: cli.ExitFailed, Code: "running", Err: errors.New("a daemon is already running"), Hint: "mcptrack daemon status shows it; mcptrack daemon stop ends it"}
}

// startTime limits how long a daemon that a client started waits for one that is ending.
const startTime = 10 * time.Second

// acquire takes the lock. A daemon that a client started waits while another one holds the lock but
// does not listen. It does not wait for a daemon that listens: when that one stops, no other must
// take its place.
func (o *options) acquire(ctx context.Context, client ipc.Client) (*ipc.Lock, error) {
	if !o.started || o.replace {
		return ipc.Acquire(ctx, client.Socket, false)
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	var lock *ipc.Lock
	err := error(ipc.ErrRunning)
	backoff.Poll(ctx, 10*time.Millisecond, func() bool {
		lock, err = ipc.Acquire(ctx, client.Socket, false)
		return !errors.Is(err, ipc.ErrRunning) || client.Listens(ctx)
	})
	return lock, err
}

// handover asks the running daemon to hand over, and waits until it has closed its log. Before, this
// process proves that it can read the stored events.
func (o *options) handover(ctx context.Context, env *cli.Env, client ipc.Client) (*ipc.Lock, error) {
	if err := o.readLog(ctx, env); err != nil {
		return nil, fmt.Errorf("the running daemon is kept, because this version cannot serve: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, handoverTime, errors.New("the running daemon did not hand over in time"))
	defer cancel()
	conn, _, err := client.Open(ctx, ipc.Hello{Purpose: ipc.Handover})
	switch {
	case err == nil:
		_ = conn.Close()
	case !errors.Is(err, ipc.ErrNoDaemon):
		return nil, err
	}
	return ipc.Acquire(ctx, client.Socket, true)
}

// readLog opens the log for reading, if there is one.
func (o *options) readLog(ctx context.Context, env *cli.Env) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	log, err := o.JournalFlags.Existing(ctx, env, slog.New(slog.DiscardHandler))
	if err != nil || log == nil {
		return err
	}
	_, err = log.Bounds(ctx)
	return cmp.Or(err, log.Close())
}

func gatewayOptions(env *cli.Env, sessions session.Options, callers *gateway.Callers, key []byte, tokens *web.Tokens, log *slog.Logger, called func(calls.Call)) gateway.Options {
	return gateway.Options{Dial: env.Dial, Session: sessions, Callers: callers, Key: key, Logger: log, Launch: env.Launch, Called: called,
		Serve: mcpserver.Options{Name: "mcptrack", Title: "mcptrack", Version: env.Version, MaxMessage: relay.MaxRequest, Principal: tokens.Principal, Tracer: sessions.Tracer, Logger: log}}
}

// open reads the config of a client as a command in the client's folder would.
func open(ctx context.Context, env *cli.Env, g *cli.Globals, log *slog.Logger, c daemon.Client) (daemon.Source, error) {
	theirs := &cli.Env{In: nil, Out: io.Discard, Err: io.Discard, LookupEnv: c.LookupEnv, Executable: env.Executable, Dial: env.Dial, Version: env.Version}
	of := g.ForClient(c.Config, c.Host, c.Folder, c.Approved)
	if err := of.CheckHost(); err != nil {
		return daemon.Source{}, refusal(ctx, err)
	}
	cfg, err := of.Load(ctx, theirs, slog.New(slog.DiscardHandler)) // the client does not see problems that are no errors
	if err != nil {
		return daemon.Source{}, refusal(ctx, err)
	}
	if c.Server != "" {
		if _, err := cli.SelectAttached(cfg, c.Server); err != nil {
			return daemon.Source{}, refusal(ctx, err)
		}
	}
	// An entry that runs mcptrack attach would be a client of this daemon: in a loop, or twice.
	pick := func(cfg *config.Config) *config.Config {
		return cfg.Only(func(srv config.Server) bool {
			return srv.Enabled && !srv.Attaches() && (c.Server == "" || srv.ID == c.Server)
		})
	}
	track := cli.TrackFlags{AllServers: true}
	desired, err := track.Desired(theirs, of, log, cfg, pick)
	if err != nil {
		return daemon.Source{}, refusal(ctx, err)
	}
	return daemon.Source{Config: desired.Config, Select: desired.Select, Follow: desired.Follow}, nil
}

// refusal converts an error of a command to the answer for a client.
func refusal(ctx context.Context, err error) error {
	f := cli.Classify(ctx, err)
	var message strings.Builder
	message.WriteString(printable.Reason(f.Err, 2000))
	for i, place := range f.Places {
		if i == 0 {
			message.WriteString(":")
		}
		message.WriteString("\n  " + printable.Line(place, 400))
	}
	return &ipc.Refused{Code: f.Code, Message: message.String(), Hint: printable.Line(f.Hint, 1000), Exit: f.Exit}
}

// ask connects to the running daemon.
func ask(ctx context.Context, env *cli.Env, purpose ipc.Purpose) (net.Conn, ipc.Answer, error) {
	client, err := env.DaemonClient()
	if err != nil {
		return nil, ipc.Answer{}, err
	}
	conn, answer, err := client.Open(ctx, ipc.Hello{Purpose: purpose})
	if errors.Is(err, ipc.ErrNoDaemon) {
		return nil, answer, &cli.Failure{Exit: cli.ExitFailed, Code: "not_running", Err: errors.New("no daemon is running"),
			Hint: "mcptrack attach starts one when it is needed; mcptrack daemon runs it in the foreground"}
	}
	if h, ok := errors.AsType[*ipc.Hung](err); ok {
		return nil, answer, hung(h)
	}
	return conn, answer, err
}

func hung(err *ipc.Hung) error { return &cli.Failure{Exit: cli.ExitFailed, Code: "hung", Err: err} }

// statusTime limits how long the daemon may take to send its status. It reads the memory of all
// processes first.
const statusTime = 20 * time.Second

func newStatus(env *cli.Env, g *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the daemon, its clients and its servers",
		Long: `Shows the running daemon: its process id, its clients, and each server with its
state, processes, clients and memory. A server that no client needs is asleep.`,
		Example: `  mcptrack daemon status
  mcptrack daemon status --json | jq '.servers[] | {id, memoryBytes}'`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := Status(cmd.Context(), env)
			if err != nil {
				return err
			}
			return g.Print(env, statusOutput(env, st))
		},
	}
}

// Status asks the running daemon for its status. It starts none.
func Status(ctx context.Context, env *cli.Env) (st daemon.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	conn, answer, err := ask(ctx, env, ipc.Status)
	if err != nil {
		return st, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := json.NewDecoder(io.LimitReader(conn, 64<<20)).Decode(&st); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return st, hung(&ipc.Hung{PID: answer.PID})
		}
		return st, fmt.Errorf("the daemon sent no status: %w", err)
	}
	return st, nil
}

// statusOutput returns what daemon status prints.
func statusOutput(env *cli.Env, st daemon.Status) table.Output {
	parts := []table.Part{table.Text("daemon %d, version %s, since %s, %s", st.PID, printable.Line(st.Version, 60), env.TimeOf(st.Since), cli.Plural(st.Clients, "client"))}
	of := func(s daemon.ServerStatus) status.Summary {
		return status.Summary{ID: s.ID, State: s.State, Reason: s.Reason}
	}
	servers := cli.ServerTable(st.Servers, of, func(s daemon.ServerStatus) []string {
		pid, memory := "", ""
		pids := s.Own
		if s.PID > 0 {
			pids = append([]int{s.PID}, s.Own...)
		}
		if len(pids) > 0 {
			pid, memory = strconv.Itoa(pids[0]), printable.Size(s.Memory)
		}
		if len(pids) > 1 {
			pid += fmt.Sprintf(" and %d more", len(pids)-1)
		}
		return []string{strconv.Itoa(s.Clients), pid, memory, s.Folder, string(s.Shared), s.Config}
	}, "Clients", "PID", "Memory", "Folder", "Shared", "Config").Wide("Shared", "Config")
	parts = append(parts, servers.Or("no servers"))
	for _, s := range st.Servers {
		if s.OneEach {
			parts = append(parts, table.Text("each new session has its own process of %s: it asked while several sessions called it, or declares so", printable.Line(s.ID, 100)))
		}
	}
	return table.Output{Document: st, Parts: parts}
}

func newStop(env *cli.Env, _ *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the daemon and its servers",
		Long: `Stops the running daemon: it answers the requests in flight, for at most 3 seconds,
stops its servers and ends. Clients that are still connected start another daemon.`,
		Example: `  mcptrack daemon stop
  mcptrack daemon stop && mcptrack daemon`,
		Args: cli.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), handoverTime)
			defer cancel()
			conn, answer, err := ask(ctx, env, ipc.Stop)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			_, _ = io.Copy(io.Discard, conn) // the daemon closes the connection when it has ended
			if ctx.Err() != nil {
				return &cli.Failure{Exit: cli.ExitFailed, Code: "running", Err: fmt.Errorf("the daemon (pid %d) has not ended yet", answer.PID),
					Hint: fmt.Sprintf("%s %d ends it", ipc.KillCommand, answer.PID)}
			}
			fmt.Fprintf(env.Err, "the daemon (pid %d) was stopped\n", answer.PID)
			return nil
		},
	}
}

func newLogs(env *cli.Env, _ *cli.Globals) *cobra.Command {
	var n int
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Print the log of the daemon",
		Long: `Prints the log of the daemon that a client started. A daemon that you started
yourself, or that systemd runs, logs to its stderr.`,
		Example: `  mcptrack daemon logs --tail 20
  mcptrack daemon logs | grep github`,
		Args: cli.Args(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if n < 0 {
				return cli.Usage("--tail must not be negative")
			}
			file, err := os.Open(logFile(env))
			if errors.Is(err, fs.ErrNotExist) {
				return &cli.Failure{Exit: cli.ExitFailed, Code: "nothing_stored", Err: errors.New("no client has started a daemon yet")}
			}
			if err != nil {
				return err
			}
			defer func() { _ = file.Close() }()
			return printLog(env.Out, file, n)
		},
	}
	cmd.Flags().IntVar(&n, "tail", 0, "print only the last `N` lines")
	return cmd
}

// printLog prints the last n lines of a log, or all if n is 0.
func printLog(w io.Writer, log io.Reader, n int) error {
	var last []string
	scanner := bufio.NewScanner(log)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		last = append(last, printable.Line(scanner.Text(), 0))
		if n > 0 && len(last) > n {
			last = last[1:]
		}
	}
	for _, line := range last {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return scanner.Err()
}
