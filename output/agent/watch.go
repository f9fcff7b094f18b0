package agent

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/remote"
)

const (
	// DownAfter is how long a server must be unreachable before it is reported.
	DownAfter = 30 * time.Second
	// learnEvery is the interval at which unreported digests are stored.
	learnEvery = time.Second
	// quiet is how long a single run ([Watch.Once]) waits without an event before it assumes that
	// it is complete.
	quiet = 3 * time.Second
)

// ErrEnough is returned by [Watch.Run] and [Feed] after [Options.Count] changes.
var ErrEnough = errors.New("the number of changes was reached")

// Options configures [Watch] and [Feed]. W is required.
type Options struct {
	W io.Writer
	// Cursor records what earlier runs reported. If nil, nothing is recorded.
	Cursor *Cursor
	// Keep selects events. If nil, all are reported.
	Keep func(*event.Event) bool
	// Server returns the config of a server, or false if the server is not followed. Only Watch
	// needs it.
	Server func(id string) (config.Server, bool)
	// Count ends the run after this many changes; 0 means no limit.
	Count int
}

func (o *Options) keep(e *event.Event) bool { return o.Keep == nil || o.Keep(e) }

func (o *Options) tracks(id, uri string) bool {
	srv, ok := o.Server(id)
	return ok && srv.TrackResources && srv.Selects(uri)
}

// reporter writes changes as lines and then records them as reported. Watch and Feed share it.
type reporter struct {
	Options
	lines   *lines
	counted int // number of reported changes
	// catchUp takes all changes that have arrived. The function that it returns records everything
	// taken so far as reported.
	catchUp func() (reported func())
}

// reportAll reports changes until take returns true. It calls take for each value from in, and once
// with open false when in is closed.
func reportAll[T any](r *reporter, in <-chan T, take func(x T, open bool) (ended bool)) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	learned := time.Now()
	for {
		if time.Since(learned) >= learnEvery {
			if reported := r.catchUp(); r.lines.empty() {
				reported()
			}
			learned = time.Now()
		}
		wait := learnEvery - time.Since(learned)
		if due, any := r.lines.due(false); any && due <= 0 {
			if err := r.report(); err != nil {
				return err
			}
			continue
		} else if any {
			wait = min(wait, due)
		}
		timer.Reset(wait)
		select {
		case x, open := <-in:
			if take(x, open) {
				return r.end()
			}
		case <-timer.C:
		}
	}
}

// report writes a line and records its changes as reported.
func (r *reporter) report() error {
	reported := r.catchUp()
	if r.lines.empty() {
		return nil
	}
	r.counted += r.lines.count()
	if err := r.lines.print(); err != nil {
		return err
	}
	reported()
	if r.Count > 0 && r.counted >= r.Count {
		return ErrEnough
	}
	return nil
}

// end reports the remaining changes.
func (r *reporter) end() error {
	reported := r.catchUp()
	wait, any := r.lines.due(true)
	if !any {
		reported()
		return nil
	}
	time.Sleep(wait)
	return r.report()
}

// Feed reports the events of a source until it ends, or ctx, and returns the error of
// [remote.Client.Follow].
func Feed(ctx context.Context, opts Options, source remote.Client, from remote.ReadOptions) error {
	at := "" // id of the last entry received
	r := &reporter{Options: opts, lines: newLines(opts.W, nil), catchUp: func() func() {
		return func() {
			if at != "" {
				opts.Cursor.SetLastID(at)
			}
			_ = opts.Cursor.Save() // Save logs its error and tries again later
		}
	}}
	type received struct {
		id    string
		event *event.Event // nil if only the position is told
	}
	// The goroutine below sends and closes. Unbuffered: the connection is the queue.
	entries := make(chan received)
	var failed error
	running, ctx := errgroup.WithContext(ctx)
	send := func(x received) error {
		select {
		case entries <- x:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	from.Passed = func(id string) { _ = send(received{id: id}) } // fails only if ctx has ended
	running.Go(func() error {
		defer close(entries)
		failed = source.Follow(ctx, from, func(entry journal.Entry) error {
			e, err := entry.Event()
			if err != nil {
				return err
			}
			return send(received{entry.ID, &e})
		})
		return nil
	})
	running.Go(func() error {
		return reportAll(r, entries, func(x received, open bool) (ended bool) {
			if x.id != "" {
				at = x.id
			}
			if x.event != nil && r.keep(x.event) {
				r.lines.take(x.event)
			}
			return !open
		})
	})
	if err := running.Wait(); err != nil {
		return err
	}
	return failed
}

// Watch reports the changes that a tracker publishes.
type Watch struct {
	reporter
	t   *tracker.Tracker
	sub *journal.Subscription

	seq       uint64               // sequence number of the last received event
	resumed   uint64               // last event that resume reported; earlier events are skipped
	connected bool                 // at least one server was connected
	since     map[string]time.Time // start of each server's outage, by server
	waits     map[string]string    // reported approval state, by server
	down      map[string]bool      // servers reported as unreachable; used without a Cursor
}

// NewWatch returns a Watch of a tracker. The tracker must not run yet, and its options must have
// what the cursor has Stored. The caller must call Run or Once.
func NewWatch(t *tracker.Tracker, opts Options) *Watch {
	w := &Watch{reporter: reporter{Options: opts, lines: newLines(opts.W, opts.tracks)}, t: t, since: map[string]time.Time{}, down: map[string]bool{}, waits: map[string]string{}}
	w.catchUp = w.takeAll
	_, w.sub = t.Subscribe(context.Background()) // the tracker ends the subscription
	return w
}

// Connected reports whether any server was connected. Call it after Run or Once has returned.
func (w *Watch) Connected() bool { return w.connected }

// Run reports changes until the tracker ends, and then returns nil. The tracker must run
// concurrently. Its errors are [ErrEnough] and write errors.
func (w *Watch) Run() error {
	return reportAll(&w.reporter, w.sub.Ready(), func(struct{}, bool) bool { return w.takeEvents() })
}

// Once waits until every server was tried and compared with the cursor, or ctx ends. It then
// reports all changes in one line and returns the reached and the unreachable servers. The tracker
// must run concurrently. If no server was reached, Once reports nothing.
func (w *Watch) Once(ctx context.Context) (reached, missed []string, err error) {
	_, _ = w.t.Settled(ctx) // if ctx ends, use what is known by then
	w.compared(ctx)
	snap := w.t.Snapshot()
	for i := range snap.Servers {
		switch st := &snap.Servers[i]; {
		case st.Connected():
			reached = append(reached, st.ID)
		case st.State != event.Disabled:
			missed = append(missed, st.ID)
		}
	}
	if len(reached) == 0 && len(missed) > 0 {
		return reached, missed, nil
	}
	for i := range snap.Servers {
		if st := &snap.Servers[i]; st.State != event.Disabled {
			w.reachable(st, st.Connected())
		}
	}
	return reached, missed, w.end()
}

// takeAll implements catchUp. It takes the snapshot before the events, so everything in the
// snapshot is part of the next line or of an earlier one.
func (w *Watch) takeAll() (reported func()) {
	snap := w.t.Snapshot()
	w.takeEvents()
	w.unreachable(snap)
	return func() {
		if w.seq >= snap.Seq {
			w.Cursor.Report(snap)
		}
		_ = w.Cursor.Save() // Save logs its error and tries again later
	}
}

func (w *Watch) takeEvents() (ended bool) {
	batch, ended := w.sub.Take()
	for _, e := range batch {
		if _, gap := e.Payload.(event.Gap); gap {
			w.resume()
		} else if e.Seq > w.resumed {
			w.takeEvent(e)
		}
	}
	return ended
}

func (w *Watch) takeEvent(e *event.Event) {
	w.seq = e.Seq
	if st, ok := e.Payload.(event.ServerState); ok {
		if st.State == event.Ready || st.State == event.Unsupported || st.StillConnected {
			w.connected = true
		}
		w.approval(e.ServerID, st, w.keep(e))
	}
	if w.keep(e) {
		w.lines.take(e)
	}
}

// resume closes a gap: it reports everything that differs from the cursor, because the last event
// of a resource does not show whether an earlier event changed it.
func (w *Watch) resume() {
	snap, after, told := w.t.Snapshot(), w.seq, w.Cursor.Stored()
	w.resumed = snap.Seq
	for i := range snap.Servers {
		st := &snap.Servers[i]
		for kind, list := range st.Lists {
			if old, ok := told.Lists[journal.ListName{ServerID: st.ID, Kind: kind}]; ok {
				d := catalog.Diff(old, list)
				w.takeEvent(&event.Event{Seq: snap.Seq, ServerID: st.ID, Payload: event.ListChanged{List: kind, Added: d.Added, Removed: d.Removed, Changed: d.Changed}})
			}
		}
		for _, r := range st.Resources {
			if r.Last == nil || r.Last.Seq <= after || r.Digest == told.Resources[journal.ResourceID{ServerID: st.ID, URI: r.URI}].Digest && !r.Digest.IsZero() {
				continue
			}
			e := *r.Last
			if p, ok := e.Payload.(event.ResourceUpdated); ok {
				p.Changed, p.PreviousText = nil, nil
				e.Payload = p
			}
			if w.keep(&e) {
				w.lines.take(&e)
			}
		}
	}
	if w.Cursor == nil {
		w.lines.note(changeKey{"", "gap", ""}, gapVerb)
	}
	w.seq = snap.Seq
}

// unreachable records which servers have been unreachable for DownAfter, and which are reachable
// again.
func (w *Watch) unreachable(snap *status.Snapshot) {
	for i := range snap.Servers {
		st := &snap.Servers[i]
		switch since, away := w.since[st.ID]; {
		case st.Connected():
			delete(w.since, st.ID)
			w.reachable(st, true)
		case st.State == event.Disabled || st.State == event.Stopping || st.State == event.Unapproved:
		case !away:
			w.since[st.ID] = time.Now()
		case time.Since(since) >= DownAfter:
			w.reachable(st, false)
		}
	}
}

// approval reports a server with an unapproved config entry once until the entry is approved.
func (w *Watch) approval(server string, st event.ServerState, kept bool) {
	switch st.State {
	case event.Ready, event.Unsupported:
		delete(w.waits, server)
	case event.Unapproved:
		verb := "not approved"
		if st.StillConnected {
			verb = "changed in the config, not approved"
		}
		if kept && w.waits[server] != verb {
			w.waits[server] = verb
			w.lines.note(changeKey{server, "approval", ""}, verb)
		}
	}
}

// reachable records whether a server is reachable, unless this was already reported.
func (w *Watch) reachable(st *status.ServerStatus, yes bool) {
	wasDown := w.down[st.ID]
	if w.Cursor != nil {
		wasDown = w.Cursor.down(st.ID)
	}
	if wasDown != yes || !w.keep(&event.Event{ServerID: st.ID, Payload: event.ServerState{State: st.State}}) {
		return
	}
	verb := "reachable again"
	switch {
	case yes:
	case st.State == event.NeedsAuth, st.State == event.Unconfigured:
		verb = st.State.Words()
	default:
		verb = "not reachable"
	}
	w.lines.note(changeKey{st.ID, "state", ""}, verb)
	if w.down[st.ID] = !yes; w.Cursor != nil {
		w.Cursor.setDown(st.ID, !yes)
	}
}

// compared waits until the contents of all connected servers have been compared with the cursor.
// No event says so: compared counts the finished reads. If it counts too many, this run reports
// too little, and the next run reports the rest.
func (w *Watch) compared(ctx context.Context) {
	var last uint64
	calm, told := time.Now(), w.Cursor.Stored()
	for {
		waiting, answered := 0, uint64(0)
		snap := w.t.Snapshot()
		for i := range snap.Servers {
			st := &snap.Servers[i]
			if srv, ok := w.Server(st.ID); !ok || !st.Connected() || srv.Read == config.ReadNone {
				continue
			}
			done := st.Counts.Published + st.Counts.Unchanged + st.Counts.Failed
			answered += done
			for _, r := range st.Resources {
				if known := !told.Resources[journal.ResourceID{ServerID: st.ID, URI: r.URI}].Digest.IsZero(); r.Gone || !known && !r.Digest.IsZero() {
					done++
				}
			}
			if done < uint64(len(st.Resources)) {
				waiting++
			}
		}
		if answered != last {
			last, calm = answered, time.Now()
		}
		if waiting == 0 || time.Since(calm) > quiet || !backoff.Sleep(ctx, 20*time.Millisecond) {
			return
		}
	}
}
