package agent

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/core/tracker"
)

const (
	// DownAfter is how long a server must be unreachable before that is reported.
	DownAfter = 30 * time.Second
	// learnEvery is how often digests that need no report are stored.
	learnEvery = time.Second
	// quiet is how long nothing must happen before a single run ([Watch.Once]) assumes that it
	// has seen everything.
	quiet = 3 * time.Second
)

// ErrEnough ends [Watch.Run] and [Feed] after [Options.Count] changes.
var ErrEnough = errors.New("the number of changes was reached")

// Options configure [Watch] and [Feed]. W is required.
type Options struct {
	W io.Writer
	// Cursor says what was reported before; nil: nothing, and nothing is recorded.
	Cursor *Cursor
	// Keep selects events; nil: all.
	Keep func(*event.Event) bool
	// Server returns the config of a server; false: it is not followed.
	Server func(id string) (config.Server, bool)
	// Count ends the run after this many changes; 0: never.
	Count int
}

func (o *Options) keep(e *event.Event) bool { return o.Keep == nil || o.Keep(e) }

func (o *Options) tracks(id, uri string) bool {
	srv, ok := o.Server(id)
	return ok && srv.TrackResources && srv.Selects(uri)
}

// Watch reports the changes that a tracker publishes.
type Watch struct {
	Options
	t     *tracker.Tracker
	sub   *journal.Subscription
	lines *lines

	seq       uint64               // of the last event received
	resumed   uint64               // of the last event before a gap was made up for
	counted   int                  // changes that were reported
	connected bool                 // a server was connected
	since     map[string]time.Time // by server: since when it has been unreachable
	waits     map[string]string    // by server: what was reported of its approval
	told      map[string]bool      // if there is no Cursor: which of these were reported
}

// NewWatch returns a Watch of a tracker that is not running yet, and has the Baseline functions
// of the cursor in its options. Run or Once must be called.
func NewWatch(t *tracker.Tracker, opts Options) *Watch {
	w := &Watch{Options: opts, t: t, lines: newLines(opts.W, opts.tracks), since: map[string]time.Time{}, told: map[string]bool{}, waits: map[string]string{}}
	_, w.sub = t.Subscribe(context.Background()) // the tracker ends the subscription
	return w
}

// Connected reports whether any server was connected. Call it after Run or Once has returned.
func (w *Watch) Connected() bool { return w.connected }

// Run reports changes until the tracker, which must run concurrently, ends; it then returns
// nil. Its errors are [ErrEnough] and those of writing.
func (w *Watch) Run() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	learned := time.Now()
	for {
		batch, ended := w.sub.Take()
		w.take(batch)
		if ended {
			return w.end()
		}
		if time.Since(learned) >= learnEvery {
			w.learn()
			learned = time.Now()
		}
		wait := learnEvery - time.Since(learned)
		if due, any := w.lines.due(false); any && due <= 0 {
			if err := w.report(); err != nil {
				return err
			}
			continue
		} else if any {
			wait = min(wait, due)
		}
		timer.Reset(wait)
		select {
		case <-w.sub.Ready():
		case <-timer.C:
		}
	}
}

// Once waits until every server was tried and compared with the cursor, or ctx ends. It then
// reports all changes in one line, and returns which servers were reached and which were not.
// The tracker must run concurrently. If none was reached, nothing is reported.
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

func (w *Watch) take(batch []*event.Event) {
	for _, e := range batch {
		if _, gap := e.Payload.(event.Gap); gap {
			w.resume()
		} else if e.Seq > w.resumed {
			w.takeEvent(e)
		}
	}
}

func (w *Watch) takeEvent(e *event.Event) {
	w.seq = e.Seq
	st, ok := e.Payload.(event.ServerState)
	if ok && (st.State == event.Ready || st.State == event.Unsupported || st.StillConnected) {
		w.connected = true
	}
	if ok {
		w.approval(e.ServerID, st, w.keep(e))
	}
	if w.keep(e) {
		w.lines.take(e)
	}
}

// resume makes up for a gap: it reports everything that differs from the cursor, because the
// last event of a resource does not show whether an earlier one changed it.
func (w *Watch) resume() {
	snap, after := w.t.Snapshot(), w.seq
	w.resumed = snap.Seq
	for i := range snap.Servers {
		st := &snap.Servers[i]
		for kind, list := range st.Lists {
			if old, ok := w.Cursor.BaselineList(st.ID, kind); ok {
				d := catalog.Diff(old, list)
				w.takeEvent(&event.Event{Seq: snap.Seq, ServerID: st.ID, Payload: event.ListChanged{List: kind, Added: d.Added, Removed: d.Removed, Changed: d.Changed}})
			}
		}
		for _, r := range st.Resources {
			if r.Last == nil || r.Last.Seq <= after || r.Digest == w.Cursor.Baseline(st.ID, r.URI) && !r.Digest.IsZero() {
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

// report writes a line and stores that. The snapshot is taken before the line: everything in it
// is part of this line or of an earlier one.
func (w *Watch) report() error {
	snap := w.t.Snapshot()
	w.catchUp()
	if w.lines.empty() {
		return nil
	}
	w.counted += w.lines.count()
	if err := w.lines.print(); err != nil {
		return err
	}
	w.remember(snap)
	if w.Count > 0 && w.counted >= w.Count {
		return ErrEnough
	}
	return nil
}

// catchUp handles all events published before now.
func (w *Watch) catchUp() {
	batch, _ := w.sub.Take()
	w.take(batch)
}

// remember stores everything in a snapshot as reported, unless changes are still pending.
func (w *Watch) remember(snap *status.Snapshot) {
	if w.seq >= snap.Seq {
		w.Cursor.Report(snap)
	}
	_ = w.Cursor.Save() // Save logs its error and tries again later
}

// learn stores digests that need no report, and records which servers cannot be reached.
func (w *Watch) learn() {
	snap := w.t.Snapshot()
	w.catchUp()
	w.unreachable(snap)
	if w.lines.empty() {
		w.remember(snap)
	}
}

// end reports the remaining changes when nothing more will be published.
func (w *Watch) end() error {
	w.catchUp()
	wait, any := w.lines.due(true)
	if !any {
		w.remember(w.t.Snapshot())
		return nil
	}
	time.Sleep(wait)
	return w.report()
}

// unreachable records the servers that have been unreachable for DownAfter, and those that are
// reachable again.
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

// approval reports a server whose entry in the config is not approved, once until it is.
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

// reachable records that a server is reachable or is not, unless that was already reported.
func (w *Watch) reachable(st *status.ServerStatus, yes bool) {
	was := w.told[st.ID]
	if w.Cursor != nil {
		was = w.Cursor.down(st.ID)
	}
	if was != yes || !w.keep(&event.Event{ServerID: st.ID, Payload: event.ServerState{State: st.State}}) {
		return
	}
	verb := "reachable again"
	switch {
	case yes:
	case st.State == event.NeedsAuth:
		verb = "needs a login"
	case st.State == event.Unconfigured:
		verb = "not configured"
	default:
		verb = "not reachable"
	}
	w.lines.note(changeKey{st.ID, "state", ""}, verb)
	if w.told[st.ID] = !yes; w.Cursor != nil {
		w.Cursor.setDown(st.ID, !yes)
	}
}

// compared waits until the contents of all servers that were reached were compared with the
// cursor. There is no signal for that: answered reads are counted. If too many are counted,
// this run reports too little, and the next run reports the rest.
func (w *Watch) compared(ctx context.Context) {
	var last uint64
	calm := time.Now()
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
				if known := !w.Cursor.Baseline(st.ID, r.URI).IsZero(); r.Gone || !known && !r.Digest.IsZero() {
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
