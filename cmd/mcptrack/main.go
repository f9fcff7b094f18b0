// Command mcptrack follows MCP servers and reports what changes. This package is the process around
// package commands: signals, the terminal, and child processes that an earlier run left behind. No other
// package deals with these.
//
// Libraries: golang.org/x/term detects terminals and their width; cli/browser, which the
// GitHub CLI uses, opens the browser without a shell.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cli/browser"
	"golang.org/x/term"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/core/process"
)

func main() { os.Exit(run()) }

// run runs the process and returns its exit code.
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
		LookupEnv: os.LookupEnv, Executable: executable, Reloads: signals.reloads, Version: commands.Version(), OpenBrowser: openBrowser,
	}
	if outTTY {
		env.Out = terminal{os.Stdout}
		env.Page = func(text string) { signals.page(ctx, text) }
	}
	env.Terminal = func() (*commands.Terminal, error) { return askOn(os.Stdin, os.Stderr) }
	env.Size = func() (columns, rows int) {
		fd := outFd
		if !outTTY {
			fd = errFd
		}
		columns, rows, _ = term.GetSize(fd) // 0 if it is unknown
		return columns, rows
	}
	return commands.Main(ctx, env, os.Args[1:])
}

// openBrowser opens a URL. Some openers run as long as the browser: if the opener has not failed within a
// second, openBrowser stops waiting for it. It discards the opener's output.
func openBrowser(url string) error {
	browser.Stdout, browser.Stderr = io.Discard, io.Discard
	failed := make(chan error, 1) // sent to once; never closed
	go func() { failed <- browser.OpenURL(url) }()
	select {
	case err := <-failed:
		return err
	case <-time.After(time.Second):
		return nil
	}
}

// page shows a text with the user's pager, which by default is less if it is installed. Without a pager, or if
// it fails, page prints the text. Interrupts are the pager's; when ctx ends, the pager is asked to end.
func (s *signals) page(ctx context.Context, text string) {
	s.paging.Store(true)
	defer s.paging.Store(false)
	pager, given := os.LookupEnv("PAGER")
	if !given {
		pager = "less -FRX" // ends if the text fits the screen
	}
	if words := strings.Fields(pager); len(words) > 0 {
		cmd := exec.CommandContext(ctx, words[0], words[1:]...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // less restores the terminal
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), os.Stdout, os.Stderr
		if _, given := os.LookupEnv("LESS"); !given {
			cmd.Env = append(os.Environ(), "LESS=FRX") // show colours
		}
		if cmd.Start() == nil {
			_ = cmd.Wait() // the pager reports its own errors
			if cmd.ProcessState.ExitCode() <= 0 || ctx.Err() != nil {
				return // it succeeded, or was ended
			}
		}
	}
	fmt.Fprint(os.Stdout, text)
}

// terminal is a stdout that is a terminal. Commands see a closed terminal as a closed pipe.
type terminal struct{ file *os.File } // not embedded, so that Write is the only way to write

func (t terminal) Write(b []byte) (int, error) {
	n, err := t.file.Write(b)
	if errors.Is(err, syscall.EIO) {
		err = fmt.Errorf("the terminal was closed: %w", syscall.EPIPE)
	}
	return n, err
}

// A full screen needs Fd, Read and Close to find the size of the terminal.

func (t terminal) Fd() uintptr                { return t.file.Fd() }
func (t terminal) Read(b []byte) (int, error) { return t.file.Read(b) }
func (t terminal) Close() error               { return t.file.Close() }

// tend does what is not needed for a short command: it collects garbage as usual, and ends the
// processes that a killed mcptrack left behind.
func tend(ctx context.Context, background *sync.WaitGroup) {
	collect := debug.SetGCPercent(startGC)
	background.Go(func() {
		select { // a short command leaves this to the next command
		case <-time.After(startsFor):
			debug.SetGCPercent(collect)
			process.Sweep(ctx)
		case <-ctx.Done():
		}
	})
}

const (
	// startsFor is the time after the start in which work that can wait is delayed.
	startsFor = 200 * time.Millisecond
	// startGC lets the heap grow to about 16 MiB before the first collection. Collecting what is
	// allocated at the start would take a tenth of the time of a list.
	startGC = 400
)
