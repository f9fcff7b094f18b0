package mcpserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/fair"
	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// Func handles one request and returns the result, a JSON object. The server adds only the members
// that the client's era requires. The client gets an *Error as it is, ErrNotFound as the era
// specifies, and any other error with code -32603 and its text. The value of a panic is not sent.
// A result may set ttlMs and cacheScope, which default to 0 and "private".
//
// ctx is cancelled when the client cancels the request, when it disconnects (except for a legacy
// HTTP client, whose session continues) and when the server closes; the Func must then return.
type Func func(ctx context.Context, r *Request) (json.RawMessage, error)

// Options configure a Server. The zero value offers nothing.
type Options struct {
	// Name, Title, Version and Instructions describe the server to clients; they default to
	// "mcptrack", "", "dev" and "".
	Name, Title, Version, Instructions string

	// Handlers of requests. The server does not declare a capability whose handler is nil.
	CallTool     Func // tools/call
	GetPrompt    Func // prompts/get
	ReadResource Func // resources/read; also enables subscriptions to resources
	Complete     Func // completion/complete
	Extension    Func // methods of the extensions in [Server.Describe]

	// Variant names the variant of the catalog that clients with these capabilities see; "" means
	// the common lists. It must return the same name for the same capabilities, return few
	// different names in all, and not block. Nil: all clients see the common lists.
	Variant func(capabilities json.RawMessage) string
	// AwaitVariant is called before a client gets a list of a named variant. It may wait until the
	// catalog has what such clients see; ctx ends with the request. May be nil.
	AwaitVariant func(ctx context.Context, variant string, capabilities json.RawMessage)

	// Events are the handlers of MCP Events; none by default.
	Events Events

	// Principal identifies the sender of an HTTP request. It is the same for all clients that may
	// use each other's sessions, and is not a secret. The default is a digest of the Authorization
	// header, made with Key (random by default, so that it differs from run to run). If nothing
	// checks that header before ServeHTTP, a client can invent any number of principals and thus
	// evade the limits per principal.
	Principal func(*http.Request) string
	Key       []byte

	// Subscriptions limit which URIs, and how many, clients can subscribe to.
	Subscriptions subscriptions.Options

	// PageSize is the maximum number of items in a page of a list; 1,000 by default. A page also
	// ends once it exceeds 1 MiB.
	PageSize int
	// MaxMessage is the maximum size of a client's message in bytes; 4 MiB by default.
	MaxMessage int
	// MaxInFlight bounds the calls, reads and prompts that run simultaneously; 256 by default. It
	// counts per connection on stdio, and over all clients on HTTP, where every principal gets its
	// share (see package fair). Further requests wait, and can be cancelled while they wait. On
	// stdio at most 1,024 wait, of 16 times MaxMessage in total; the others are rejected.
	MaxInFlight int
	// MaxSessions bounds legacy HTTP sessions; 2,000 by default. A principal that exceeds its
	// share loses its own longest idle sessions, see package fair.
	MaxSessions int
	// SessionIdle is how long a legacy HTTP session may be idle; 5 min by default.
	SessionIdle time.Duration
	// SessionDir is a directory used only for legacy HTTP sessions. With it they survive restarts
	// and idleness for a week, so clients keep their session. By default no session is stored.
	// Servers with the same Principal may share a directory, but a client must stay with one of
	// them while that server runs.
	SessionDir string
	// Heartbeat is the interval of comments on an idle HTTP stream; 15 s by default.
	Heartbeat time.Duration
	// WriteTimeout bounds each write to an HTTP stream; 10 s by default. A client that does not
	// read for that long is disconnected.
	WriteTimeout time.Duration
	// Logger receives the panics of Funcs with their stacks, and the reasons why sessions cannot
	// be stored in SessionDir. Nil discards them.
	Logger *slog.Logger
}

// Server serves any number of clients. Create it with New and Close it when done. All methods are
// safe for concurrent use.
type Server struct {
	opts     Options
	subs     *subscriptions.Manager
	lists    catalogs
	stored   *sessionDir // nil: legacy HTTP sessions end with the server
	sessions struct {
		mu   sync.Mutex
		byID map[string]*session
		room fair.Limit
	}
	about      atomic.Pointer[Description]
	serverMeta json.RawMessage // _meta of modern results
	slots      *fair.Slots     // for running HTTP requests

	ctx    context.Context // cancelled when the server closes
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup // connections and HTTP requests
}

// New returns a Server with an empty catalog.
func New(opts Options) *Server {
	opts.Name, opts.Version = cmp.Or(opts.Name, "mcptrack"), cmp.Or(opts.Version, "dev")
	opts.PageSize = cmp.Or(opts.PageSize, 1_000)
	opts.MaxMessage = cmp.Or(opts.MaxMessage, 4<<20)
	opts.MaxInFlight = cmp.Or(opts.MaxInFlight, 256)
	opts.MaxSessions = cmp.Or(opts.MaxSessions, 2_000)
	opts.SessionIdle = cmp.Or(opts.SessionIdle, 5*time.Minute)
	opts.Heartbeat = cmp.Or(opts.Heartbeat, 15*time.Second)
	opts.WriteTimeout = cmp.Or(opts.WriteTimeout, 10*time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: opts, subs: subscriptions.New(opts.Subscriptions), slots: fair.NewSlots(opts.MaxInFlight)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.Describe(Description{Instructions: opts.Instructions})
	s.lists.start()
	s.sessions.byID, s.sessions.room.Max = make(map[string]*session), opts.MaxSessions
	if opts.SessionDir != "" {
		s.stored = openSessionDir(opts.SessionDir, 2*opts.MaxSessions, opts.Logger)
	}
	if len(s.opts.Key) == 0 {
		s.opts.Key = []byte(rand.Text())
	}
	s.serverMeta = encode(map[string]mcp.Implementation{mcp.MetaServerInfo: s.opts.info()})
	return s
}

// Updated notifies the subscribers of each URI. The new content must already be readable.
func (s *Server) Updated(uris ...string) { s.subs.Updated(uris...) }

// Subscriptions returns the server's subscription manager, for queries.
func (s *Server) Subscriptions() *subscriptions.Manager { return s.subs }

// SetCatalog replaces all lists in one step, notifies every client of the changed lists that it
// sees, and returns the lists that changed for any client. An equal catalog causes no
// notification. The server keeps the slices of c: the caller must not modify them afterwards.
func (s *Server) SetCatalog(c Catalog) (changed subscriptions.Lists) {
	change := s.lists.set(c)
	s.subs.CatalogChanged(change)
	s.resubscribe()
	return change.All()
}

// variant names the variant of the catalog that a client with these capabilities sees.
func (s *Server) variant(capabilities json.RawMessage) string {
	if s.opts.Variant == nil || len(capabilities) <= len("{}") {
		return ""
	}
	return s.opts.Variant(capabilities)
}

// subscriber opens a subscriber for a client.
func (s *Server) subscriber(principal string, capabilities json.RawMessage, lists subscriptions.Lists) (*subscriptions.Subscriber, error) {
	viewer := subscriptions.Viewer{Principal: principal, Variant: s.variant(capabilities), Generation: s.lists.generation()}
	return s.subs.OpenFor(viewer, lists)
}

// Describe replaces the description that later clients get. Connected clients are not notified.
func (s *Server) Describe(d Description) { s.about.Store(&d) }

// Close ends every stream (a listen with its result), cancels requests in flight and waits for all
// goroutines of the server. It waits up to a second longer for a client that does not read. Later
// requests are rejected. A Func must not call Close, which waits for Funcs. Further calls have no
// effect.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	s.closeSessions()
}

// enter registers a connection or an HTTP request, which Close then waits for. It reports false
// after Close.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.wg.Add(1)
	return true
}

// run calls f and converts a panic to an error.
func (s *Server) run(ctx context.Context, f Func, r *Request) (result json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The value may contain secrets: it is not sent to the client.
			s.opts.Logger.Error("a request handler panicked", "method", r.Method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			result, err = nil, fmt.Errorf("%s: internal error", r.Method)
		}
	}()
	result, err = f(ctx, r)
	if err == nil && len(result) == 0 {
		err = fmt.Errorf("%s returned no result", r.Method)
	}
	return result, err
}

// Description describes the server to clients, in addition to Options.
type Description struct {
	Instructions string // replaces Options.Instructions
	// Extensions are the capabilities of extensions, by identifier. The methods of the extension
	// "…/NAME" begin with "NAME/"; Options.Extension handles them.
	Extensions map[string]json.RawMessage
	// Logging declares that legacy clients can set a log level: Options.Extension also handles
	// logging/setLevel.
	Logging bool
	// Tasks is the capability "tasks" for clients of 2025-11-25, a JSON object; nil without tasks.
	// Options.Extension handles tasks/get and the other methods of tasks. In the modern era tasks
	// are an extension.
	Tasks json.RawMessage
	// WatchTasks is called for a modern listen that requests notifications of tasks. It returns
	// the ids that it knows and must not block. ctx ends with the listen. May be nil.
	WatchTasks func(ctx context.Context, w TaskWatch) (known []string)
}

// TaskWatch is a subscriptions/listen that requests notifications of tasks.
type TaskWatch struct {
	IDs          []string        // of the tasks
	Principal    string          // of the client; see [Request]
	Capabilities json.RawMessage // of the client
	// Send sends the client a notifications/tasks with params, a JSON object. It does not block: a
	// client that does not read gets the latest notification of each task, for at most 256 tasks
	// and 4 MiB.
	Send func(params json.RawMessage)
}

// declares reports whether a method belongs to a declared extension.
func (d *Description) declares(method string) bool {
	name, _, ok := strings.Cut(method, "/")
	if !ok || d == nil {
		return false
	}
	for id := range d.Extensions {
		if id[strings.LastIndexByte(id, '/')+1:] == name {
			return true
		}
	}
	return false
}

// offers reports whether a method is available in an era.
func (s *Server) offers(method string, modern bool) bool {
	o, about := &s.opts, s.about.Load()
	switch method {
	case mcp.MethodListTools, mcp.MethodCallTool:
		return o.CallTool != nil
	case mcp.MethodListPrompts, mcp.MethodGetPrompt:
		return o.GetPrompt != nil
	case mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodReadResource:
		return o.ReadResource != nil
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		return o.ReadResource != nil && !modern
	case mcp.MethodComplete:
		return o.Complete != nil
	case mcp.MethodInitialize, mcp.MethodPing:
		return !modern
	case mcp.MethodDiscover, mcp.MethodListen:
		return modern
	case mcp.MethodListEvents, mcp.MethodPollEvents, mcp.MethodSubscribeEvents, mcp.MethodUnsubscribeEvents, mcp.MethodStreamEvents:
		if o.Events.offered() {
			return true
		}
	}
	if method == mcp.MethodSetLevel {
		return !modern && about.Logging && o.Extension != nil
	}
	if !modern && strings.HasPrefix(method, "tasks/") {
		return about.Tasks != nil && o.Extension != nil
	}
	return o.Extension != nil && about.declares(method)
}

// capabilities returns the capabilities of the server and its extensions.
func (s *Server) capabilities(about *Description) json.RawMessage {
	has := s.opts.listsOffered()
	caps := encode(mcp.Capabilities{
		Tools: has.Tools, ToolsListChanged: has.Tools,
		Prompts: has.Prompts, PromptsListChanged: has.Prompts,
		Resources: has.Resources, ResourcesListChanged: has.Resources, ResourcesSubscribe: has.Resources,
		Completions: s.opts.Complete != nil,
	})
	extensions := about.Extensions
	if has.Events {
		// Some clients look for events among the extensions, others beside them.
		extensions = maps.Clone(extensions)
		if extensions == nil {
			extensions = map[string]json.RawMessage{}
		}
		extensions[mcp.ExtensionEvents] = json.RawMessage(eventsCapability)
		caps, _ = with(caps, []member{{"events", json.RawMessage(eventsCapability)}}) // it is an object
	}
	if len(extensions) > 0 {
		caps, _ = with(caps, []member{{"extensions", encode(extensions)}})
	}
	return caps
}

// listsOffered returns the lists whose changes clients are notified of.
func (o *Options) listsOffered() subscriptions.Lists {
	return subscriptions.Lists{
		Tools:     o.CallTool != nil,
		Prompts:   o.GetPrompt != nil,
		Resources: o.ReadResource != nil,
		Events:    o.Events.offered(),
	}
}

func (o *Options) info() mcp.Implementation {
	return mcp.Implementation{Name: o.Name, Title: o.Title, Version: o.Version}
}

// initialized returns the result of initialize and the negotiated version: the client's if it is
// supported, else the newest legacy version.
func (s *Server) initialized(m *message) (version string, result json.RawMessage, err *Error) {
	version = text(m.fields["protocolVersion"])
	if version == "" {
		return "", nil, errorf(mcp.CodeInvalidParams, `initialize: "protocolVersion" must be a string`)
	}
	if !mcp.IsLegacy(version) {
		version = mcp.LatestLegacy
	}
	about := s.about.Load()
	caps := s.capabilities(about)
	if about.Logging {
		caps, _ = with(caps, []member{{"logging", json.RawMessage("{}")}}) // it is an object
	}
	if about.Tasks != nil && version == mcp.LatestLegacy {
		caps, _ = with(caps, []member{{"tasks", about.Tasks}}) // it is an object
	}
	return version, encode(struct {
		Version      string             `json:"protocolVersion"`
		Capabilities json.RawMessage    `json:"capabilities"`
		Info         mcp.Implementation `json:"serverInfo"`
		Instructions string             `json:"instructions,omitempty"`
	}{version, caps, s.opts.info(), about.Instructions}), nil
}

// withoutInitialize returns the versions that a request can name without initialize.
func withoutInitialize() []string { return []string{mcp.ModernVersion} }

// discovered returns the result of server/discover.
func (s *Server) discovered() json.RawMessage {
	about := s.about.Load()
	return encode(struct {
		Versions     []string        `json:"supportedVersions"`
		Capabilities json.RawMessage `json:"capabilities"`
		Instructions string          `json:"instructions,omitempty"`
	}{withoutInitialize(), s.capabilities(about), about.Instructions})
}

// checkMeta validates the protocol members of a modern request's _meta.
func checkMeta(m *message) *Error {
	version := m.version()
	switch {
	case m.meta[mcp.MetaProtocolVersion] == nil:
		return errorf(mcp.CodeInvalidParams, "params._meta lacks %q", mcp.MetaProtocolVersion)
	case version != mcp.ModernVersion:
		return &Error{
			Code: mcp.CodeUnsupportedVersion, Message: "unsupported protocol version",
			Data: map[string]any{"supported": withoutInitialize(), "requested": bounded(version)},
		}
	}
	if _, err := object(m.meta[mcp.MetaClientCapabilities]); err != nil {
		return errorf(mcp.CodeInvalidParams, "params._meta.%q must be an object", mcp.MetaClientCapabilities)
	}
	return nil
}

// encode marshals values that cannot fail to encode.
func encode(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}
