// Command mcptrack follows MCP servers and tells what changes. This package is
// the process around package commands: signals, terminals, children that an
// earlier run left behind. Nothing else of the program touches these.
//
// Library: golang.org/x/term tells terminals and their width.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/core/process"
)

func main() { os.Exit(run()) }

// run is one process from its start to its exit code.
func run() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	outFd, errFd := int(os.Stdout.Fd()), int(os.Stderr.Fd())
	outTTY := term.IsTerminal(outFd)
	gone := func() bool { return outTTY && !term.IsTerminal(outFd) }
	signals := handleSignals(cancel, gone)
	defer signals.stop()

	var background sync.WaitGroup
	defer background.Wait()
	tending, untend := context.WithCancel(context.Background())
	defer untend()
	tend(tending, &background)

	executable, err := os.Executable()
	if err != nil {
		executable = os.Args[0]
	}
	env := &commands.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, OutTTY: outTTY, ErrTTY: term.IsTerminal(errFd),
		LookupEnv: os.LookupEnv, Executable: executable, Reloads: signals.reloads, Version: commands.Version(),
	}
	if outTTY {
		env.Out = terminal{os.Stdout}
	}
	if width, _, err := term.GetSize(outFd); env.OutTTY && err == nil {
		env.Width = width
	}
	return commands.Main(ctx, env, os.Args[1:])
}

// terminal is stdout when it is one. One that is gone is a closed pipe to commands.
type terminal struct{ file *os.File } // not embedded: it has more ways to write

func (t terminal) Write(b []byte) (int, error) {
	n, err := t.file.Write(b)
	if errors.Is(err, syscall.EIO) {
		err = fmt.Errorf("the terminal is gone: %w", syscall.EPIPE)
	}
	return n, err
}

// tend looks after children: what a killed mcptrack left behind is ended, and
// orphans of our own children come to us. A child of mcptrack itself (the demo
// server) has none.
func tend(ctx context.Context, background *sync.WaitGroup) {
	if _, child := os.LookupEnv(process.NonceKey); child {
		return
	}
	if process.Subreaper() == nil {
		background.Go(func() { process.ReapOrphans(ctx) })
	}
	collect := debug.SetGCPercent(startGC)
	background.Go(func() {
		select { // a command that is over in a moment leaves the rest to the next
		case <-time.After(startsFor):
			debug.SetGCPercent(collect)
			_, _ = process.Sweep(ctx, slog.New(slog.DiscardHandler))
		case <-ctx.Done():
		}
	})
}

const (
	// startsFor is what counts as the start of a process: it is kept free of what
	// can wait.
	startsFor = 200 * time.Millisecond
	// startGC lets the heap grow to some 16 MiB before it is collected: most of
	// what a start allocates is never looked at again, and a tenth of the time of
	// a list went into collecting it.
	startGC = 400
)
