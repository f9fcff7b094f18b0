package session

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sort"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// ProbeOptions configures [Probe].
type ProbeOptions struct {
	// Dial connects to a server. If nil, [Dial] is used.
	Dial DialFunc
	// Session is passed to Dial with OneShot set.
	Session Options
	// Kinds selects the lists to request. If empty, all lists are requested.
	Kinds []catalog.Kind
	// Tracked makes each report contain the Info that a tracking session would have. Its era
	// differs from that of the probe if the server pushes notifications only in the other era.
	Tracked bool
	// Complete makes a list that cannot be loaded an error.
	Complete bool
	// Then is called with the open session after the lists were received without an error. Its error
	// becomes that of the report. May be nil.
	Then func(ctx context.Context, s *Session, r Report) error
	// Progress is called after each server has been probed, never concurrently. May be nil.
	Progress func(Report)
}

// Report is the result of probing one server.
type Report struct {
	Server config.Server
	Info   Info
	Lists  map[catalog.Kind]catalog.List
	// Invalid contains, by name, the reasons why tools in Lists must not be called; see
	// [InvalidToolError].
	Invalid map[string]string
	// Err is the error that made the connection fail, or with which the first list failed. A list that
	// cannot be loaded is left out of Lists instead if another one can, unless [ProbeOptions.Complete] is
	// set or the server requires a login.
	Err error
}

// State returns the state of the server: Ready, Failed, NeedsAuth, Unconfigured, Unapproved, or, for
// a server that was not probed, Disabled.
func (r Report) State() event.State {
	_, unconfigured := errors.AsType[*config.UnconfiguredError](r.Err)
	_, unapproved := errors.AsType[*config.UnapprovedError](r.Err)
	switch {
	case !r.Server.Enabled && r.Err == nil && r.Lists == nil:
		return event.Disabled
	case errors.Is(r.Err, ErrAuth) && r.listed(): // only some methods require a login
		return event.Ready
	case errors.Is(r.Err, ErrAuth):
		return event.NeedsAuth
	case unconfigured:
		return event.Unconfigured
	case unapproved:
		return event.Unapproved
	case r.Err != nil:
		return event.Failed
	}
	return event.Ready
}

// listed reports whether the server answered the request for one of its lists.
func (r Report) listed() bool {
	for k := range r.Lists {
		if k != catalog.Templates && r.Info.Capabilities.Has(k) { // a server that has no templates may say so to everybody
			return true
		}
	}
	return false
}

// Probe connects to all servers concurrently, lists what they offer and disconnects. It returns one
// report per server, sorted by ID. A server that hangs does not delay the others. All processes
// that Probe started have exited when it returns.
func Probe(ctx context.Context, servers []config.Server, opts ProbeOptions) []Report {
	if opts.Dial == nil {
		opts.Dial = Dial
	}
	if len(opts.Kinds) == 0 {
		opts.Kinds = catalog.Kinds()
	}
	opts.Session.OneShot = true
	var (
		probes   sync.WaitGroup
		slots    = make(chan struct{}, maxProbes) // a counting semaphore
		progress sync.Mutex                       // serializes opts.Progress
		reports  = make([]Report, len(servers))
	)
	for i, srv := range servers {
		probes.Go(func() {
			slots <- struct{}{}
			r := probe(ctx, srv, opts)
			<-slots
			reports[i] = r
			if opts.Progress != nil {
				progress.Lock()
				defer progress.Unlock()
				opts.Progress(r)
			}
		})
	}
	probes.Wait()
	sort.Slice(reports, func(i, j int) bool { return reports[i].Server.ID < reports[j].Server.ID })
	return reports
}

func probe(ctx context.Context, srv config.Server, opts ProbeOptions) Report {
	r := Report{Server: srv, Lists: map[catalog.Kind]catalog.List{}}
	if r.Err = srv.Unusable(); r.Err != nil {
		return r
	}
	if opts.Session.Logger != nil {
		opts.Session.Logger = opts.Session.Logger.With("server", printable.Line(srv.ID, 128))
	}
	s, err := opts.Dial(ctx, srv, opts.Session)
	if err != nil {
		r.Err = err
		return r
	}
	defer func() { _ = s.Close() }()
	r.Info = s.Info()
	caps := r.Info.Capabilities
	var (
		mu     sync.Mutex // guards r and failed
		lists  sync.WaitGroup
		failed = map[catalog.Kind]error{}
	)
	if opts.Tracked && s.fullInfo != nil {
		lists.Go(func() {
			info := s.fullInfo(ctx)
			mu.Lock()
			defer mu.Unlock()
			r.Info = info
		})
	}
	ask := func(k catalog.Kind) {
		list, err := s.listLogged(ctx, k)
		mu.Lock()
		defer mu.Unlock()
		if delete(failed, k); err != nil && !errors.Is(err, ErrUnsupported) {
			failed[k] = err
			return
		}
		r.Lists[k] = list
		if k == catalog.Tools {
			r.Invalid = InvalidTools(s.Info(), list)
		}
	}
	offered := slices.DeleteFunc(slices.Clone(opts.Kinds), func(k catalog.Kind) bool { return !caps.Has(k) })
	for _, k := range offered {
		lists.Go(func() { ask(k) })
	}
	lists.Wait()
	// Of several lists that were not answered, one may be to blame. They are asked one after another, each
	// in a session that works.
	silent := slices.DeleteFunc(slices.Clone(offered), func(k catalog.Kind) bool { return !isSilence(failed[k]) })
	if len(silent) < 2 || ctx.Err() != nil {
		silent = nil
	}
	working := silent == nil
	again := func() error {
		if working && s.Err() == nil {
			return nil
		}
		_ = s.Close()
		next, err := opts.Dial(ctx, srv, opts.Session)
		if err == nil {
			s, working = next, true
		}
		return err
	}
	for _, k := range silent {
		if err := again(); err != nil {
			failed[k] = err
			continue
		}
		ask(k)
		working = !isSilence(failed[k])
	}
	r.leaveOut(ctx, offered, failed, opts)
	for _, k := range opts.Kinds {
		if !caps.Has(k) {
			r.Lists[k] = nil
		}
	}
	if opts.Then != nil && r.Err == nil {
		if r.Err = again(); r.Err == nil {
			r.Err = opts.Then(ctx, s, r)
		}
	}
	return r
}

// leaveOut warns of lists that cannot be loaded if another one can. Otherwise, and if the server requires a
// login, it sets r.Err.
func (r *Report) leaveOut(ctx context.Context, offered []catalog.Kind, failed map[catalog.Kind]error, opts ProbeOptions) {
	for _, k := range offered {
		err := failed[k]
		switch {
		case err == nil:
		case opts.Complete || len(failed) == len(offered) || ctx.Err() != nil || notYet(err):
			r.Err = cmp.Or(r.Err, err)
		case opts.Session.Logger != nil:
			opts.Session.Logger.Warn("a list is left out, because it cannot be loaded", "list", string(k), "err", printable.Reason(err, 1000))
		}
	}
}

// isSilence reports whether the server did not answer a request: it took too long or ended.
func isSilence(err error) bool {
	_, ended := errors.AsType[*EndError](err)
	return ended || errors.Is(err, errDeadline)
}

// maxProbes limits how many servers are probed concurrently.
const maxProbes = 32
