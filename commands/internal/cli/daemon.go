package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/remote"
)

// daemonGone is how long a daemon whose API is in use may not answer. A restart takes less time.
const daemonGone = 5 * time.Second

// DaemonUse says how a command uses a running daemon.
type DaemonUse struct {
	// Own is why the command must not use the daemon, such as a flag for its own servers; empty if
	// it may.
	Own string
	// Verbose prints to stderr whether the daemon is used.
	Verbose bool
	// Quiet keeps log records from the terminal, for a command with a full screen.
	Quiet bool
}

// AddVerbose adds -v to a command that has no other use for it.
func (u *DaemonUse) AddVerbose(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&u.Verbose, "verbose", "v", false, "print on stderr whether a daemon is used")
}

// say prints whether the daemon is used.
func (u DaemonUse) say(env *Env, log *slog.Logger, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if u.Quiet {
		return
	}
	if log.Info(text); u.Verbose {
		fmt.Fprintln(env.Err, text)
	}
}

// Own returns a reason for [DaemonUse] if the flags concern the command's own connections to servers,
// and "" otherwise.
func (c *ConnectFlags) Own() string {
	if c.connectTimeout != defaultConnectTimeout {
		return "--connect-timeout is set"
	}
	return ""
}

// ownServers returns why no command uses the daemon, or "" if commands may.
func (g *Globals) ownServers(env *Env) string {
	switch {
	case g.noDaemon:
		return "--no-daemon is set"
	case g.demo:
		return "--demo is set"
	case len(g.limit) > 0:
		return "--limit is set"
	case g.trust, g.insecure:
		return "--trust and --insecure-config concern only this command"
	}
	return ""
}

// reach connects to the user's daemon, if the command may use it and it follows the command's config.
// It returns a nil connection otherwise.
func (g *Globals) reach(ctx context.Context, env *Env, log *slog.Logger, use DaemonUse, hello ipc.Hello) (net.Conn, ipc.Answer) {
	if own := cmp.Or(g.ownServers(env), use.Own); own != "" {
		use.say(env, log, "not using a daemon: %s", own)
		return nil, ipc.Answer{}
	}
	conn, answer, err := g.open(ctx, env, hello)
	switch {
	case err != nil && ctx.Err() != nil:
	case errors.Is(err, ipc.ErrNoDaemon):
		use.say(env, log, "not using a daemon: none is running")
	case isHung(err):
		log.Warn("this command connects to the servers itself: " + err.Error())
	case err != nil:
		use.say(env, log, "not using the daemon: %s", printable.Reason(err, 300))
	default:
		use.say(env, log, "using the daemon (pid %d)", answer.PID)
		return conn, answer
	}
	return nil, ipc.Answer{}
}

// DaemonClient returns a client of the user's daemon.
func (e *Env) DaemonClient() (ipc.Client, error) {
	socket, err := ipc.Socket(e.LookupEnv)
	return ipc.Client{Socket: socket, LookupEnv: e.LookupEnv, Build: ipc.ThisBuild(e.Version), Program: e.Executable}, err
}

// DaemonDir returns the default directory for the daemon's data; daemons with sockets of their own have
// directories of their own. It returns "" if the user has no home directory.
func (e *Env) DaemonDir() string {
	name := "daemon"
	own, err := ipc.Socket(e.LookupEnv)
	usual, usualErr := ipc.Socket(func(name string) (string, bool) {
		if name == ipc.SocketKey {
			return "", false
		}
		return e.LookupEnv(name)
	})
	if err == nil && (usualErr != nil || own != usual) {
		sum := sha256.Sum256([]byte(own))
		name += "-" + hex.EncodeToString(sum[:4])
	}
	return e.StateDir(name)
}

func isHung(err error) bool {
	_, hung := errors.AsType[*ipc.Hung](err)
	return hung
}

// open performs the handshake with the user's daemon, which must follow the command's config.
func (g *Globals) open(ctx context.Context, env *Env, hello ipc.Hello) (net.Conn, ipc.Answer, error) {
	folder, err := os.Getwd()
	if err != nil {
		return nil, ipc.Answer{}, err
	}
	of := g.followed(ctx, env)
	hello.Folder, hello.Host, hello.Path, hello.Join = folder, of.Host, env.Getenv("PATH"), true
	if of.Config != "" {
		if hello.Config, err = filepath.Abs(of.Config); err != nil {
			return nil, ipc.Answer{}, err
		}
	}
	client, err := env.DaemonClient()
	if err != nil {
		return nil, ipc.Answer{}, err
	}
	return client.Open(ctx, hello)
}

// DialDaemon opens a session with a server over the daemon, which has connected to the server in an
// era. The session has the same era, so that results are as the server sends them. DialDaemon returns
// nil if the command must connect to the server itself.
func (g *Globals) DialDaemon(ctx context.Context, env *Env, log *slog.Logger, srv config.Server, era session.Era, opts session.Options) (*session.Session, error) {
	use := DaemonUse{Quiet: true}
	conn, _ := g.reach(ctx, env, log, use, ipc.Hello{Purpose: ipc.Attach, Server: srv.ID})
	if conn == nil {
		return nil, nil
	}
	limit := cmp.Or(srv.ConnectTimeout, defaultConnectTimeout)
	dialling, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the daemon did not answer within %s", limit))
	defer cancel()
	if srv.Protocol = config.ProtocolModern; era == session.EraLegacy {
		srv.Protocol = config.ProtocolLegacy
	}
	s, err := session.OverIO(dialling, conn, conn, srv, opts)
	if err != nil && ctx.Err() == nil { // nothing was sent to the server
		log.Info("not using the daemon", "err", err)
		return nil, nil
	}
	return s, err
}

// A Daemon is the HTTP API of the running daemon, which is that of a serve-sse with the servers of
// the command's config. The caller must call Close.
type Daemon struct {
	PID  int
	http *http.Client
	end  context.CancelCauseFunc // of the context that OpenDaemon returned

	dial  func(ctx context.Context) (net.Conn, error)
	mu    sync.Mutex // guards the fields below
	first net.Conn   // from the first handshake; nil once it is in use
	lost  time.Time  // when the daemon first did not answer; zero while it does
}

// ErrDaemonGone is the cause with which the context of a [Daemon] ends if the daemon has ended and no
// other has taken its place.
var ErrDaemonGone = errors.New("the daemon has ended")

// OpenDaemon connects to the API of the user's daemon. It returns a nil Daemon if the command must do
// without. The context that it returns ends with ErrDaemonGone soon after the daemon has ended, if a
// reader of a feed tries to reconnect.
func (g *Globals) OpenDaemon(ctx context.Context, env *Env, log *slog.Logger, use DaemonUse) (context.Context, *Daemon) {
	hello := ipc.Hello{Purpose: ipc.HTTP}
	conn, answer := g.reach(ctx, env, log, use, hello)
	if conn == nil {
		return ctx, nil
	}
	ctx, end := context.WithCancelCause(ctx)
	d := &Daemon{PID: answer.PID, first: conn, end: end}
	d.dial = func(ctx context.Context) (net.Conn, error) {
		conn, _, err := g.open(ctx, env, hello)
		return conn, err
	}
	d.http = &http.Client{
		Transport:     &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.connect(ctx) }, MaxIdleConns: 4},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return ctx, d
}

// connect returns the connection of the first handshake, or another one.
func (d *Daemon) connect(ctx context.Context) (net.Conn, error) {
	d.mu.Lock()
	conn := d.first
	d.first = nil
	d.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	conn, err := d.dial(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.lost = time.Time{}
	case d.lost.IsZero() && !isHung(err):
		d.lost = time.Now()
	case time.Since(d.lost) > daemonGone, isHung(err):
		d.end(ErrDaemonGone)
	}
	return conn, err
}

// Client returns a client for the API.
func (d *Daemon) Client() remote.Client {
	return remote.Client{Base: &url.URL{Scheme: "http", Host: "daemon"}, HTTP: d.http}
}

// Close closes the connections. Requests must have ended.
func (d *Daemon) Close() {
	d.http.CloseIdleConnections()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first != nil {
		_ = d.first.Close()
		d.first = nil
	}
	d.end(nil)
}
