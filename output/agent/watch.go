package agent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/remote"
)

const (
	// DownAfter is how long a server must be unreachable before it is reported.
	DownAfter = 30 * time.Second
	// saveEvery is the interval at which the position in the log is stored while there is nothing to report.
	saveEvery = time.Second
	// quiet is how long [Compared] waits without progress before it assumes that everything was compared.
	quiet = 3 * time.Second
)

// ErrEnough is returned by [Watch.Follow] after [Options.Count] changes.
var ErrEnough = errors.New("the number of changes was reached")

// Options configures a [Watch]. W is required.
type Options struct {
	W io.Writer
	// Reader stores what was reported. If nil, nothing is stored.
	Reader *Reader
	// Keep selects events. If nil, all are reported.
	Keep func(*event.Event) bool
	// Count ends the run after this many changes; 0 means no limit.
	Count int
}

// Watch reports the changes in a log of events.
type Watch struct {
	Options
	lines   *lines
	counted int // number of reported changes

	at        string // id of the last entry taken
	connected bool   // this process connected to at least one server
	away      map[string]outage
	waits     map[string]string // reported approval state, by server
	down      map[string]bool   // servers reported as unreachable
}

// outage says since when a server cannot be reached, and its newest state.
type outage struct {
	since time.Time
	state event.State
}

// NewWatch returns a Watch.
func NewWatch(o Options) *Watch {
	w := &Watch{Options: o, lines: &lines{w: o.W, lists: o.Keep != nil && !o.Keep(&event.Event{Payload: event.ResourceAdded{}})}, away: map[string]outage{}, waits: map[string]string{}, down: map[string]bool{}}
	if o.Reader != nil {
		maps.Copy(w.down, o.Reader.state.Down)
	}
	return w
}

// Connected reports whether this process connected to a server. Call it after Follow has returned.
func (w *Watch) Connected() bool { return w.connected }

// Resume returns where the report of a log begins: after the last reported event, or after the newest one if
// nothing was reported.
func (w *Watch) Resume(ctx context.Context, log journal.Log) (remote.Position, error) {
	if w.at = cmp.Or(w.at, w.Reader.ID()); w.at == "" {
		b, err := log.Bounds(ctx)
		if err != nil {
			return remote.Position{}, err
		}
		w.at = event.FormatID(b.Epoch, b.Last)
	}
	return remote.Position{ID: w.at}, nil
}

// received is an entry of a source.
type received struct {
	id    string
	event *event.Event // nil if only the position is told
}

// errReported ends a source when nobody takes its entries any longer.
var errReported = errors.New("the report has ended")

// Follow reports the events of a source until it ends, or ctx, and returns its error; see
// [remote.Client.Follow]. It reports stored events in one line. Its other errors are [ErrEnough] and write errors.
func (w *Watch) Follow(ctx context.Context, source remote.Client, from remote.ReadOptions) error {
	if from.Stored {
		return w.Once(ctx, source, from, nil)
	}
	// The first goroutine below sends and closes. Unbuffered: the source is the queue.
	entries := make(chan received)
	reported := make(chan struct{}) // closed by the second goroutine when it no longer receives
	send := func(x received) error {
		select {
		case entries <- x:
			return nil
		case <-reported:
			return errReported
		}
	}
	running, ctx := errgroup.WithContext(ctx)
	from.Passed = func(id string) { _ = send(received{id: id}) } // fails only if the report has failed
	var failed error
	running.Go(func() error {
		defer close(entries)
		failed = source.Follow(ctx, from, func(entry journal.Entry) error { return send(w.received(entry)) })
		return nil
	})
	running.Go(func() error {
		defer close(reported)
		return w.report(entries)
	})
	if err := running.Wait(); err != nil {
		return err
	}
	return failed
}

// Once reports the stored events of a source in one line. servers are those that were tried.
func (w *Watch) Once(ctx context.Context, source remote.Client, from remote.ReadOptions, servers []status.ServerStatus) error {
	from.Stored = true
	if err := source.Follow(ctx, from, func(entry journal.Entry) error {
		w.take(w.received(entry))
		return nil
	}); err != nil {
		return err
	}
	for i := range servers {
		if st := &servers[i]; st.State != event.Disabled {
			w.reachable(st.ID, st.State, st.Connected())
		}
	}
	return w.end()
}

// received returns what is taken of an entry. An entry that is not an event is a gap.
func (w *Watch) received(entry journal.Entry) received {
	e, err := entry.Event()
	if err != nil {
		e = event.Event{Payload: event.Gap{}}
	}
	if st, ok := e.Payload.(event.ServerState); ok && entry.Local() && reached(st) {
		w.connected = true
	}
	return received{entry.ID, &e}
}

func reached(st event.ServerState) bool {
	return st.State == event.Ready || st.State == event.Unsupported || st.StillConnected
}

// report reports what it receives, until in is closed.
func (w *Watch) report(in <-chan received) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	saved := time.Now()
	for {
		if time.Since(saved) >= saveEvery {
			if w.unreachable(); w.lines.empty() {
				w.save()
			}
			saved = time.Now()
		}
		wait := saveEvery - time.Since(saved)
		if due, any := w.lines.due(false); any && due <= 0 {
			if err := w.print(); err != nil {
				return err
			}
			continue
		} else if any {
			wait = min(wait, due)
		}
		timer.Reset(wait)
		select {
		case x, open := <-in:
			if !open {
				return w.end()
			}
			w.take(x)
		case <-timer.C:
		}
	}
}

// print writes a line and then records its changes as reported.
func (w *Watch) print() error {
	w.counted += w.lines.count()
	if err := w.lines.print(); err != nil {
		return err
	}
	w.save()
	if w.Count > 0 && w.counted >= w.Count {
		return ErrEnough
	}
	return nil
}

func (w *Watch) save() { w.Reader.reported(w.at, w.down) }

// end reports the remaining changes.
func (w *Watch) end() error {
	wait, any := w.lines.due(true)
	if !any {
		w.save()
		return nil
	}
	time.Sleep(wait)
	return w.print()
}

// take takes an entry for the next line.
func (w *Watch) take(x received) {
	if x.id != "" {
		w.at = x.id
	}
	if x.event == nil {
		return
	}
	kept := w.Keep == nil || w.Keep(x.event)
	if st, ok := x.event.Payload.(event.ServerState); ok {
		w.state(x.event.ServerID, st, kept)
	}
	if kept {
		w.lines.take(x.event)
	}
}

// state takes a new state of a server. It reports a server with an unapproved config entry once until the
// entry is approved.
func (w *Watch) state(server string, st event.ServerState, kept bool) {
	switch {
	case st.State == event.Unapproved:
		verb := "not approved"
		if st.StillConnected {
			verb = "changed in the config, not approved"
		}
		if kept && w.waits[server] != verb {
			w.waits[server] = verb
			w.lines.note(changeKey{server, "approval", ""}, verb)
		}
	case reached(st):
		delete(w.waits, server)
	}
	switch {
	case reached(st):
		delete(w.away, server)
		w.reachable(server, st.State, true)
	case st.State == event.Disabled || st.State == event.Stopping || st.State == event.Unapproved:
		delete(w.away, server)
	default:
		since := w.away[server].since
		if since.IsZero() {
			since = time.Now()
		}
		w.away[server] = outage{since, st.State}
	}
}

// unreachable reports which servers have been unreachable for DownAfter.
func (w *Watch) unreachable() {
	for _, server := range slices.Sorted(maps.Keys(w.away)) {
		if o := w.away[server]; time.Since(o.since) >= DownAfter {
			w.reachable(server, o.state, false)
		}
	}
}

// reachable reports whether a server is reachable, unless this was already reported.
func (w *Watch) reachable(server string, state event.State, yes bool) {
	if w.down[server] != yes || w.Keep != nil && !w.Keep(&event.Event{ServerID: server, Payload: event.ServerState{State: state}}) {
		return
	}
	verb := "not reachable"
	switch {
	case yes:
		verb = "reachable again"
	case state == event.NeedsAuth || state == event.Unconfigured:
		verb = state.Words()
	}
	w.lines.note(changeKey{server, "state", ""}, verb)
	if yes {
		delete(w.down, server)
	} else {
		w.down[server] = true
	}
}

// Compared waits until the contents of all connected servers that reads selects have been compared with what is
// stored of them. No event says so: Compared counts the finished reads. If it counts too many, this run reports
// too little, and the next run reports the rest.
func Compared(ctx context.Context, snapshot func() *status.Snapshot, stored journal.States, reads func(server string) bool) {
	var last uint64
	calm := time.Now()
	for {
		waiting, answered := 0, uint64(0)
		snap := snapshot()
		for i := range snap.Servers {
			st := &snap.Servers[i]
			if !st.Connected() || !reads(st.ID) {
				continue
			}
			done := st.Counts.Published + st.Counts.Unchanged + st.Counts.Failed
			answered += done
			for _, r := range st.Resources {
				if known := !stored.Resources[journal.ResourceID{ServerID: st.ID, URI: r.URI}].Digest.IsZero(); r.Gone || !known && !r.Digest.IsZero() {
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
