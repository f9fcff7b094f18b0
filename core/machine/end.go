package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// checkInterval is the time between checks whether processes have ended.
const checkInterval = 50 * time.Millisecond

// End asks all processes of the server to end, and kills the ones that are still running after
// grace. It never signals a process that has merely inherited a pid. It returns when they have
// ended, or with an error if some cannot be signalled, continue to run, or ctx ends.
func (s *Server) End(ctx context.Context, grace time.Duration) error {
	first := os.Signal(syscall.SIGTERM)
	if runtime.GOOS == "windows" { // it cannot ask a process to end
		first = os.Kill
	}
	if err := s.signal(ctx, first); err != nil {
		return err
	}
	if s.ended(ctx, grace) {
		return nil
	}
	if err := s.signal(ctx, os.Kill); err != nil {
		return err
	}
	if !s.ended(ctx, grace) {
		return errors.Join(fmt.Errorf("process %d continues to run after it was killed", s.PID), context.Cause(ctx))
	}
	return nil
}

// signal sends a signal to the processes that still run.
func (s *Server) signal(ctx context.Context, sig os.Signal) error {
	var failed error
	for i := range s.tree {
		p := &s.tree[i]
		// On Linux, the handle stays with the process that had the pid when it was opened. The
		// check afterwards therefore cannot be outdated when the signal is sent.
		handle, err := os.FindProcess(p.pid)
		if err != nil {
			continue
		}
		if p.running(ctx) {
			if err := handle.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
				failed = errors.Join(failed, fmt.Errorf("end process %d: %w", p.pid, err))
			}
		}
		_ = handle.Release()
	}
	return failed
}

// ended waits until no process of the server runs, for at most the given time.
func (s *Server) ended(ctx context.Context, atMost time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	for {
		alive := false
		for i := range s.tree {
			alive = alive || s.tree[i].running(context.WithoutCancel(ctx))
		}
		if !alive {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}
