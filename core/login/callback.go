package login

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// callbackPath is the path that the browser comes back to.
const callbackPath = "/callback"

// Callback is where the browser comes back to: a port of this machine, while a login
// lasts. The caller that listens must Close it.
type Callback struct {
	Redirect string // the URL to come back to
	listener net.Listener
}

// Listen opens the port of a login on 127.0.0.1; 0 picks one.
func Listen(ctx context.Context, port int) (*Callback, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("the port that the browser comes back to: %w", err)
	}
	return &Callback{Redirect: "http://" + l.Addr().String() + callbackPath, listener: l}, nil
}

// Port returns the port of a redirect URI, 0 if there is none.
func Port(redirect string) int {
	u, err := url.Parse(redirect)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port()) // of a URL that was made here
	return port
}

// Close gives the port back. It is done by Serve, too.
func (c *Callback) Close() { _ = c.listener.Close() }

// Serve waits until the browser comes back with an answer to the flow, finishes the login
// with it, and shows in the browser what came of it. Whatever else comes to the port is
// refused and changes nothing; strange, if not nil, is called with the reason.
func (c *Callback) Serve(ctx context.Context, f *Flow, finish func(context.Context, url.Values) error, strange func(reason string)) error {
	s := &answering{callback: c, flow: f, finish: finish, strange: strange, done: make(chan error, 1)}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, IdleTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(c.listener); !errors.Is(err, http.ErrServerClosed) {
			s.end(err)
		}
	})
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

// answering is the handler of one login.
type answering struct {
	callback *Callback
	flow     *Flow
	finish   func(context.Context, url.Values) error
	strange  func(reason string)
	// done has room for one: how the login ended, sent by the one request that ends it;
	// never closed.
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
	case q.Host != s.callback.listener.Addr().String():
		s.refuse(w, http.StatusMisdirectedRequest, "This is not the address of the login.")
	case q.URL.Path != callbackPath:
		page(w, http.StatusNotFound, "Nothing is here", "This port is open for a login only.")
	case q.Method != http.MethodGet:
		s.refuse(w, http.StatusMethodNotAllowed, "A login is answered with GET.")
	case !s.flow.Ours(answer):
		s.refuse(w, http.StatusBadRequest, `This answer belongs to another login: its "state" is not the one that was sent.`)
	case !s.first():
		s.refuse(w, http.StatusConflict, "This login was answered already.")
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

// page writes a page without anything active in it.
func page(w http.ResponseWriter, status int, title, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the URL has the code
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><meta charset="utf-8"><title>%[1]s</title>`+
		`<body style="font:1.1rem system-ui;margin:15vh auto;max-width:32rem;padding:0 1rem"><h1>%[1]s</h1><p>%[2]s</p></body></html>`,
		html.EscapeString(title), html.EscapeString(text))
}
