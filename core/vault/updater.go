package vault

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// retryDelay is the time until a path in a transient state (see scanner.scan) is
	// read again without an event.
	retryDelay = time.Second
	maxRetries = 3 // of a path, until its next event
)

// updater is the state of one Run, used by its goroutine only.
type updater struct {
	*Vault
	Listener
	pace pacer

	retry   []string       // paths to read again at retryAt
	retryAt time.Time      // zero: there are none
	retries map[string]int // how often a path was read again since its last event

	listDirty bool      // the list of notes differs from the published one
	listSent  time.Time // when the list was last published; zero: never
}

// wait returns the time until tick has something to do, at most an hour.
func (u *updater) wait(now time.Time) time.Duration {
	next := now.Add(time.Hour)
	if at, ok := u.pace.next(); ok && at.Before(next) {
		next = at
	}
	if !u.retryAt.IsZero() && u.retryAt.Before(next) {
		next = u.retryAt
	}
	if u.listDirty && u.listSent.Add(u.opts.ListSpacing).Before(next) {
		next = u.listSent.Add(u.opts.ListSpacing)
	}
	return next.Sub(now)
}

// tick does what is due at now: it reads paths again whose state was transient, or
// publishes updates that were delayed.
func (u *updater) tick(ctx context.Context, now time.Time) {
	if !u.retryAt.IsZero() && !now.Before(u.retryAt) {
		paths := u.retry
		u.retry, u.retryAt = nil, time.Time{}
		u.refresh(ctx, paths, false)
		return // refresh has published
	}
	u.publish(now)
}

// refresh updates the index from the disk, at and below paths, or wholly if all is set, and
// publishes the changes.
func (u *updater) refresh(ctx context.Context, paths []string, all bool) {
	if all {
		paths = []string{""}
	}
	if err := u.disk.reopen(); err != nil {
		u.log("read the vault", err)
		return // keep the last state: the folder may be unmounted for a moment
	}
	old := u.now.Load()
	scans, again, err := u.scan.scan(ctx, paths, old)
	if err != nil {
		if ctx.Err() == nil {
			u.log("read the vault", err)
		}
		return
	}
	now := time.Now()
	u.retryLater(now, again)
	next, changes := old.with(scans)
	u.now.Store(next) // before publishing: a read after a notification must see it
	u.logSkipped(changes)
	for uri := range u.affected(old, next, changes) {
		u.pace.add(uri)
	}
	for _, c := range changes {
		was, is := noteOf(c.old), noteOf(c.now)
		u.listDirty = u.listDirty || (was == nil) != (is == nil) || was != nil && string(was.item) != string(is.item)
	}
	select {
	case <-u.ready:
	default:
		u.listDirty = true
		u.listSent = time.Time{}
		u.publish(time.Now())
		close(u.ready)
	}
	u.publish(time.Now()) // with the older now two updates would be spaced too closely
	if len(changes) > manyNotes {
		debug.FreeOSMemory()
	}
}

// retryLater schedules paths in a transient state. After maxRetries the state is
// taken to be permanent.
func (u *updater) retryLater(now time.Time, paths []string) {
	for _, p := range paths {
		if u.retries[p]++; u.retries[p] > maxRetries {
			continue
		}
		u.retry = append(u.retry, p)
		if u.retryAt.IsZero() {
			u.retryAt = now.Add(retryDelay)
		}
	}
}

// publish sends what is due: the list first, so that a note is listed before its
// first update.
func (u *updater) publish(now time.Time) {
	if u.listDirty && !now.Before(u.listSent.Add(u.opts.ListSpacing)) {
		u.listDirty, u.listSent = false, now
		u.Listed(u.items())
	}
	if due := u.pace.take(now); len(due) > 0 {
		u.Updated(due...)
	}
}

// log logs a failure once per message.
func (u *updater) log(doing string, err error) {
	if text := doing + ": " + printable.Reason(printable.Unnamed(err), 300); !u.logged[text] {
		u.logged[text] = true
		u.opts.Logger.Warn(text, slog.String("path", printable.Line(u.opts.Dir, 300)))
	}
}

// logSkipped logs each reason for skipping an entry once, with an example.
func (u *updater) logSkipped(changes []change) {
	for _, c := range changes {
		if c.now == nil || c.now.left == nil || u.logged[c.now.left.Error()] {
			continue
		}
		why := c.now.left.Error()
		u.logged[why] = true
		u.opts.Logger.Warn("a file or folder is not part of the vault: "+why, slog.String("path", printable.Line(c.path, 300)))
	}
}
