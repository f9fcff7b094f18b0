package upstream

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However a load balancer spreads requests over two builds, the tools of the build that remains are
// served within two polls.
func TestDeployEnds(t *testing.T) {
	for name, pick := range map[string]func(n int64) int64{ // selects the backend for the nth request
		"every request":    func(n int64) int64 { return n % 2 },
		"every other":      func(n int64) int64 { return n / 2 % 2 },
		"every third":      func(n int64) int64 { return n / 3 % 2 },
		"two of three":     func(n int64) int64 { return min(1, n%3) },
		"poll by poll":     func(int64) int64 { return time.Now().Unix() / 30 % 2 },
		"two of ten polls": func(int64) int64 { return max(0, time.Now().Unix()/30%10-8) },
	} {
		for remains, want := range []string{"old", "new"} {
			for _, polls := range []int{0, 3, 30} {
				synctest.Test(t, func(t *testing.T) {
					a := newAPI(t)
					var n, all atomic.Int64 // all is 2 while both backends answer
					which := func() int64 {
						if one := all.Load(); one < 2 {
							return one
						}
						return pick(n.Add(1))
					}
					a.answer(func() (int, string) { return 200, []string{`{"build":"A"}`, `{"build":"B"}`}[which()] },
						func() (int, string) { return 200, []string{tool("old"), tool("new")}[which()] })
					f := follow(t, a)
					f.polls(4)
					all.Store(2)
					pass(time.Duration(polls)*30*time.Second + 15*time.Second)
					all.Store(int64(remains))
					pass(75 * time.Second)
					if got := f.names(); got != want+" get_version" {
						t.Errorf("%s for %d polls: %q, want %s", name, polls, got, want)
					}
				})
			}
		}
	}
}

// A replaced build that one poll reads is ignored; a rollback is served at the second poll.
func TestRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		f := follow(t, a)
		f.polls(1)
		poll := func(build, tools string, changes int) {
			t.Helper()
			a.set(build, tool(tools))
			for a.count("/api/version"); a.count("/api/version") == 0; {
				pass(time.Second)
			}
			f.wantChanges(changes)
		}
		f.wantChanges(1)
		poll("2", "b", 1)
		for range 3 {
			poll("1", "a", 0)
			poll("2", "b", 0)
		}
		poll("1", "a", 0)
		poll("1", "a", 1)
		f.want("a")
	})
}

// If the build differs in every response, every poll compares the catalog.
func TestBuildIsNoise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		var n atomic.Int64
		a.answer(func() (int, string) { return 200, fmt.Sprintf(`{"build":"up %d requests"}`, n.Add(1)) }, nil)
		f := follow(t, a)
		pass(time.Second)
		f.wantChanges(1)
		f.polls(5)
		for i := range 3 {
			name := fmt.Sprint("tool", i)
			a.answer(nil, func() (int, string) { return 200, tool("a", name) })
			pass(40 * time.Second)
			f.want("a " + name)
			f.wantChanges(1)
		}
		f.polls(30)
		f.wantChanges(0)
	})
}
