package tracker

import (
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/login"
)

// loginPoll is how often the tracker checks whether somebody has logged in to a server that
// needs it. The file is polled, not watched: that works on every file system, and for a
// keyring.
const loginPoll = 500 * time.Millisecond

// loginWatch detects a login to a server, or a logout.
type loginWatch struct {
	logins *login.Store // nil: there are none
	target login.Target
	stamp  login.Stamp
	since  time.Time // when the login was made; zero: there is none
}

// watchLogin records the current login of a server, before it is used.
func (w *worker) watchLogin() loginWatch {
	target := login.TargetOf(w.srv)
	if w.opts.Session.Logins == nil || target.URL == "" {
		return loginWatch{}
	}
	l := loginWatch{logins: w.opts.Session.Logins, target: target}
	l.stamp = l.logins.Stamp(target)
	l.since = l.logins.Since(target)
	return l
}

// ticker returns a channel that receives whenever changed should be called, and a function that
// stops it.
func (l *loginWatch) ticker(state event.State) (tick <-chan time.Time, stop func()) {
	if l.logins == nil || state != event.NeedsAuth {
		return nil, func() {}
	}
	t := time.NewTicker(loginPoll)
	return t.C, t.Stop
}

// changed reports whether the login is another one than before. A renewal, by any process, does
// not count.
func (l *loginWatch) changed() bool {
	stamp := l.logins.Stamp(l.target)
	if stamp.Same(l.stamp) {
		return false
	}
	l.stamp = stamp
	return !l.logins.Since(l.target).Equal(l.since)
}
