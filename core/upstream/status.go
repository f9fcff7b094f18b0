package upstream

import (
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Status is how following the API goes.
type Status struct {
	Up       bool      // the last poll succeeded
	Since    time.Time // when Up became what it is; zero before the first poll
	Error    string    // of the last poll, one printable line; "" when it succeeded
	Failures int       // polls in a row that failed
	Polled   time.Time // when the last poll ended
	Build    string    // of the catalog that is served, one printable line
	Loaded   time.Time // when the catalog that is served was read; zero: none yet
}

// Status returns how following goes now.
func (u *Upstream) Status() Status {
	u.mu.Lock()
	st := u.status
	u.mu.Unlock()
	c := u.Catalog()
	st.Build, st.Loaded = printable.Line(c.Build, 128), c.Loaded
	return st
}

// polled notes how a poll went and tells if that is news.
func (u *Upstream) polled(err error) {
	now := time.Now()
	u.mu.Lock()
	first := u.status.Since.IsZero()
	turned := first || u.status.Up != (err == nil)
	u.status.Polled, u.status.Up = now, err == nil
	if turned {
		u.status.Since = now
	}
	if err == nil {
		u.status.Error, u.status.Failures = "", 0
	} else {
		u.status.Error = printable.Line(err.Error(), 500)
		u.status.Failures++
	}
	u.mu.Unlock()
	if first {
		close(u.tried)
	}
	if !turned {
		return
	}
	st := u.Status()
	if st.Up {
		u.log.Info("catalog reachable", "build", st.Build, "tools", len(u.Catalog().Tools))
	} else {
		u.log.Warn("catalog unreachable, keeping the last one", "err", st.Error)
	}
	if u.opts.OnStatus != nil {
		u.opts.OnStatus(st)
	}
}
