package tracker

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// ProbeOptions are how [Probe] asks.
type ProbeOptions struct {
	// Dial connects; nil: [session.Dial].
	Dial session.DialFunc
	// Session is passed to Dial, with OneShot set.
	Session session.Options
	// Kinds are the lists to ask for; none means all.
	Kinds []catalog.Kind
	// AtOnce bounds the servers that are asked at a time; 32.
	AtOnce int
	// Progress is called whenever a server has answered or failed, one call at a
	// time; nil is fine.
	Progress func(Report)
}

// Report is what one server answered.
type Report struct {
	Server config.Server
	Info   session.Info
	Lists  map[catalog.Kind]catalog.List
	// Err is why the server could not be asked, or the first list that failed.
	Err error
}

// Probe asks all servers of a config, side by side, what they offer, and
// disconnects: the one-shot sibling of a Tracker. One report for every server, in
// order of id; a hung server costs its timeouts and holds up no other. It returns
// when every process that it started is gone.
func Probe(ctx context.Context, servers []config.Server, opts ProbeOptions) []Report {
	if opts.Dial == nil {
		opts.Dial = session.Dial
	}
	if len(opts.Kinds) == 0 {
		opts.Kinds = catalog.Kinds()
	}
	opts.Session.OneShot = true
	var (
		asked    sync.WaitGroup
		slots    = make(chan struct{}, cmp.Or(opts.AtOnce, 32)) // a counting semaphore
		progress sync.Mutex                                     // one call at a time
		reports  = make([]Report, len(servers))
	)
	for i, srv := range servers {
		asked.Go(func() {
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
	asked.Wait()
	slices.SortFunc(reports, func(a, b Report) int { return strings.Compare(a.Server.ID, b.Server.ID) })
	return reports
}

func probe(ctx context.Context, srv config.Server, opts ProbeOptions) Report {
	r := Report{Server: srv, Lists: map[catalog.Kind]catalog.List{}}
	s, err := opts.Dial(ctx, srv, opts.Session)
	if err != nil {
		r.Err = err
		return r
	}
	defer s.Close()
	r.Info = s.Info()
	var (
		mu    sync.Mutex // guards r
		lists sync.WaitGroup
	)
	for _, k := range opts.Kinds {
		if !r.Info.Capabilities.Has(k) {
			mu.Lock()
			r.Lists[k] = nil
			mu.Unlock()
			continue
		}
		lists.Go(func() {
			list, err := s.List(ctx, k)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && !isUnsupported(err) {
				r.Err = cmp.Or(r.Err, err)
				return
			}
			r.Lists[k] = list
		})
	}
	lists.Wait()
	return r
}
