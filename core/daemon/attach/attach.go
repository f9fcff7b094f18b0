// Package attach serves one MCP client on stdio through the user's daemon. The program mcptrack-attach
// and the command mcptrack attach are two ways to run it.
//
// Every session of a host has a process that runs this package, so it imports nothing large:
// especially not net/http, core/config or log/slog.
package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/daemon/relay"
)

// Options are what a client is attached to, and how.
type Options struct {
	In        io.Reader // messages of the client
	Out       io.Writer // messages for the client
	LookupEnv func(string) (string, bool)
	Build     ipc.Build
	// Program is the path of mcptrack, which runs the daemon; see Program.
	Program string

	Server string // the only server, whose names stay unchanged; "" means all of the config
	Config string // the config; "" means that the daemon looks for one in the working directory
	Host   string // the host whose config is used
	// Approved means that the config needs the user's approval although it is named.
	Approved bool

	// Tell is called with messages for the user.
	Tell func(string)
}

// NoDaemon is the error of Run if there is no daemon that this program can use. Nothing was read from
// In, so another program can serve the client.
type NoDaemon struct{ Err error }

func (e *NoDaemon) Error() string { return "the mcptrack daemon cannot be used: " + e.Err.Error() }

func (e *NoDaemon) Unwrap() error { return e.Err }

// Run serves the client until it closes In and everything is answered, or until ctx ends. If the
// daemon refuses the client, such as for an invalid config, the error is a *ipc.Refused, and the client's
// first request has been answered with it.
func Run(ctx context.Context, opts Options) error {
	hello, err := opts.hello()
	if err != nil {
		return err
	}
	socket, err := ipc.Socket(opts.LookupEnv)
	if err != nil {
		return &NoDaemon{err}
	}
	a := &attachment{opts: opts, hello: hello,
		client: ipc.Client{Socket: socket, LookupEnv: opts.LookupEnv, Build: opts.Build, Program: opts.Program}}
	ctx, cancel := context.WithCancel(ctx)
	defer a.replacing.Wait()
	defer cancel()
	err = relay.Run(ctx, relay.Options{In: opts.In, Out: opts.Out, Connect: a.connect, Lost: a.lost})
	_, none := errors.AsType[*NoDaemon](err)
	if refused, ok := errors.AsType[*ipc.Refused](err); ok && !none && !a.connected {
		relay.Refuse(ctx, opts.In, opts.Out, refused.Message, refused.Hint)
	}
	return err
}

// attachment is the state of Run. The relay calls connect and lost one after the other.
type attachment struct {
	opts      Options
	hello     ipc.Hello
	client    ipc.Client
	connected bool           // a daemon has accepted the client before
	replaced  bool           // a newer daemon was started
	replacing sync.WaitGroup // the start of a newer daemon
	told      string         // the last message
}

// hello returns the client's first message, without what the connection adds.
func (o *Options) hello() (ipc.Hello, error) {
	folder, err := os.Getwd()
	if err != nil {
		return ipc.Hello{}, fmt.Errorf("cannot determine the working directory: %w", err)
	}
	config := o.Config
	if config != "" {
		if config, err = filepath.Abs(config); err != nil {
			return ipc.Hello{}, fmt.Errorf("cannot determine the path of the config: %w", err)
		}
	}
	path, _ := o.LookupEnv("PATH")
	return ipc.Hello{Purpose: ipc.Attach, Client: strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36),
		Folder: folder, Config: config, Host: o.Host, Server: o.Server, Approved: o.Approved, Path: path}, nil
}

func (a *attachment) connect(ctx context.Context, seen map[string]string) (io.ReadWriteCloser, error) {
	hello := a.hello
	hello.Resumes, hello.Seen = a.connected, seen
	conn, answer, err := a.client.OpenOrStart(ctx, hello)
	if err != nil {
		refused, ok := errors.AsType[*ipc.Refused](err)
		if a.connected || ctx.Err() != nil || ok && refused.Code != ipc.CodeProtocol {
			return nil, err
		}
		return nil, &NoDaemon{err}
	}
	a.connected, a.told = true, ""
	if !a.replaced && a.client.Build.Newer(answer.Build) {
		a.replaced = true
		a.replacing.Go(func() {
			if err := a.client.Replace(ctx); err != nil && ctx.Err() == nil {
				a.opts.Tell(err.Error())
			}
		})
	}
	return conn, nil
}

// lost tells the user that the connection was lost, and why it cannot be restored, each once.
func (a *attachment) lost(err error) {
	text := "the connection to the daemon was lost"
	if a.told != "" {
		text = "cannot connect to the daemon: " + err.Error()
	}
	if text != a.told {
		a.told = text
		a.opts.Tell(text)
	}
}

// Gateway returns the flags with which the command gateway serves the same client without a daemon.
func (o *Options) Gateway() []string {
	flags := []string{"--stdio", "--all", "--instead"}
	if o.Server != "" {
		flags = append(flags, "--server", o.Server)
	}
	if o.Approved {
		flags = append(flags, "--approved")
	}
	return flags
}

// Program returns the path of mcptrack: beside the running program or, if it is not there, in PATH. It
// returns "" if there is none.
func Program(executable string, find func(string) (string, error)) string {
	name := "mcptrack"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	beside := filepath.Join(filepath.Dir(executable), name)
	if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
		return beside
	}
	if found, err := find(name); err == nil {
		return found
	}
	return ""
}
