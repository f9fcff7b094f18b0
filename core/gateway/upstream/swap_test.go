package upstream

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A catalog without valid entries leaves only get_version, and is reported once.
func TestNothingValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		f := follow(t, a)
		pass(time.Second)
		a.set("2", `[1,{"name":"x","method":"TRACE","path":"/api/x"}]`)
		f.polls(4)
		f.want("")
		f.wantChanges(2)
		skips := func() int { return strings.Count(f.log.String(), "does not list an entry") }
		if skips() != 2 || !strings.Contains(f.log.String(), `item=x reason="the method is not GET, POST, PUT, PATCH or DELETE"`) {
			t.Fatalf("logged %s", f.log.String())
		}
		a.set("3", ` [1,{"name":"x","method":"TRACE","path":"/api/x"}]`)
		f.polls(4)
		if skips() != 2 {
			t.Errorf("the same skips were logged again: %s", f.log.String())
		}
		a.set("4", `[]`)
		f.polls(4)
		if skips() != 2 || !f.Status().Up {
			t.Errorf("%s, %+v", f.log.String(), f.Status())
		}
	})
}

// While builds change, readers and callers see consistent lists, each with its own routes.
func TestCatalogsAreConsistent(t *testing.T) {
	const size, builds = 20, 10
	list := func(n int64) string {
		var entries []string
		for i := range size {
			entries = append(entries, fmt.Sprintf(`{"name":"t%d","description":"of %d","method":"GET","path":"/api/%d/%d"}`, i, n, n, i))
		}
		return "[" + strings.Join(entries, ",") + "]"
	}
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		var build atomic.Int64
		a.other = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) })
		a.answer(func() (int, string) { return 200, fmt.Sprintf(`{"build":%d}`, build.Load()) },
			func() (int, string) { return 200, list(build.Load()) })
		f := follow(t, a, func(o *Options) { o.Interval = 100 * time.Millisecond })
		pass(50 * time.Millisecond)
		var done atomic.Bool
		var readers sync.WaitGroup
		for i := range 4 {
			readers.Go(func() {
				for !done.Load() {
					time.Sleep(rand.N(40 * time.Millisecond))
					c := f.Catalog()
					if len(c.Tools) != size+1 || c.Tools[size].Key != getVersion {
						t.Errorf("%d tools, the last %s", len(c.Tools), c.Tools[len(c.Tools)-1].Key)
						return
					}
					of := c.Tools[0].Describe().Description
					for _, it := range c.Tools[:size] {
						if d := it.Describe().Description; d != of {
							t.Errorf("%q and %q in one list", of, d)
							return
						}
						if want := "/api/" + strings.TrimPrefix(of, "of ") + "/"; !strings.Contains(c.routes[it.Key].route(), want) {
							t.Errorf("a tool %s with route %s", of, c.routes[it.Key].route())
							return
						}
					}
					if i > 0 {
						continue
					}
					if raw, err := f.Call(t.Context(), "t7", nil); err != nil || !json.Valid(raw) {
						t.Errorf("%s, %v", raw, err)
						return
					}
				}
			})
		}
		for range builds {
			build.Add(1)
			pass(150 * time.Millisecond)
			if got, want := f.Catalog().Build, fmt.Sprint(build.Load()); got != want {
				t.Errorf("build %s, want %s", got, want)
			}
		}
		done.Store(true)
		readers.Wait()
		f.wantChanges(builds + 1)
	})
}
