// Command mcptrack-attach serves an MCP client on stdio through the user's daemon, like the command
// mcptrack attach. Hosts start one for each session, so it is small: it contains the relay, and none
// of what the daemon does.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/mcptrack/mcptrack/core/daemon/attach"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
)

const usage = `Serves an MCP client on standard input and output through the mcptrack daemon,
which it starts if necessary. With SERVER it serves only that server, and names
stay unchanged; otherwise it serves all servers of the config. If it cannot use
a daemon, it runs mcptrack gateway --stdio instead. A client of a SERVER that
cannot start gets the reason as the answer to initialize.

Usage:
  mcptrack-attach [SERVER] [flags]

Examples:
  mcptrack-attach github
  mcptrack-attach --config mcp-servers.json

Flags:
      --approved      start only what you have approved, also with --config; see
                      mcptrack help trust
      --config FILE   config file (default: see mcptrack help environment)
  -h, --help          print this help
      --host HOST     use the config of this host (editor or agent), such as
                      cursor or codex
      --version       print the version

MCPTRACK_CONFIG names the config file, and MCPTRACK_SOCKET the daemon's socket.
Exit codes: 0 done; 1 failed; 2 wrong usage; 3 the config is missing, invalid or
not approved. See mcptrack help exit-codes.
`

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	// Measured: with these settings the peak RSS is 6 MiB and a call takes 0.1 ms longer than without
	// this program, at p99. Without them it is 9 MiB; with more threads than one, calls take 2 ms.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(25)
	os.Exit(run(os.Args[1:]))
}

// run serves the client and returns the exit code of the program.
func run(args []string) int {
	opts, err := attach.Parse(args, os.Getenv)
	switch {
	case errors.Is(err, attach.ErrHelp):
		return say(usage)
	case errors.Is(err, attach.ErrVersion):
		return say("mcptrack " + ipc.ThisBuild("").Version + "\n")
	case err != nil:
		return fail(err.Error(), "see mcptrack-attach --help", exitUsage)
	}
	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	in, restoreIn := stream(os.Stdin)
	out, restoreOut := stream(os.Stdout)
	opts.In, opts.Out, opts.LookupEnv = in, out, os.LookupEnv
	opts.Build, opts.Program = ipc.ThisBuild(""), attach.Program(executable, exec.LookPath)
	opts.Tell = func(text string) { tell("mcptrack-attach: " + text) }

	// A write to a client that has left, or to a daemon that was killed, fails with EPIPE. The signal
	// that comes with it would end the program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = attach.Run(ctx, opts)
	interrupted := ctx.Err() != nil
	stop()
	restoreIn()
	restoreOut()
	var none *attach.NoDaemon
	var refused *ipc.Refused
	switch {
	case err == nil, interrupted, errors.Is(err, syscall.EPIPE):
		return exitOK
	case errors.As(err, &none):
		if opts.Program == "" {
			return fail(none.Error(), "install mcptrack beside mcptrack-attach or in PATH", exitFailed)
		}
		opts.Tell(none.Error() + "; the servers are started for this client alone")
		arguments := append([]string{"gateway"}, opts.Gateway()...)
		if opts.Config != "" {
			arguments = append(arguments, "--config", opts.Config)
		}
		if opts.Host != "" {
			arguments = append(arguments, "--host", opts.Host)
		}
		return replaceBy(opts.Program, arguments)
	case errors.As(err, &refused):
		return fail(refused.Message, refused.Hint, max(refused.Exit, exitFailed))
	}
	return fail(err.Error(), "", exitFailed)
}

// fail prints an error and a hint as mcptrack does, and returns the exit code.
func fail(message, hint string, exit int) int {
	tell("mcptrack-attach: " + message)
	if hint != "" {
		tell("hint: " + hint)
	}
	return exit
}

// say prints what the user asked for.
func say(text string) int {
	_, _ = io.WriteString(os.Stdout, text)
	return exitOK
}

// tell prints one line on stderr.
func tell(text string) { _, _ = os.Stderr.WriteString(text + "\n") }
