package ipc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

const (
	// answerTimeout is how long a daemon may take to load the client's config.
	answerTimeout = 30 * time.Second
	// hungTimeout is how long a daemon may take to answer anything: it asks for variables before it loads the config.
	// One that has just begun to listen may take startTimeout, because it opens its log first.
	hungTimeout = 5 * time.Second
	// startTimeout is how long a started daemon may take to listen.
	startTimeout = 15 * time.Second
	// replaceTimeout is how long a successor may take to replace the daemon.
	replaceTimeout = time.Minute
)

// A Client connects to the daemon of a socket. Its methods may be called concurrently.
type Client struct {
	Socket    string
	LookupEnv func(string) (string, bool) // the client's environment
	Build     Build
	Program   string // path of the mcptrack program, which runs the daemon
}

// Open connects to the daemon and completes the handshake. Open sets Protocol and Build of hello. The
// daemon receives only those environment variables that it asks for. If no daemon listens, the error
// is ErrNoDaemon; if it hangs, a *Hung; if it refuses the client, a *Refused. The connection also has
// the method CloseWrite.
func (c *Client) Open(ctx context.Context, hello Hello) (net.Conn, Answer, error) {
	return c.open(ctx, hello, time.Time{})
}

// open is Open for a daemon that this client started at a time.
func (c *Client) open(ctx context.Context, hello Hello, started time.Time) (net.Conn, Answer, error) {
	for what, text := range map[string]string{"the path of the working directory": hello.Folder, "the path of the config": hello.Config, "PATH": hello.Path} {
		if err := notText(what, text); err != nil {
			return nil, Answer{}, err
		}
	}
	if since := listeningSince(c.Socket); since.After(started) {
		started = since
	}
	return c.openOver(ctx, func(ctx context.Context) (net.Conn, error) { return dial(ctx, c.Socket) }, hello, started)
}

// openOver performs the handshake over a connection to a daemon that listens since a time.
func (c *Client) openOver(ctx context.Context, connect func(context.Context) (net.Conn, error), hello Hello, since time.Time) (net.Conn, Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errors.New("the daemon does not answer; see mcptrack daemon logs"))
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	var pid atomic.Int64 // of the daemon
	hangs := time.AfterFunc(max(hungTimeout, min(startTimeout-time.Since(since), startTimeout)), func() { giveUp(&Hung{PID: int(pid.Load())}) })
	defer hangs.Stop()
	conn, err := connect(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, Answer{}, err
	}
	pid.Store(int64(serverPID(conn)))
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	hello.Protocol, hello.Build = Protocol, c.Build
	l := newLines(conn)
	answer, err := l.clientHandshake(hello, c.LookupEnv, func() { hangs.Stop() })
	if !stop() && err == nil || err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		_, refused := errors.AsType[*Refused](err)
		if _, hung := errors.AsType[*Hung](err); refused || hung {
			return nil, answer, err
		}
		return nil, answer, fmt.Errorf("handshake with the daemon: %w", err)
	}
	return l, answer, nil
}

// Hung is the error of a client if the daemon listens but does not answer.
type Hung struct {
	PID int // of the daemon; 0 if the system does not tell
}

func (h *Hung) Error() string {
	if h.PID == 0 {
		return "the daemon does not answer; end its process"
	}
	return fmt.Sprintf("the daemon (pid %d) does not answer; %[2]s %[1]d ends it", h.PID, KillCommand)
}

// OpenOrStart is like Open, but starts a daemon if none listens. A daemon that ends during the
// handshake is replaced by another one.
func (c *Client) OpenOrStart(ctx context.Context, hello Hello) (net.Conn, Answer, error) {
	retry := backoff.New(20*time.Millisecond, time.Second)
	var started time.Time
	for {
		conn, answer, err := c.open(ctx, hello, started)
		switch {
		case errors.Is(err, ErrNoDaemon):
			if err := c.Start(ctx); err != nil {
				return nil, Answer{}, err
			}
			started = time.Now()
		case err == nil || !lost(err) || ctx.Err() != nil:
			return conn, answer, err
		}
		if retry.Failures() == maxAttempts {
			return nil, Answer{}, fmt.Errorf("daemons end before they answer; see mcptrack daemon logs: %w", err)
		}
		if wait := retry.Next(); retry.Failures() > 1 && !backoff.Sleep(ctx, wait) {
			return nil, Answer{}, context.Cause(ctx)
		}
	}
}

// maxAttempts is the number of daemons that may end before they answer one client.
const maxAttempts = 5

// Start starts a daemon and returns when it listens. If other clients start one, Start waits for that
// daemon.
func (c *Client) Start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("the daemon did not start in time; see mcptrack daemon logs"))
	defer cancel()
	starting, err := HoldStarts(ctx, c.Socket)
	if err != nil {
		return err
	}
	defer starting.Release()
	if c.Listens(ctx) {
		return nil
	}
	return c.run(ctx, func(int) bool { return c.Listens(ctx) }, "--started")
}

// Listens reports whether a daemon accepts connections.
func (c *Client) Listens(ctx context.Context) bool {
	conn, err := dial(ctx, c.Socket)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

// Replace starts a daemon that replaces an older one, and returns when it has. It returns nil if
// another client does the same.
func (c *Client) Replace(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, replaceTimeout, errors.New("the older daemon was not replaced in time; see mcptrack daemon logs"))
	defer cancel()
	replacing, err := acquire(ctx, lockFile(c.Socket, "replace"), false)
	if errors.Is(err, ErrRunning) {
		return nil
	}
	if err != nil {
		return err
	}
	defer replacing.Release()
	if c.current(ctx) {
		return nil
	}
	return c.run(ctx, func(int) bool { return c.current(ctx) }, "--replace")
}

// current reports whether the daemon that listens is not older than the client.
func (c *Client) current(ctx context.Context) bool {
	answer, err := c.Running(ctx)
	return err == nil && !c.Build.Newer(answer.Build)
}

// Running asks the daemon only who it is.
func (c *Client) Running(ctx context.Context) (Answer, error) {
	conn, answer, err := c.Open(ctx, Hello{Purpose: Status})
	if err == nil {
		_ = conn.Close()
	}
	return answer, err
}

// Detach starts the daemon with flags, and returns when it serves clients. The caller then ends, so
// that the daemon is no descendant of the client that needed it: hosts end a client with all its
// descendants.
func (c *Client) Detach(ctx context.Context, flags ...string) error {
	return c.run(ctx, func(pid int) bool {
		answer, err := c.Running(ctx)
		return err == nil && answer.PID == pid
	}, flags...)
}

// run starts the daemon with flags, and returns when served is true for its process id. The daemon does not end with
// this process; the goroutine that waits for its end ends with it. If it ends before, the error says why.
func (c *Client) run(ctx context.Context, served func(pid int) bool, flags ...string) error {
	if c.Program == "" {
		return errors.New("cannot start the daemon: the program mcptrack was not found; install it beside this program or in PATH")
	}
	cmd := exec.Command(c.Program, append([]string{"daemon"}, flags...)...) // its streams are the null device
	cmd.Dir = rootFolder(c.LookupEnv)
	cmd.Env = c.environment()
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the daemon: %w", err)
	}
	ended := make(chan error, 1) // receives its end once; never closed
	go func() { ended <- cmd.Wait() }()
	pause := backoff.New(2*time.Millisecond, 50*time.Millisecond)
	for {
		select {
		case err := <-ended:
			if served(cmd.Process.Pid) {
				return nil
			}
			return fmt.Errorf("the daemon ended before it served a client (%v); see mcptrack daemon logs", cmp.Or(err, errors.New("exit status 0")))
		case <-time.After(pause.Next()):
			if served(cmd.Process.Pid) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// environment returns the environment of a daemon: what programs need to find the user's folders,
// keyring and proxies. Secrets of the client are not among it.
func (c *Client) environment() []string {
	env := []string{SocketKey + "=" + c.Socket}
	for _, name := range kept() {
		value, ok := c.LookupEnv(name)
		if !ok {
			continue
		}
		if strings.HasSuffix(strings.ToLower(name), "_proxy") {
			value = withoutUser(value)
		}
		env = append(env, name+"="+value)
	}
	return env
}

func kept() []string {
	names := []string{
		"HOME", "USER", "LOGNAME", "SHELL", "PATH", "TZ", "TMPDIR",
		"LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME",
		"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_DATA_HOME", "XDG_DATA_DIRS", "XDG_STATE_HOME", "XDG_CACHE_HOME",
		"DBUS_SESSION_BUS_ADDRESS", // the user's keyring
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	}
	return append(names, keptBySystem()...)
}

// withoutUser removes the user and password from the URL of a proxy.
func withoutUser(url string) string {
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		scheme, rest = "", url
	} else {
		scheme += "://"
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	return scheme + rest[strings.LastIndexByte(rest[:end], '@')+1:]
}
