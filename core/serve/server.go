package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// Func answers one request with the result's JSON object, which the server may
// complete with members of the era but does not change otherwise. An *Error is
// answered as it is, ErrNotFound as the era has it, and any other error as a code
// -32603 with its text; a panic is answered without its value. A result may set
// ttlMs and cacheScope, which are 0 and "private" otherwise. ctx ends when the client
// cancels the request, when it leaves (but not a legacy client over HTTP, whose
// session may go on), or when the server closes; the Func must return then.
type Func func(ctx context.Context, r *Request) (json.RawMessage, error)

// Options of a Server. The zero value offers nothing but is usable.
type Options struct {
	// Name, Title, Version and Instructions are told to clients. "mcptrack", "", "dev", "".
	Name, Title, Version, Instructions string

	// What can be asked for; a nil function is a capability that is not declared.
	CallTool     Func // tools/call
	GetPrompt    Func // prompts/get
	ReadResource Func // resources/read; resources can be subscribed then
	Complete     Func // completion/complete

	// Subscriptions say which URIs can be subscribed, and how many.
	Subscriptions subscriptions.Options

	// PageSize is how many items a page of a list has at most; 1,000. A page also
	// ends when it has more than 1 MiB.
	PageSize int
	// MaxMessage bounds one message of a client in bytes; 4 MiB.
	MaxMessage int
	// MaxInWork bounds the calls, reads and prompts in work for one connection (or
	// for all clients of HTTP together); further ones wait, and can be cancelled
	// meanwhile. 256.
	MaxInWork int
	// MaxWaiting bounds those that wait on one connection of standard streams, and
	// sixteen times MaxMessage their size; further ones are refused. Over HTTP the
	// connections are the bound. 1,024.
	MaxWaiting int
	// MaxListens bounds the listens open on one connection of standard streams; 64.
	// Over HTTP Subscriptions.MaxSubscribers is the bound.
	MaxListens int
	// MaxSessions bounds legacy HTTP sessions; 2,000.
	MaxSessions int
	// SessionIdle is how long a legacy HTTP session without a stream is kept; 5 min.
	SessionIdle time.Duration
	// Heartbeat is the time between two comments on a silent HTTP stream; 15 s.
	Heartbeat time.Duration
	// WriteTimeout bounds one write to an HTTP stream; a client that does not read
	// for so long is cut off. 10 s.
	WriteTimeout time.Duration
	// Logger gets the panics of functions, with their stacks; nil discards them.
	Logger *slog.Logger
}

// Server serves any number of clients. Make it with New and Close it. All methods
// may be called from any goroutine.
type Server struct {
	opts  Options
	subs  *subscriptions.Manager
	lists catalogs
	http  sessions
	stamp json.RawMessage // _meta of modern results
	key   []byte          // of digests of credentials
	// work has a slot for each HTTP request in work, which its handler takes and
	// gives back.
	work chan struct{}

	ctx    context.Context // done when the server closes
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup // connections and HTTP requests
}

// New makes a Server with an empty catalog.
func New(opts Options) *Server {
	opts.Name, opts.Version = cmp.Or(opts.Name, "mcptrack"), cmp.Or(opts.Version, "dev")
	opts.PageSize = cmp.Or(opts.PageSize, 1_000)
	opts.MaxMessage = cmp.Or(opts.MaxMessage, 4<<20)
	opts.MaxInWork = cmp.Or(opts.MaxInWork, 256)
	opts.MaxWaiting = cmp.Or(opts.MaxWaiting, 1_024)
	opts.MaxListens = cmp.Or(opts.MaxListens, 64)
	opts.MaxSessions = cmp.Or(opts.MaxSessions, 2_000)
	opts.SessionIdle = cmp.Or(opts.SessionIdle, 5*time.Minute)
	opts.Heartbeat = cmp.Or(opts.Heartbeat, 15*time.Second)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, 10*time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: opts, subs: subscriptions.New(opts.Subscriptions), work: make(chan struct{}, opts.MaxInWork)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.lists.start()
	s.http.start(s)
	s.key = []byte(rand.Text())
	s.stamp = encode(map[string]info{metaServer: s.info()})
	return s
}

// Updated tells the subscribers of each URI that it changed. The new content must be
// readable before.
func (s *Server) Updated(uris ...string) { s.subs.Updated(uris...) }

// Subscriptions returns what the server knows of its subscribers, to ask it.
func (s *Server) Subscriptions() *subscriptions.Manager { return s.subs }

// SetCatalog replaces all lists in one step and tells the clients which of them
// changed; an equal catalog tells nothing. The server keeps the slices: the caller
// must not write to them any more.
func (s *Server) SetCatalog(c Catalog) (changed subscriptions.Lists) {
	changed = s.lists.set(c)
	s.subs.ListChanged(changed)
	return changed
}

// Close ends every stream (a listen with its result), cancels what is in work, and
// returns when nothing of the server runs, which takes a second more if a client does
// not read. Requests that come later are refused. It must not be called by a Func,
// which it waits for. Closing again does no harm.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	s.http.close()
}

// enter counts a connection or a request in. It reports false after Close.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

// run calls a function of the options and turns its panic into an error.
func (s *Server) run(ctx context.Context, f Func, r *Request) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The client is not told the value, which may hold anything.
			s.opts.Logger.Error("a function panicked", "method", r.Method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result, err = nil, fmt.Errorf("%s: internal error", r.Method)
		}
	}()
	result, err = f(ctx, r)
	if err == nil && len(result) == 0 {
		err = fmt.Errorf("%s gave no result", r.Method)
	}
	return result, err
}
