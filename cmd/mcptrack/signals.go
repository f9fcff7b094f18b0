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

// signals handles the signals of the process.
type signals struct {
	cancel  context.CancelCauseFunc
	gone    func() bool // reports whether the terminal was closed
	done    chan struct{}
	running sync.WaitGroup
	paging  atomic.Bool // a pager has the terminal

	mu     sync.Mutex
	reload []chan struct{} // returned by reloads; handle sends to them; never closed; capacity 1: one request is enough
}

// handleSignals cancels the context at the first SIGINT or SIGTERM; the second kills the process and its
// children immediately. SIGHUP requests a reload if the command follows a config and the terminal is still
// open; otherwise it also cancels the context. SIGPIPE is ignored: the write returns an error instead.
func handleSignals(cancel context.CancelCauseFunc, gone func() bool) *signals {
	s := &signals{cancel: cancel, gone: gone, done: make(chan struct{})}
	caught := make(chan os.Signal, 4) // sent to by the runtime, which drops signals if it is full
	signal.Notify(caught, os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(caught, syscall.SIGHUP)
	}
	s.running.Go(func() {
		defer signal.Reset(os.Interrupt, syscall.SIGTERM) // a closing terminal may send another SIGHUP until the process has exited
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

// handle handles one signal and reports whether the process is ending.
func (s *signals) handle(sig os.Signal, ending bool) bool {
	switch sig {
	case syscall.SIGPIPE: // caught so that the write fails instead
		return ending
	case syscall.SIGHUP:
		if ending { // a closing terminal may send more than one
			return true
		}
		if s.request() {
			return false
		}
	default:
		if sig == os.Interrupt && s.paging.Load() {
			return ending
		}
		if ending {
			die(sig)
		}
	}
	s.cancel(errInterrupted)
	return true
}

// reloads implements Reloads of [commands.Env].
func (s *signals) reloads() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{}, 1)
	s.reload = append(s.reload, c)
	return c
}

// request requests a reload and reports whether a command handles it.
func (s *signals) request() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reload) == 0 || s.gone() {
		return false
	}
	for _, c := range s.reload {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	return true
}

// stop stops handling signals and waits for the goroutine.
func (s *signals) stop() {
	close(s.done)
	s.running.Wait()
}

// exitKilled is the exit code if the process cannot kill itself by a signal.
const exitKilled = 137

// die kills the process by the signal.
func die(sig os.Signal) {
	process.KillMarked()
	signal.Reset(sig)
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(sig) == nil {
		<-time.After(10 * time.Second) // until the signal is delivered, which may take long on a busy machine
	}
	os.Exit(exitKilled)
}
