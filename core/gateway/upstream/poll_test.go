package upstream

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A new build is served within the interval and ten seconds; an identical or reordered catalog
// is no change.
func TestNewBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		f := follow(t, a)
		pass(time.Second)
		f.want("a")
		f.wantChanges(1)
		for i := range 20 { // at any point of the interval
			name := fmt.Sprint("tool", i)
			a.set(f.Catalog().Build+"1", tool("a", name))
			pass(40 * time.Second)
			f.want("a " + name)
			f.wantChanges(1)
		}
		a.set("new", tool("a", "b"))
		f.polls(5)
		f.wantChanges(1)
		a.set("same", tool("a", "b"))
		f.polls(5)
		a.set("order", tool("b", "a"))
		f.polls(5)
		f.want("a b")
		f.wantChanges(0)
		if got := f.Catalog().Build; got != "order" {
			t.Errorf("build %q", got)
		}
	})
}

// A route that changes under the same descriptor is used and is no change.
func TestRouteChangesSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.other = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) })
		f := follow(t, a)
		pass(time.Second)
		a.set("2", `[{"name":"a","description":"does a","method":"GET","path":"/api/v2/a"}]`)
		f.polls(2)
		f.wantChanges(1)
		if got, err := f.Call(t.Context(), "a", nil); err != nil || !strings.Contains(string(got), `"/api/v2/a"`) {
			t.Errorf("%s, %v", got, err)
		}
	})
}

// An API that goes down keeps its tools; the tools of an API that was down at the start appear
// after the first successful poll.
func TestDownAndUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.answer(down, down)
		f := follow(t, a)
		if err := f.Settled(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("settled with %v", err)
		}
		f.want("")
		f.polls(3)
		f.wantChanges(0)
		a.set("1", tool("a"))
		f.polls(1)
		f.want("a")
		f.wantChanges(1)
		a.answer(down, down)
		f.polls(3)
		if st := f.Status(); st.Up || !strings.Contains(st.Error, "503") || f.Catalog().Build != "1" {
			t.Errorf("%+v", st)
		}
		a.set("1", tool("a"))
		f.polls(3)
		f.want("a")
		f.wantChanges(0)
		if want := []bool{false, true, false, true}; !slices.Equal(f.states, want) {
			t.Errorf("states %v, want %v", f.states, want)
		}
	})
}

// Before the first catalog, polls are more frequent.
func TestFirstPollsAreQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.answer(down, nil)
		f := follow(t, a)
		pass(6 * time.Second)
		a.set("1", tool("a"))
		pass(10 * time.Second)
		f.want("a")
		a.count("/api/version")
		a.answer(down, nil)
		f.polls(10)
		if n := a.count("/api/version"); n < 9 || n > 13 {
			t.Errorf("%d polls in ten intervals", n)
		}
	})
}

// After a new build, a catalog that cannot be read is requested at every poll.
func TestFailedFetchIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, broken := range map[string]func() (int, string){
			"status": down, "html": func() (int, string) { return 200, "<html>" }, "null": func() (int, string) { return 200, "null" },
			"object": func() (int, string) { return 200, `{"tools":[]}` }, "large": func() (int, string) { return 200, strings.Repeat(" ", MaxCatalogBytes+1) },
			"not modified": func() (int, string) { return 304, "" }, "empty": func() (int, string) { return 200, "" },
		} {
			a := newAPI(t)
			f := follow(t, a)
			pass(time.Second)
			a.set("2", "")
			a.answer(nil, broken)
			f.polls(4)
			f.want("a")
			f.wantChanges(1)
			if f.Catalog().Build != "1" || f.Status().Up {
				t.Errorf("%s: build %s, %+v", name, f.Catalog().Build, f.Status())
			}
			a.set("2", tool("a", "b"))
			pass(40 * time.Second)
			f.want("a b")
			f.wantChanges(1)
		}
	})
}

// A deployment between the requests for version and catalog is noticed, at any point.
func TestDeployInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for requests := range 3 {
			a := newAPI(t)
			var n atomic.Int64
			deployed := func() bool { return n.Add(1) > int64(requests) }
			a.answer(func() (int, string) {
				if deployed() {
					return 200, `{"build":"2"}`
				}
				return 200, `{"build":"1"}`
			}, func() (int, string) {
				if deployed() {
					return 200, tool("new")
				}
				return 200, tool("old")
			})
			f := follow(t, a)
			pass(40 * time.Second)
			f.want("new")
			if f.Catalog().Build != "2" {
				t.Errorf("after %d requests: build %q", requests, f.Catalog().Build)
			}
		}
	})
}

// A catalog that appears later than its build, from a cache or another backend, is found.
func TestCatalogLagsBehindBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		f := follow(t, a)
		f.polls(4)
		a.set("2", tool("a"))
		pass(40 * time.Second)
		a.set("2", tool("a", "b"))
		f.polls(1)
		f.want("a b")
	})
}

// Polls use new connections, as a load balancer assigns backends to connections.
func TestPollsDoNotKeepConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		var dialled atomic.Int64
		f := follow(t, a, func(o *Options) {
			o.Client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				dialled.Add(1)
				return a.dial(ctx, network, addr)
			}}}
		})
		f.polls(10)
		if asked := a.count("/api/version") + a.count("/api/mcp/tools"); asked < 10 || dialled.Load() != int64(asked) {
			t.Errorf("%d connections for %d requests", dialled.Load(), asked)
		}
	})
}

// Without a build the catalog is compared, by ETag if there is one.
func TestWithoutBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, version := range map[string]func() (int, string){
			"no route":     func() (int, string) { return 404, "" },
			"no build":     func() (int, string) { return 200, `{"version":"1.2"}` },
			"empty build":  func() (int, string) { return 200, `{"build":""}` },
			"null":         func() (int, string) { return 200, `{"build":null}` },
			"wrong case":   func() (int, string) { return 200, `{"Build":"1"}` },
			"not JSON":     func() (int, string) { return 200, "ok" },
			"endless text": func() (int, string) { return 200, strings.Repeat("x", MaxVersionBytes+1) },
		} {
			for _, etags := range []bool{false, true} {
				if etags && name != "no route" {
					continue
				}
				a := newAPI(t)
				a.etags = etags
				a.answer(version, nil)
				f := follow(t, a)
				pass(time.Second)
				f.want("a")
				f.wantChanges(1)
				f.polls(3)
				f.wantChanges(0)
				a.answer(nil, func() (int, string) { return 200, tool("a", "b") })
				pass(40 * time.Second)
				f.want("a b")
				f.wantChanges(1)
				a.answer(nil, func() (int, string) { return 200, tool("b", "a") })
				f.polls(2)
				f.want("a b")
				f.wantChanges(0)
				a.answer(nil, func() (int, string) { return 200, tool("c") })
				pass(40 * time.Second)
				f.want("c")
				f.wantChanges(1)
				before := a.unmodified.Load()
				if f.polls(10); etags != (a.unmodified.Load() > before+8) {
					t.Errorf("%d answers of ten say that nothing was modified", a.unmodified.Load()-before)
				}
				if t.Failed() {
					t.Fatalf("%s, etags %t", name, etags)
				}
			}
		}
	})
}

// A build may be a number.
func TestNumericBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.answer(func() (int, string) { return 200, `{"build":12345678901234567890}` }, nil)
		f := follow(t, a)
		pass(time.Second)
		if got := f.Catalog().Build; got != "12345678901234567890" {
			t.Errorf("build %q", got)
		}
	})
}

// Polls have a jitter of at most 20 %.
func TestJitter(t *testing.T) {
	p := newPoller(&Upstream{opts: Options{Interval: 30 * time.Second}})
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := p.wait(nil)
		if d < 24*time.Second || d > 36*time.Second+1 {
			t.Fatalf("%s", d)
		}
		seen[d] = true
	}
	if len(seen) < 900 {
		t.Errorf("%d different waits of 1000", len(seen))
	}
}

// A backend that never answers makes a poll time out.
func TestHungBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		f := follow(t, a)
		pass(time.Second)
		free := make(chan struct{})
		a.answer(func() (int, string) { <-free; return 200, "" }, nil)
		f.polls(2)
		if st := f.Status(); st.Up || !strings.Contains(st.Error, "no response within 5s") {
			t.Errorf("%+v", st)
		}
		close(free)
		a.set("2", tool("b"))
		f.polls(2)
		f.want("b")
	})
}

// Run ends with its context, also during a poll. What was read stays.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		f := follow(t, a)
		pass(time.Second)
		free := make(chan struct{})
		defer close(free)
		a.answer(func() (int, string) { <-free; return 200, "" }, nil)
		pass(40 * time.Second) // a poll is in progress
		f.cancel()
		<-f.ran
		f.want("a")
	})
}
