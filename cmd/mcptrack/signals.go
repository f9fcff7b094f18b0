package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/process"
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// signals are those that the process handles.
type signals struct {
	cancel  context.CancelCauseFunc
	gone    func() bool // the terminal we wrote to is
	reload  chan struct{}
	wanted  atomic.Bool // somebody receives from reload
	done    chan struct{}
	running sync.WaitGroup
}

// handleSignals ends the context at the first SIGINT or SIGTERM; the second kills
// the process as if nobody listened, and its children with it. SIGHUP asks for a
// reload if the command follows a config, unless it says that the terminal is gone;
// otherwise it ends the context, too. A closed pipe is an error of the write, not a
// signal.
func handleSignals(cancel context.CancelCauseFunc, gone func() bool) *signals {
	s := &signals{cancel: cancel, gone: gone, done: make(chan struct{}),
		reload: make(chan struct{}, 1)} // sent to below, never closed; one asks for all
	caught := make(chan os.Signal, 4) // sent to by the runtime, which drops what does not fit
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(caught, syscall.SIGHUP)
	}
	s.running.Go(func() {
		defer signal.Stop(caught)
		for ending := false; ; {
			select {
			case <-s.done:
				return
			case sig := <-caught:
				ending = s.handle(sig, ending)
			}
		}
	})
	return s
}

// handle deals with one signal and reports whether the process is to end.
func (s *signals) handle(sig os.Signal, ending bool) bool {
	switch sig {
	case syscall.SIGPIPE: // listened to so that the write fails instead
		return ending
	case syscall.SIGHUP:
		switch {
		case ending: // a terminal that closes may tell more than once
			return true
		case s.wanted.Load() && !s.gone():
			select {
			case s.reload <- struct{}{}:
			default:
			}
			return false
		}
	default:
		if ending {
			die(sig)
		}
	}
	s.cancel(errInterrupted)
	return true
}

// reloads is for [commands.Env].
func (s *signals) reloads() <-chan struct{} {
	s.wanted.Store(true)
	return s.reload
}

// stop gives the signals back.
func (s *signals) stop() {
	close(s.done)
	s.running.Wait()
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
