package vault

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// lookAgain is after what time a file is looked at that was in a state that may
	// pass without an event.
	lookAgain      = time.Second
	lookAgainTimes = 3
)

// keeper is the state of one Run. Everything in it belongs to that goroutine.
type keeper struct {
	*Vault
	Listener
	pace pacer

	again   []string       // to look at without an event
	againAt time.Time      // zero: nothing
	tries   map[string]int // how often paths were to be looked at again

	unlisted bool // the list differs from what was told
	listed   time.Time
}

// wait says for how long nothing needs to be done if nothing happens.
func (k *keeper) wait(now time.Time) time.Duration {
	next := now.Add(time.Hour)
	if at, ok := k.pace.next(); ok && at.Before(next) {
		next = at
	}
	if !k.againAt.IsZero() && k.againAt.Before(next) {
		next = k.againAt
	}
	if k.unlisted && k.listed.Add(k.opts.ListSpacing).Before(next) {
		next = k.listed.Add(k.opts.ListSpacing)
	}
	return next.Sub(now)
}

// tick does what is due.
func (k *keeper) tick(ctx context.Context, now time.Time) {
	if !k.againAt.IsZero() && !now.Before(k.againAt) {
		paths := k.again
		k.again, k.againAt = nil, time.Time{}
		k.look(ctx, paths, false)
		return // which tells what is due
	}
	k.tell(now)
}

// look brings the index in line with the disk at some paths, and tells.
func (k *keeper) look(ctx context.Context, paths []string, all bool) {
	if all {
		paths = []string{""}
	}
	if err := k.disk.reopen(); err != nil {
		k.log("read the vault", err)
		return // the last state is kept: a folder may be unmounted for a moment
	}
	old := k.now.Load()
	looks, again, err := k.scan.look(ctx, paths, old)
	if err != nil {
		if ctx.Err() == nil {
			k.log("read the vault", err)
		}
		return
	}
	now := time.Now()
	k.lookAgain(now, again)
	next, changes := old.with(looks)
	k.now.Store(next) // before anybody is told: who is told reads what is new
	k.logLeftOut(changes)
	for uri := range k.affected(old, next, changes) {
		k.pace.add(uri)
	}
	for _, c := range changes {
		was, is := noteOf(c.old), noteOf(c.now)
		k.unlisted = k.unlisted || (was == nil) != (is == nil) || was != nil && string(was.item) != string(is.item)
	}
	select {
	case <-k.ready:
	default:
		k.unlisted = true
		k.listed = time.Time{}
		k.tell(time.Now())
		close(k.ready)
	}
	k.tell(time.Now()) // not now, which is older: updates would come too close
	if len(changes) > manyNotes {
		debug.FreeOSMemory()
	}
}

// lookAgain notes paths whose state may pass without an event. Each is looked at
// three more times: after that the state is there to stay.
func (k *keeper) lookAgain(now time.Time, paths []string) {
	for _, p := range paths {
		if k.tries[p]++; k.tries[p] > lookAgainTimes {
			continue
		}
		k.again = append(k.again, p)
		if k.againAt.IsZero() {
			k.againAt = now.Add(lookAgain)
		}
	}
}

// tell sends what is due: the list first, so that a note is listed before it is
// told to have changed.
func (k *keeper) tell(now time.Time) {
	if k.unlisted && !now.Before(k.listed.Add(k.opts.ListSpacing)) {
		k.unlisted, k.listed = false, now
		k.Listed(k.items())
	}
	if due := k.pace.take(now); len(due) > 0 {
		k.Updated(due...)
	}
}

// log tells of a failure once, until another one comes.
func (k *keeper) log(doing string, err error) {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err // the name inside comes raw from the file system
	}
	if text := doing + ": " + err.Error(); !k.told[text] {
		k.told[text] = true
		k.opts.Logger.Warn(text, slog.String("path", printable.Line(k.opts.Dir, 300)))
	}
}

// logLeftOut tells each reason for leaving something out once, with an example.
func (k *keeper) logLeftOut(changes []change) {
	for _, c := range changes {
		if c.now == nil || c.now.left == nil || k.told[c.now.left.Error()] {
			continue
		}
		why := c.now.left.Error()
		k.told[why] = true
		k.opts.Logger.Warn("left out of the vault: "+why, slog.String("path", printable.Line(c.path, 300)))
	}
}
