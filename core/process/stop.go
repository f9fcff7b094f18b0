package process

import (
	"cmp"
	"context"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

const (
	defaultStdin = 1 * time.Second
	defaultTerm  = 2 * time.Second
	// killWait bounds the wait for processes that SIGKILL does not remove: a zombie whose new
	// parent does not reap it, or a process stuck in the kernel. The wait for the direct child
	// has no limit.
	killWait = 3 * time.Second
	// drainWait is the time to read the last stderr lines of a child that has exited.
	drainWait = 250 * time.Millisecond
	// lookAgain is the longest pause between two checks whether processes are gone.
	lookAgain = 50 * time.Millisecond
)

// Grace is how long Stop waits after each of its steps.
type Grace struct {
	// Stdin is the wait after closing stdin. 0: 1 s. Negative: none.
	Stdin time.Duration
	// Term is the wait after SIGTERM. 0: 2 s. Negative: none.
	Term time.Duration
}

// Stop ends the child and everything it forked: it closes stdin, waits, sends SIGTERM to the
// group, waits, sends SIGKILL. A child that exits within g.Stdin is not signalled; the
// processes that it leaves behind are. Stop returns once the child is reaped, its group and, on
// Linux, its marked descendants outside the group are gone, and the goroutines of the Process
// have ended; blocked readers and writers are released.
//
// It may be called many times and from many goroutines: the first call decides
// the grace, all of them return the same Exit when it is over.
func (p *Process) Stop(g Grace) Exit {
	p.stop.Do(func() { p.shutdown(g) })
	return p.Exit()
}

func (p *Process) shutdown(g Grace) {
	p.stdin.Close()
	t := tree{group: &p.group, nonce: p.nonce}
	p.leaves(cmp.Or(g.Stdin, defaultStdin))
	alive := t.alive() // each call reads /proc
	if alive {
		t.signal(terminate)
		alive = p.remains(&t, cmp.Or(g.Term, defaultTerm))
	}
	// Repeat the signal: new processes may be forked while the tree is being listed.
	for deadline := time.Now().Add(killWait); alive; {
		t.signal(kill)
		<-p.done
		alive = p.remains(&t, 100*time.Millisecond)
		if time.Now().After(deadline) {
			p.spec.Logger.Warn("processes of a server survive SIGKILL", "command", visible([]byte(p.spec.Command), p.spec.Redact))
			break
		}
	}
	p.mu.Lock()
	if p.killer != nil {
		p.killer.Stop()
	}
	p.mu.Unlock()
	p.stdoutPipe.Close()
	// When all its writers have exited, stderr reaches EOF. A descendant that Stop could not
	// find may still hold it open, so the wait is bounded.
	if p.stderr.src.SetReadDeadline(time.Now().Add(drainWait)) != nil {
		p.stderr.src.Close()
	}
	p.wg.Wait()
	p.stderr.src.Close()
}

// leaves waits up to d for the direct child to exit.
func (p *Process) leaves(d time.Duration) bool {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-p.done:
		return true
	case <-t.C:
		return false
	}
}

// remains waits up to d for the whole tree to exit and reports whether any process is left.
// Only the direct child can be awaited; the others are polled.
func (p *Process) remains(t *tree, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), max(d, 0))
	defer cancel()
	if !p.leaves(d) {
		return true
	}
	return !backoff.Poll(ctx, lookAgain, func() bool { return !t.alive() })
}
