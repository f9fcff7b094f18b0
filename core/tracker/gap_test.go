package tracker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// idleFollower is a follower of a live session whose loop does not run.
func idleFollower(t *testing.T, era session.Era) *follower {
	t.Helper()
	n := new(sessiontest.Net)
	n.Serve("docs", era)
	entry := sessiontest.Entry("docs")
	s, err := n.Dial(t.Context(), entry, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := newFollower(newWorker(New(Options{}), entry), s)
	t.Cleanup(func() {
		f.cancel()
		s.Close()
		n.Wait()
	})
	return f
}

// Gaps that keep coming, as of a stream that a proxy cuts again and again, do not
// put off for ever the walk that makes up for them.
func TestGapAfterGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := idleFollower(t, session.EraLegacy)
		var walks []time.Duration
		began := time.Now()
		for range 300 {
			now := time.Now()
			if !f.todo.empty() && !now.Before(f.nextWalk) {
				walks = append(walks, now.Sub(began))
				f.todo = demand{}
			}
			f.gap("cut", now)
			time.Sleep(time.Second)
		}
		if len(walks) < 9 || len(walks) > 20 {
			t.Errorf("walks at %v, want one about every 30 s", walks)
		}
	})
}

// A gap during a walk that takes long does not have the next one follow at once.
func TestGapsDuringAWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := idleFollower(t, session.EraModern)
		f.syncing = true
		f.gap("the listen ended", time.Now())
		time.Sleep(5 * time.Second)
		f.gap("the listen ended", time.Now())
		if wait := time.Until(f.nextWalk); wait < time.Second {
			t.Errorf("the next walk is in %v", wait)
		}
	})
}
