package upstream

import (
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Status describes the state of polling.
type Status struct {
	Up       bool      // the last poll succeeded
	Since    time.Time // when Up changed last; zero before the first poll
	Error    string    // of the last poll, one printable line; "" if it succeeded
	Failures int       // consecutive polls that failed
	Polled   time.Time // when the last poll ended
	Build    string    // of the current catalog, one printable line
	Loaded   time.Time // when the current catalog was read; zero if there is none yet
}

// Status returns the current state of polling.
func (u *Upstream) Status() Status {
	u.mu.Lock()
	st := u.status
	u.mu.Unlock()
	c := u.Catalog()
	st.Build, st.Loaded = printable.Line(c.Build, 128), c.Loaded
	return st
}

// polled records the result of a poll. If the API became reachable or unreachable, it logs
// that and calls OnStatus.
func (u *Upstream) polled(err error) {
	now := time.Now()
	u.mu.Lock()
	first := u.status.Since.IsZero()
	changed := first || u.status.Up != (err == nil)
	u.status.Polled, u.status.Up = now, err == nil
	if changed {
		u.status.Since = now
	}
	if err == nil {
		u.status.Error, u.status.Failures = "", 0
	} else {
		u.status.Error = u.redact.text(printable.Reason(err, 500)) // it may quote the answer
		u.status.Failures++
	}
	u.mu.Unlock()
	if first {
		close(u.tried)
	}
	if !changed {
		return
	}
	st := u.Status()
	if st.Up {
		u.log.Info("catalog reachable", "build", st.Build, "tools", len(u.Catalog().Tools))
	} else {
		u.log.Warn("catalog unreachable; the last known tools stay in use", "err", st.Error)
	}
	if u.opts.OnStatus != nil {
		u.opts.OnStatus(st)
	}
}
