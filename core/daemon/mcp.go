package daemon

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
)

// MCPPath is the path of the endpoints that the handler of [Daemon.MCP] serves, before the id of a
// server.
const MCPPath = "/mcp/"

// httpIdle is how long after its last request over HTTP a group may have clients; sessions without a stream end earlier.
const httpIdle = 10 * time.Minute

// An endpoint is what a URL of MCP names: a config, the folder in which it is read, and one of its
// servers or, if that is "", all of them.
type endpoint struct{ config, folder, server string }

// MCP returns a handler that serves MCP over HTTP at MCPPath + ID?config=FILE&folder=DIR. The files are
// absolute paths. A client can name any config, and thus run any command; the caller must check that it
// is the user's. Clients of one endpoint share even servers with "shared": false, and variables are
// looked up with Options.LookupEnv. While Run does not run, requests are refused.
func (d *Daemon) MCP() http.Handler { return http.HandlerFunc(d.serveMCP) }

func (d *Daemon) serveMCP(w http.ResponseWriter, r *http.Request) {
	ctx, done := d.request(r)
	if ctx == nil {
		refuse(w, errNotRunning)
		return
	}
	defer done()
	id, ok := strings.CutPrefix(r.URL.Path, MCPPath)
	query := r.URL.Query()
	e := endpoint{query.Get("config"), query.Get("folder"), strings.TrimSuffix(id, "/")} // some clients add a slash
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case !filepath.IsAbs(e.config) || !filepath.IsAbs(e.folder):
		http.Error(w, "the URL must name a config and a folder by their absolute paths: "+MCPPath+"SERVER?config=FILE&folder=DIR", http.StatusBadRequest)
		return
	case !utf8.ValidString(e.config + e.folder): // groups are identified by JSON
		http.Error(w, "the paths of the config and the folder must be UTF-8", http.StatusBadRequest)
		return
	}
	g, err := d.enterEndpoint(ctx, e)
	if err != nil {
		refuse(w, err)
		return
	}
	defer g.leave()
	g.gw.Server().ServeHTTP(w, r.WithContext(ctx))
}

var errNotRunning = errors.New("the daemon is starting or stopping")

// refuse answers a request that has no group.
func refuse(w http.ResponseWriter, err error) {
	text, status := printable.Reason(err, 2000), http.StatusInternalServerError
	if refused, ok := errors.AsType[*ipc.Refused](err); ok {
		if status = http.StatusUnprocessableEntity; refused.Code == "unknown_server" || refused.Code == "config_missing" {
			status = http.StatusNotFound
		}
		if refused.Hint != "" {
			text += "\nhint: " + printable.Line(refused.Hint, 1000)
		}
	}
	if errors.Is(err, errNotRunning) {
		w.Header().Set("Retry-After", "1")
		status = http.StatusServiceUnavailable
	}
	http.Error(w, text, status)
}

// request begins a request, unless Run does not run: then the context is nil. A stream, which does not
// end by itself, ends when Run begins to stop.
func (d *Daemon) request(r *http.Request) (ctx context.Context, done func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil || d.running.Err() != nil {
		return nil, nil
	}
	d.requests.Add(1)
	ctx, cancel := context.WithCancel(r.Context())
	stop := func() bool { return true }
	if r.Method == http.MethodGet || r.Header.Get(mcp.HeaderMethod) == mcp.MethodListen {
		stop = context.AfterFunc(d.running, cancel)
	}
	return ctx, func() {
		stop()
		cancel()
		d.requests.Done()
	}
}

// httpClient is the name of all HTTP clients; see [ipc.Hello].
const httpClient = "http"

// enterEndpoint returns the group of an endpoint, and counts the request as a client. The caller must
// call leave. The config is read when the endpoint is first used; then the group follows it.
func (d *Daemon) enterEndpoint(ctx context.Context, e endpoint) (*Group, error) {
	d.mu.Lock()
	if g := d.endpoints[e]; g != nil && (e.server == "" || len(g.servers) > 0) {
		g.join()
		d.mu.Unlock()
		return g, nil
	}
	d.mu.Unlock()
	hello := ipc.Hello{Purpose: ipc.Attach, Client: httpClient, Folder: e.folder, Config: e.config, Server: e.server}
	hello.Path, _ = d.opts.LookupEnv("PATH")
	who, source, err := d.open(ctx, hello, func(need []string) (map[string]string, error) {
		values := map[string]string{}
		for _, name := range need {
			if value, ok := d.opts.LookupEnv(name); ok {
				values[name] = value
			}
		}
		return values, nil
	})
	if err != nil {
		return nil, err
	}
	g, err := d.enter(who, source)
	if err != nil {
		return nil, err
	}
	g.settle(ctx, nil)
	if !d.remember(e, g) {
		g.leave()
		return nil, errNotRunning
	}
	return g, nil
}

// remember stores the group of an endpoint. It returns false if Run has begun to stop, so that the group
// may be closed.
func (d *Daemon) remember(e endpoint, g *Group) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		return false
	}
	d.endpoints[e], g.overHTTP = g, true
	return true
}

// recent reports whether a group was used over HTTP lately, so that it may have clients although none is
// connected. d.mu must be held.
func (g *Group) recent() bool { return g.overHTTP && time.Since(g.left) < httpIdle }
