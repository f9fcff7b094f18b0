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

// eras is what a worker remembers of the eras that its server speaks, from session to session,
// until the connection settings change or another server answers.
type eras struct {
	use    session.Era // what the next session tries first; "": nothing is known
	other  session.Era // the other era that the server speaks, for clients; "": not known
	reason string      // why a server that also speaks the modern era is tracked in the legacy one
	tried  bool        // it is known whether the legacy era pushes more
	server string      // name and version
	// next is a session that a trial dialled and that is followed next; nil: none.
	next *session.Session
}

// learn records what a session reports about its server. It returns true if another server than
// before answers, so that the era must be determined again.
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

// forget closes the session of a trial, if there is one, and forgets everything.
func (e *eras) forget() {
	if e.next != nil {
		_ = e.next.Close()
	}
	*e = eras{}
}

// lacks is what a server does not announce.
type lacks struct {
	lists   []catalog.Kind
	updates bool // of resources
}

func (l lacks) none() bool { return len(l.lists) == 0 && !l.updates }

// given describes the part of it that a session offers; "": nothing.
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

// eraTrial is the result of connecting to a server in the legacy era.
type eraTrial struct {
	s    *session.Session // nil: the server does not speak it
	more string           // see lacks.given
}

// lacks returns what the session does not announce although it is tracked.
func (f *sessionFollower) lacks() lacks {
	sc := f.scope()
	l := lacks{lists: sc.polledLists(f.coverage.lists)}
	l.updates = sc.srv.TrackResources && sc.info.Capabilities.Resources && sc.srv.Mode != config.ModePoll && !f.events.coverage.Resources &&
		(f.coverage.mode == event.Poll || len(f.coverage.missing) > 0)
	return l
}

// doubtful reports whether the server may push no updates in this era, although it agreed to:
// it has not pushed any, and also speaks the other era. Some servers acknowledge subscriptions in
// the modern era and send nothing.
func (f *sessionFollower) doubtful() bool {
	info := f.s.Info()
	return !f.pushed && !f.w.eras.tried && info.Era == session.EraModern && info.Other == session.EraLegacy && f.w.srv.Protocol != config.ProtocolModern
}

// tryLegacy finds out, once, whether a server that is tracked in the modern era pushes in the
// legacy era what it does not push in this one. Over stdio this takes another process, which is
// only started if the server declares the legacy era.
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

// trialEnded handles the result of a trial. An error ends the session, so that the session of the
// trial is followed.
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
	e.reason = fmt.Sprintf("the server also speaks %s, but announces %s only in this era", f.s.Info().ProtocolVersion, r.more)
	f.w.missed, f.w.unreliable = 0, false
	f.w.log.Info("tracking the server in the legacy era", "reason", e.reason)
	return errSuperseded
}

// dropTrial closes the session of a trial that nobody takes any more. It is called after all jobs
// have ended.
func (f *sessionFollower) dropTrial() {
	select {
	case r := <-f.trials:
		if r.s != nil && r.more != "" {
			_ = r.s.Close()
		}
	default:
	}
}
