package login

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
)

// callbackPath is the default path of the redirect URI.
const callbackPath = "/callback"

// Redirect returns the redirect URI for a login: the one in the config or, by default, a URL of
// this machine, whose port may be 0 for any free port. A port argument other than 0 replaces the
// port in the config.
//
// For a client that the user registered with a fixed port, the host is localhost, as in the
// programs that introduced the config key. Otherwise the host is 127.0.0.1, which does not depend
// on name resolution (RFC 8252, section 8.3).
func (t Target) Redirect(port int) string {
	if u := localRedirect(t.OAuth.RedirectURI); u != nil {
		if port != 0 {
			u.Host = net.JoinHostPort(u.Hostname(), strconv.Itoa(port))
		}
		return u.String()
	}
	if t.OAuth.RedirectURI != "" && port == 0 {
		return t.OAuth.RedirectURI
	}
	if port == 0 {
		port = t.OAuth.CallbackPort
	}
	host := "127.0.0.1"
	if port != 0 && t.OAuth.ClientID != "" {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + callbackPath
}

// localRedirect parses a redirect URI. It returns nil if the URI does not point to this machine.
func localRedirect(raw string) *url.URL {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Fragment != "" || !ipscope.Loopback(u.Hostname()) {
		return nil
	}
	return u
}

// ErrElsewhere reports that a redirect URI does not point to this machine over HTTP.
var ErrElsewhere = errors.New("the redirect URI does not point to this machine")

// Callback is the listener to which the browser is redirected during a login. The caller of Listen
// must close it.
type Callback struct {
	Redirect string // the redirect URI, with the actual port

	host, path string // required in every request
	listeners  []net.Listener
}

// Listen opens the port of a redirect URI; port 0 selects a free port. The error is [ErrElsewhere]
// if the URI does not point to this machine.
func Listen(ctx context.Context, redirect string) (*Callback, error) {
	u := localRedirect(redirect)
	if u == nil {
		return nil, fmt.Errorf("%w: %s", ErrElsewhere, printable.Line(redirect, 200))
	}
	port := u.Port()
	if port == "" {
		port = httpPort
	}
	hosts := []string{u.Hostname()}
	if _, err := netip.ParseAddr(hosts[0]); err != nil { // localhost: browsers try IPv4 and IPv6
		hosts = []string{"127.0.0.1", "::1"}
	}
	c := &Callback{path: u.Path}
	for _, host := range hosts {
		var config net.ListenConfig
		l, err := config.Listen(ctx, "tcp", net.JoinHostPort(host, port))
		if err != nil && len(c.listeners) > 0 && !errors.Is(err, syscall.EADDRINUSE) {
			continue // IPv6 is not available on this machine
		}
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("the port that the browser is redirected to: %w", err)
		}
		c.listeners = append(c.listeners, l)
		_, port, _ = net.SplitHostPort(l.Addr().String())
	}
	if u.Port() != "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	c.Redirect, c.host = u.String(), strings.TrimSuffix(u.Host, ":"+httpPort)
	if c.path == "" {
		c.path = "/"
	}
	return c, nil
}

// httpPort is the default port for http, which browsers omit from URLs.
const httpPort = "80"

// Close releases the port. Serve also does so when it returns.
func (c *Callback) Close() {
	for _, l := range c.listeners {
		_ = l.Close()
	}
}

// Serve waits until the browser is redirected with a response that belongs to the flow. It then
// calls finish with the query of that request, and displays the outcome in the browser. Any other
// request to the port is rejected without side effects; strange, if not nil, is called with the
// reason.
func (c *Callback) Serve(ctx context.Context, f *Flow, finish func(context.Context, url.Values) error, strange func(reason string)) error {
	s := &answering{callback: c, flow: f, finish: finish, strange: strange, done: make(chan error, 1)}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, IdleTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	var serving sync.WaitGroup
	for _, l := range c.listeners {
		serving.Go(func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.end(err)
			}
		})
	}
	var err error
	select {
	case err = <-s.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if server.Shutdown(stopping) != nil {
		_ = server.Close()
	}
	serving.Wait()
	return err
}

// answering is the HTTP handler for one login.
type answering struct {
	callback *Callback
	flow     *Flow
	finish   func(context.Context, url.Values) error
	strange  func(reason string)
	// done receives the outcome of the login from the request that completes it. Capacity 1, so
	// that this request does not block; never closed.
	done chan error

	mu       sync.Mutex // guards answered
	answered bool
}

func (s *answering) end(err error) {
	select {
	case s.done <- err:
	default:
	}
}

// ServeHTTP implements [http.Handler].
func (s *answering) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	answer := q.URL.Query()
	switch {
	case !strings.EqualFold(strings.TrimSuffix(q.Host, ":"+httpPort), s.callback.host):
		s.refuse(w, http.StatusMisdirectedRequest, "This is not the redirect address of the login.")
	case q.URL.Path != s.callback.path:
		page(w, http.StatusNotFound, "Nothing is here", "This port only receives the redirect of a login.")
	case q.Method != http.MethodGet:
		s.refuse(w, http.StatusMethodNotAllowed, "The login callback only accepts GET.")
	case !s.flow.Ours(answer):
		s.refuse(w, http.StatusBadRequest, `This redirect belongs to another login: its "state" is not the one that mcptrack sent.`)
	case !s.first():
		s.refuse(w, http.StatusConflict, "This login has already been completed.")
	default:
		err := s.finish(q.Context(), answer)
		if err != nil {
			page(w, http.StatusBadGateway, "Not logged in", printable.Line(err.Error(), 500))
		} else {
			page(w, http.StatusOK, "Logged in to "+printable.Line(s.flow.target.ID, 128), "You can close this window.")
		}
		s.end(err)
	}
}

func (s *answering) first() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.answered
	s.answered = true
	return !was
}

func (s *answering) refuse(w http.ResponseWriter, status int, reason string) {
	page(w, status, "Refused", reason)
	if s.strange != nil {
		s.strange(reason)
	}
}

// page writes an HTML page without active content.
func page(w http.ResponseWriter, status int, title, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the URL contains the authorization code
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><meta charset="utf-8"><title>%[1]s</title>`+
		`<body style="font:1.1rem system-ui;margin:15vh auto;max-width:32rem;padding:0 1rem"><h1>%[1]s</h1><p>%[2]s</p></body></html>`,
		html.EscapeString(title), html.EscapeString(text))
}
