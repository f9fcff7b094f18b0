package upstream

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// api is an HTTP API on an in-process network, so that a real server and a real client
// communicate under the fake time of synctest.
type api struct {
	mu      sync.Mutex
	version func() (status int, body string)
	tools   func() (status int, body string)
	etags   bool
	asked   []string // every request, as METHOD PATH
	other   http.Handler

	unmodified atomic.Int64 // answers 304

	conns chan net.Conn // from dial to Accept; no capacity; never closed
	gone  chan struct{} // closed by Close of the listener
	once  sync.Once
}

func newAPI(t *testing.T) *api {
	a := &api{conns: make(chan net.Conn), gone: make(chan struct{})}
	a.set("1", tool("a"))
	srv := &http.Server{Handler: a}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(a) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return a
}

func (a *api) Accept() (net.Conn, error) {
	select {
	case c := <-a.conns:
		return c, nil
	case <-a.gone:
		return nil, net.ErrClosed
	}
}

func (a *api) Close() error {
	a.once.Do(func() { close(a.gone) })
	return nil
}

func (a *api) Addr() net.Addr { return &net.TCPAddr{} }

func (a *api) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case a.conns <- theirs:
		return ours, nil
	case <-a.gone:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.asked = append(a.asked, r.Method+" "+r.URL.RequestURI())
	version, tools, etags, other := a.version, a.tools, a.etags, a.other
	a.mu.Unlock()
	status, body := http.StatusNotFound, ""
	switch r.URL.Path {
	case "/api/version":
		status, body = version()
	case "/api/mcp/tools":
		status, body = tools()
		if etags {
			etag := fmt.Sprintf("\"%08x\"", crc32.ChecksumIEEE([]byte(body)))
			w.Header().Set("ETag", etag)
			if r.Header.Get("If-None-Match") == etag {
				a.unmodified.Add(1)
				w.WriteHeader(http.StatusNotModified)
				return
			}
		}
	default:
		other.ServeHTTP(w, r)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

func (a *api) set(build, tools string) {
	a.answer(func() (int, string) { return 200, fmt.Sprintf(`{"version":"v","build":%q,"git_commit":"c"}`, build) },
		func() (int, string) { return 200, tools })
}

func (a *api) answer(version, tools func() (int, string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if version != nil {
		a.version = version
	}
	if tools != nil {
		a.tools = tools
	}
}

// count returns the number of requests for a path since the last call.
func (a *api) count(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	a.asked = slices.DeleteFunc(a.asked, func(asked string) bool {
		if strings.HasSuffix(asked, path) {
			n++
			return true
		}
		return false
	})
	return n
}

func down() (int, string) { return http.StatusServiceUnavailable, "" }

// tool returns a catalog of plain GET tools.
func tool(names ...string) string {
	var entries []string
	for _, name := range names {
		entries = append(entries, fmt.Sprintf(`{"name":%q,"description":"does %s","method":"GET","path":"/api/%s"}`, name, name, name))
	}
	return "[" + strings.Join(entries, ",") + "]"
}

// recorder is an Upstream under test that records its callbacks.
type recorder struct {
	*testing.T
	*Upstream
	mu      sync.Mutex
	changes []catalog.Delta
	last    *Catalog
	states  []bool
	log     lockedBuffer
	ran     chan struct{} // closed when Run has returned
	cancel  context.CancelFunc
}

// follow runs an upstream for the API until the test ends.
func follow(t *testing.T, a *api, change ...func(*Options)) *recorder {
	t.Helper()
	f := &recorder{T: t, ran: make(chan struct{}), last: emptyCatalog()}
	opts := Options{URL: "http://api.test/", Client: &http.Client{Transport: &http.Transport{DialContext: a.dial, DisableKeepAlives: true}}, Changed: f.record}
	opts.Logger = slog.New(slog.NewTextHandler(&f.log, nil))
	for _, c := range change {
		c(&opts)
	}
	u, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	f.Upstream = u
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(f.ran)
		u.Run(ctx)
	}()
	t.Cleanup(func() {
		f.cancel()
		<-f.ran
	})
	return f
}

// record records what has changed: the list of tools, or whether the API is reachable.
func (f *recorder) record() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Catalog()
	if d := catalog.Diff(f.last.List(), now.List()); !d.Empty() {
		f.changes = append(f.changes, d)
	} else {
		f.states = append(f.states, f.Status().Up)
	}
	f.last = now
}

func (f *recorder) names() string {
	var names []string
	for _, it := range f.Catalog().Tools {
		names = append(names, it.Key)
	}
	return strings.Join(names, " ")
}

func (f *recorder) want(names string) {
	f.Helper()
	if got := f.names(); got != strings.TrimSpace(names+" get_version") {
		f.Errorf("tools are %q, want %q and get_version", got, names)
	}
}

// wantChanges checks the number of changes of the tools since the last check.
func (f *recorder) wantChanges(n int) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.changes) != n {
		f.Errorf("%d changes, want %d: %+v", len(f.changes), n, f.changes)
	}
	f.changes = nil
}

// polls waits for the time of n polls.
func (f *recorder) polls(n int) { pass(time.Duration(n)*33*time.Second + 5*time.Second) }

// pass waits until fake time has passed and all goroutines are blocked.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
