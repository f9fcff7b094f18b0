package upstream

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// backends selects the backend for the nth request of a load balancer.
func backends() map[string]func(n int64) int64 {
	return map[string]func(n int64) int64{
		"every request":    func(n int64) int64 { return n % 2 },
		"every other":      func(n int64) int64 { return n / 2 % 2 },
		"every third":      func(n int64) int64 { return n / 3 % 2 },
		"every sixth":      func(n int64) int64 { return n / 6 % 2 },
		"every seventh":    func(n int64) int64 { return n / 7 % 2 },
		"two of three":     func(n int64) int64 { return min(1, n%3) },
		"one of three":     func(n int64) int64 { return max(0, n%3-1) },
		"poll by poll":     func(int64) int64 { return time.Now().Unix() / 30 % 2 },
		"two of ten polls": func(int64) int64 { return max(0, time.Now().Unix()/30%10-8) },
	}
}

// rolling is an API during a deployment: answers come from the old backend until pick
// selects another.
type rolling struct {
	*api
	pick atomic.Pointer[func(n int64) int64]
	n    atomic.Int64
}

func newRolling(t *testing.T) *rolling {
	r := &rolling{api: newAPI(t)}
	r.all(0)
	which := func() int64 { return (*r.pick.Load())(r.n.Add(1)) }
	r.answer(func() (int, string) { return 200, []string{`{"build":"A"}`, `{"build":"B"}`}[which()] },
		func() (int, string) { return 200, []string{tool("old"), tool("new")}[which()] })
	return r
}

// all makes one backend answer every request.
func (r *rolling) all(backend int64) {
	pick := func(int64) int64 { return backend }
	r.pick.Store(&pick)
}

// While backends alternate between requests or polls, the new tools appear once, and stay when
// the old backends are gone.
func TestRollingDeploy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, pick := range backends() {
			a := newRolling(t)
			f := follow(t, a.api)
			f.polls(5)
			f.wantChanges(1)
			a.pick.Store(&pick)
			f.polls(60)
			f.mu.Lock()
			changes := len(f.changes)
			f.changes = nil
			f.mu.Unlock()
			most, patience := 1, 45*time.Second
			if strings.Contains(name, "poll") || strings.HasSuffix(name, "th") { // all answers of one poll can agree
				most, patience = 8, 3*time.Minute
			}
			if changes > most {
				t.Errorf("%s: %d changes", name, changes)
			}
			a.all(1)
			pass(patience)
			f.want("new")
			f.polls(5)
			a.count("/api/mcp/tools")
			f.polls(20)
			if n := a.count("/api/mcp/tools"); n != 0 {
				t.Errorf("%s: read the catalog %d times after the end", name, n)
			}
			f.Close()
		}
	})
}

// However long both builds run, the tools of the remaining build are finally served.
func TestDeployEnds(t *testing.T) {
	for left, want := range []string{"old", "new"} {
		synctest.Test(t, func(t *testing.T) {
			for name, pick := range backends() {
				for _, polls := range []int{0, 3, 7} {
					a := newRolling(t)
					f := follow(t, a.api)
					f.polls(4)
					a.pick.Store(&pick)
					pass(time.Duration(polls)*30*time.Second + 15*time.Second)
					a.all(int64(left))
					pass(3 * time.Minute)
					if got := f.names(); got != want+" get_version" {
						t.Errorf("%s for %d polls: %q, want %s", name, polls, got, want)
					}
					f.Close()
				}
			}
		})
	}
}

// A build that differs in every answer is ignored, and the catalog compared.
func TestBuildIsNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		var n atomic.Int64
		a.answer(func() (int, string) { return 200, fmt.Sprintf(`{"build":"up %d requests"}`, n.Add(1)) }, nil)
		f := follow(t, a)
		pass(time.Second)
		f.want("a")
		f.wantChanges(1)
		f.polls(5)
		for i := range 10 {
			name := fmt.Sprint("tool", i)
			a.answer(nil, func() (int, string) { return 200, tool("a", name) })
			f.polls(5) // three may be needed to find that builds still are noise
			f.want("a " + name)
			f.wantChanges(1)
		}
		a.answer(nil, func() (int, string) { return 200, tool("a") })
		f.polls(60)
		f.wantChanges(1)
		f.polls(60)
		f.wantChanges(0)
		a.set("steady", tool("a"))
		f.polls(60)
		a.count("/api/mcp/tools")
		if f.polls(18); a.count("/api/mcp/tools") != 0 {
			t.Error("the build is ignored for ever")
		}
		a.set("steady 2", tool("c"))
		pass(40 * time.Second)
		f.want("c")
	})
}

// A rollback is served like any other change.
func TestRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		f := follow(t, a)
		f.polls(4)
		for i, step := range []struct{ build, tools string }{{"2", "a b"}, {"1", "a"}, {"2", "a b"}, {"1", "a"}, {"3", "c"}} {
			a.set(step.build, tool(strings.Fields(step.tools)...))
			if pass(40 * time.Second); i == 2 || i == 3 { // the second switch takes longer
				f.polls(i - 1)
			}
			f.want(step.tools)
		}
		f.wantChanges(6)
		f.polls(25)
		a.set("1", tool("a")) // so long ago that it counts as new
		pass(40 * time.Second)
		f.want("a")
	})
}
