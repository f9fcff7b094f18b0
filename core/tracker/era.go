package tracker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// eras holds what a worker has learned about the protocol eras that its server supports. It is kept
// across sessions until the connection settings change or a different server answers.
type eras struct {
	use    session.Era // era that the next session tries first; empty if unknown
	other  session.Era // the other era that the server supports, for clients; empty if unknown
	reason string      // why a server that supports the modern era is tracked in the legacy era
	tried  bool        // true once it is known whether the legacy era pushes more
	server string      // server name and version
	// next is a session that an era trial opened and that will be followed next; nil if there is
	// none.
	next *session.Session

	// What was learned about the lists of the server; see blame. left is replaced, never modified.
	left    map[catalog.Kind]bool // lists that it does not survive
	late    map[catalog.Kind]bool // lists that it did not answer in the first sync of a session, although it lives
	careful bool                  // the first sync requests one list after the other
}

// learn records what a session reports about its server. It returns true if a different server than
// before answered, so that the era must be determined again.
func (e *eras) learn(info session.Info) (another bool) {
	server := info.ServerName + "\x00" + info.ServerVersion
	another = e.server != "" && e.server != server && e.use == session.EraLegacy
	if e.server != server {
		*e = eras{}
	}
	e.server = server
	if !another {
		e.use = info.Era
	}
	if info.Other != "" {
		e.other = info.Other
	}
	return another
}

// forget closes the session opened by an era trial, if any, and discards everything learned about
// the eras.
func (e *eras) forget() {
	e.closeNext()
	*e = eras{}
}

// closeNext closes the session opened by an era trial, if it was not used yet.
func (e *eras) closeNext() {
	if e.next != nil {
		_ = e.next.Close()
		e.next = nil
	}
}

// lacks describes which changes a server does not announce although they are tracked.
type lacks struct {
	lists   []catalog.Kind
	updates bool // updates of resources
}

func (l lacks) none() bool { return len(l.lists) == 0 && !l.updates }

// given describes which of the missing announcements a session offers; empty if it offers none of
// them.
func (l lacks) given(info session.Info) string {
	if !info.Push {
		return ""
	}
	var more []string
	for _, k := range []catalog.Kind{catalog.Prompts, catalog.Resources, catalog.Tools} {
		if announces(info.Capabilities, k) && slices.Contains(l.lists, k) {
			more = append(more, "changes of the list of "+string(k))
		}
	}
	if l.updates && info.Capabilities.ResourcesSubscribe {
		more = append(more, "updates of resources")
	}
	return strings.Join(more, ", ")
}

// eraTrial holds the result of connecting to a server in the legacy era.
type eraTrial struct {
	s    *session.Session // nil if the server does not support the legacy era
	more string           // result of lacks.given
}

// lacks returns which tracked changes the server does not announce in the current session.
func (f *sessionFollower) lacks() lacks {
	sc := f.scope()
	l := lacks{lists: sc.polledLists(f.coverage.lists)}
	l.updates = sc.srv.TrackResources && sc.info.Capabilities.Resources && sc.srv.Mode != config.ModePoll && !f.events.coverage.Resources &&
		(f.coverage.mode == event.Poll || len(f.coverage.missing) > 0)
	return l
}

// unheard reports whether changes of the server's files by other programs may go unnoticed: it is a program
// on this machine that has files, and it has not announced any update so far. Many such servers announce
// only changes that are made through them.
func (f *sessionFollower) unheard() bool {
	return f.files && !f.pushed && f.s.Info().PID != 0
}

// doubtful reports whether the server may not push updates in this era, although it agreed to do
// so: it has not pushed any so far, and it also supports the other era. Some servers acknowledge
// subscriptions in the modern era but never send updates.
func (f *sessionFollower) doubtful() bool {
	info := f.s.Info()
	return !f.pushed && !f.w.eras.tried && info.Era == session.EraModern && info.Other == session.EraLegacy && f.w.srv.Protocol != config.ProtocolModern
}

// tryLegacy tests, once per server, whether a server tracked in the modern era pushes more in the
// legacy era. Over stdio this requires a second process, which is only started if the server
// declares support for the legacy era.
func (f *sessionFollower) tryLegacy(l lacks) {
	e, info := &f.w.eras, f.s.Info()
	if e.tried || l.none() || info.Era != session.EraModern || f.w.srv.Protocol == config.ProtocolModern ||
		info.Transport == config.TransportStdio && info.Other != session.EraLegacy {
		return
	}
	e.tried = true
	srv, opts := f.w.srv, f.w.opts.Session
	srv.Protocol, opts.Logger = config.ProtocolLegacy, f.w.log
	f.jobs.start(func(ctx context.Context) {
		s, err := f.w.opts.Dial(ctx, srv, opts)
		if err != nil {
			f.w.log.Debug("cannot connect in the legacy era, to compare", "err", err)
			f.trials <- eraTrial{}
			return
		}
		r := eraTrial{s: s, more: l.given(s.Info())}
		if r.more == "" {
			_ = s.Close()
		}
		f.trials <- r
	})
}

// trialEnded handles the result of an era trial. If it returns an error, the current session ends,
// and the session opened by the trial is followed instead.
func (f *sessionFollower) trialEnded(r eraTrial) error {
	e := &f.w.eras
	if r.s == nil {
		return nil
	}
	e.other = session.EraLegacy
	if r.more == "" {
		return nil
	}
	e.use, e.other, e.next = session.EraLegacy, session.EraModern, r.s
	e.reason = fmt.Sprintf("the server also supports %s, but announces %s only in this era", f.s.Info().ProtocolVersion, r.more)
	f.w.missed, f.w.unreliable = 0, false
	f.w.log.Info("tracking the server in the legacy era", "reason", e.reason)
	return errSuperseded
}

// dropTrial closes the session of an era trial if it was never used. It is called after all jobs
// have finished.
func (f *sessionFollower) dropTrial() {
	select {
	case r := <-f.trials:
		if r.s != nil && r.more != "" {
			_ = r.s.Close()
		}
	default:
	}
}
