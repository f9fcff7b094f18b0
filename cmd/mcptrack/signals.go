package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/process"
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// handleSignals ends the context at the first SIGINT or SIGTERM; the second kills
// the process as if nobody listened, and its children with it. SIGHUP asks for a
// reload. A closed pipe is an error of the write, not a signal. stop gives the
// signals back.
func handleSignals(cancel context.CancelCauseFunc, reload chan<- struct{}) (stop func()) {
	signals := make(chan os.Signal, 4) // sent to by the runtime, which drops what does not fit
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	done := make(chan struct{})
	var listening sync.WaitGroup
	listening.Go(func() {
		for ending := false; ; {
			select {
			case <-done:
				return
			case sig := <-signals:
				switch sig {
				case syscall.SIGPIPE: // listened to so that the write fails instead
				case syscall.SIGHUP:
					select {
					case reload <- struct{}{}:
					default:
					}
				default:
					if ending {
						die(sig)
					}
					ending = true
					cancel(errInterrupted)
				}
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(done)
		listening.Wait()
	}
}

// exitKilled is the exit code where a process cannot signal itself, or ignores it.
const exitKilled = 137

// die ends the process by the signal, at once.
func die(sig os.Signal) {
	process.KillMarked()
	signal.Reset(sig)
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(sig) == nil {
		<-time.After(time.Second) // it is on its way
	}
	os.Exit(exitKilled)
}
