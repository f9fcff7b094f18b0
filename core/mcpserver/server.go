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
	"github.com/mcptrack/mcptrack/core/tracing"
)

// Func handles one request and returns the result, a JSON object. The server adds only the members
// that the client's era requires. An *Error is sent to the client unchanged, ErrNotFound with the
// code that the era specifies, and any other error as text with code -32603. The value of a panic
// is never sent. A result may set ttlMs and cacheScope, which default to 0 and "private".
//
// ctx is cancelled when the client cancels the request, when the client disconnects (except for a
// legacy HTTP client, whose session continues) and when the server closes. The Func must then
// return.
type Func func(ctx context.Context, r *Request) (json.RawMessage, error)

// Options configures a Server. A Server with zero Options offers no capabilities.
type Options struct {
	// Name, Title, Version and Instructions describe the server to clients. Name defaults to
	// "mcptrack" and Version to "dev"; the others are empty by default.
	Name, Title, Version, Instructions string

	// Handlers of requests. The server does not declare a capability whose handler is nil.
	CallTool     Func // tools/call
	GetPrompt    Func // prompts/get
	ReadResource Func // resources/read; also enables resource subscriptions
	Complete     Func // completion/complete
	Extension    Func // methods of the extensions declared by [Server.Describe]
	// Skills makes skills/list return Catalog.Skills, if [mcp.ExtensionSkills] is declared. Extension
	// handles the other methods of that extension, and without Skills also skills/list.
	Skills bool

	// Ready is called before initialize, server/discover and the lists are answered. It may wait until
	// the server knows what it offers; its error is the answer, and the client may ask again. ctx is done
	// when the request or the connection ends. May be nil.
	Ready func(ctx context.Context) error

	// Connected is called for every legacy client before its first request after initialize. It must
	// not block. May be nil.
	Connected func(*Client)

	// Events contains the handlers for MCP Events. If it is zero, MCP Events are not offered.
	Events Events

	// Principal identifies the sender of an HTTP request. Clients with the same principal may use
	// each other's sessions. A principal is not a secret. The default is a digest of the
	// Authorization header, keyed with Key (random by default, so that it differs between runs). If
	// nothing verifies that header before ServeHTTP, a client can invent any number of principals
	// and thereby evade the limits per principal.
	Principal func(*http.Request) string
	Key       []byte

	// Subscriptions limits the URIs to which clients can subscribe, and the number of
	// subscriptions.
	Subscriptions subscriptions.Options

	// PageSize is the maximum number of items per page of a list. The default is 1,000. A page also
	// ends when it exceeds 1 MiB.
	PageSize int
	// MaxMessage is the maximum size of a client message in bytes. The default is 4 MiB.
	MaxMessage int
	// MaxInFlight limits the number of calls, reads and prompts that run simultaneously. The
	// default is 256. On stdio the limit applies per connection; over HTTP it applies to all
	// clients together, and each principal gets its fair share (see package fair). Further requests
	// wait and can be cancelled while they wait. On stdio at most 1,024 requests, with a total size
	// of 16 times MaxMessage, can wait; any others are rejected.
	MaxInFlight int
	// MaxSessions limits the number of legacy HTTP sessions in memory. The default is 2,000. When a
	// principal exceeds its fair share (see package fair), its own longest idle sessions are
	// dropped.
	MaxSessions int
	// SessionIdle is how long a legacy HTTP session may be idle before it is dropped. The default
	// is 5 minutes.
	SessionIdle time.Duration
	// SessionDir is a directory that is used only to store legacy HTTP sessions. Stored sessions
	// survive restarts, and a week without use; of each principal, at least the 2*MaxSessions that
	// were used last. By default sessions are not stored. Servers with the same Principal may share a
	// directory, but while a server runs, its clients must not switch to another.
	SessionDir string
	// Heartbeat is the interval between comments on an idle HTTP stream. The default is 15 seconds.
	Heartbeat time.Duration
	// WriteTimeout limits each write to an HTTP stream. A client that does not read for that long
	// is disconnected. The default is 10 seconds.
	WriteTimeout time.Duration
	// Tracer records a span for every request but initialize, pings, streams and subscriptions. Funcs
	// get it in their context. Nil records nothing.
	Tracer *tracing.Tracer
	// Logger receives Func panics with their stack traces, and the errors that prevent sessions
	// from being stored in SessionDir. If nil, nothing is logged.
	Logger *slog.Logger
}

// Server serves any number of clients. Use New to create it and Close to release it. All methods
// are safe for concurrent use.
type Server struct {
	opts     Options
	subs     *subscriptions.Manager
	lists    catalogs
	stored   *sessionDir // nil if legacy HTTP sessions end with the server
	sessions struct {
		mu   sync.Mutex
		byID map[string]*session
		room fair.Limit
	}
	about atomic.Pointer[Description]
	slots *fair.Slots // limits the running HTTP requests

	strayAnswers atomic.Uint64

	ctx    context.Context // done when the server closes
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	wg     sync.WaitGroup // tracks connections and HTTP requests
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
	return s
}

// Updated notifies the subscribers of each URI that the resource has changed. The new content must
// already be readable.
func (s *Server) Updated(uris ...string) { s.subs.Updated(uris...) }

// Subscriptions returns the server's subscription manager. Callers may only query it.
func (s *Server) Subscriptions() *subscriptions.Manager { return s.subs }

// SetCatalog replaces all lists in one step and notifies each client of the changed lists that are
// visible to it. It returns the lists that changed for at least one client. If the catalog is equal
// to the current one, no notifications are sent. The server retains the slices of c, so the caller
// must not modify them afterwards.
func (s *Server) SetCatalog(c Catalog) (changed subscriptions.Lists) {
	changed = s.lists.set(c)
	s.subs.ListChanged(changed)
	s.resubscribe()
	return changed
}

// Describe replaces the description that is sent to clients that connect later. Clients that are
// already connected are not notified.
func (s *Server) Describe(d Description) {
	if d.Info.Name == "" {
		d.Info = s.opts.info()
	}
	d.meta = encode(map[string]mcp.Implementation{mcp.MetaServerInfo: d.Info})
	skills, failed := object(d.Extensions[mcp.ExtensionSkills])
	d.directories = failed == nil && string(skills["directoryRead"]) == "true"
	s.about.Store(&d)
}

// Close ends every stream (a listen ends with its result), cancels requests in flight and waits for
// all goroutines of the server. If a client does not read, this takes up to one second longer.
// Later requests are rejected. A Func must not call Close, because Close waits for running Funcs.
// Calling Close again has no effect.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	s.closeSessions()
}

// connected tells the owner of the server that a legacy client has connected.
func (s *Server) connected(client *Client) {
	if s.opts.Connected != nil {
		s.opts.Connected(client)
	}
}

// enter registers a connection or an HTTP request so that Close waits for it. It reports false if
// the server is closed.
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
			// The value of the panic may contain secrets, so it is not sent to the client.
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

// Description supplements Options in describing the server to clients.
type Description struct {
	Instructions string // overrides Options.Instructions
	// Info overrides the name, title and version in Options, unless its Name is empty.
	Info mcp.Implementation
	// Offers limits the declared capabilities to those of another server: tools, prompts, resources,
	// their subscriptions, and completions. If it is nil, all that have a handler are declared.
	Offers *mcp.Capabilities
	// Extensions maps the identifiers of extensions to their capabilities. The methods of an
	// extension "…/NAME" start with "NAME/" and are handled by Options.Extension. To
	// [mcp.ExtensionSkills] also belongs resources/directory/read, if "directoryRead" is true.
	Extensions map[string]json.RawMessage
	// Logging declares that legacy clients can set a log level. Options.Extension then also handles
	// logging/setLevel.
	Logging bool
	// Tasks is the value of the "tasks" capability for 2025-11-25 clients, a JSON object. Nil if
	// tasks are not supported. Options.Extension handles tasks/get and the other task methods. In
	// the modern era, tasks are an extension.
	Tasks json.RawMessage
	// WatchTasks is called when a modern listen requests task notifications. It returns the ids of
	// the requested tasks that exist, and must not block. ctx is done when the listen ends. May be
	// nil.
	WatchTasks func(ctx context.Context, w TaskWatch) (known []string)

	meta        json.RawMessage // _meta for modern results; set by Describe
	directories bool            // directoryRead is declared; set by Describe
}

// TaskWatch describes a subscriptions/listen request for task notifications.
type TaskWatch struct {
	IDs          []string        // ids of the requested tasks
	Principal    string          // principal of the client; see [Request]
	Capabilities json.RawMessage // capabilities of the client
	// Send sends a notifications/tasks to the client with params, a JSON object. It does not block:
	// if the client does not read, only the latest notification for each task is queued, up to 256
	// tasks and 4 MiB.
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

// offers reports whether a method is available in the given era.
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
	switch method {
	case mcp.MethodSetLevel:
		return !modern && about.Logging && o.Extension != nil
	case mcp.MethodListSkills:
		return (o.Skills || o.Extension != nil) && about.declares(method)
	case mcp.MethodReadDirectory:
		return about.directories && o.Extension != nil
	}
	if !modern && strings.HasPrefix(method, "tasks/") {
		return about.Tasks != nil && o.Extension != nil
	}
	return o.Extension != nil && about.declares(method)
}

// capabilities returns the capabilities of the server, including its extensions.
func (s *Server) capabilities(about *Description) json.RawMessage {
	has := s.opts.listsOffered()
	of := mcp.Capabilities{Tools: true, Prompts: true, Resources: true, ResourcesSubscribe: true, Completions: true}
	if about.Offers != nil {
		of = *about.Offers
	}
	tools, prompts, resources := has.Tools && of.Tools, has.Prompts && of.Prompts, has.Resources && of.Resources
	caps := encode(mcp.Capabilities{
		Tools: tools, ToolsListChanged: tools,
		Prompts: prompts, PromptsListChanged: prompts,
		Resources: resources, ResourcesListChanged: resources, ResourcesSubscribe: resources && of.ResourcesSubscribe,
		Completions: s.opts.Complete != nil && of.Completions,
	})
	extensions := about.Extensions
	if has.Events {
		// Some clients look for events in "extensions", others at the top level of the
		// capabilities.
		extensions = maps.Clone(extensions)
		if extensions == nil {
			extensions = map[string]json.RawMessage{}
		}
		extensions[mcp.ExtensionEvents] = json.RawMessage(eventsCapability)
		caps, _ = with(caps, []member{{"events", json.RawMessage(eventsCapability)}}) // caps is a JSON object
	}
	if len(extensions) > 0 {
		caps, _ = with(caps, []member{{"extensions", encode(extensions)}})
	}
	return caps
}

// listsOffered returns the lists whose changes are reported to clients.
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

// ready returns the error of Options.Ready, as clients receive it.
func (s *Server) ready(ctx context.Context) *Error {
	if s.opts.Ready == nil {
		return nil
	}
	if err := s.opts.Ready(ctx); err != nil {
		return wireError(err, &Request{})
	}
	return nil
}

// initialized returns the result for an initialize request and the negotiated protocol version: the
// client's version if it is supported, and otherwise the newest legacy version.
func (s *Server) initialized(ctx context.Context, m *message) (version string, result json.RawMessage, err *Error) {
	version = text(m.fields["protocolVersion"])
	if version == "" {
		return "", nil, errorf(mcp.CodeInvalidParams, `initialize: "protocolVersion" must be a string`)
	}
	if err := s.ready(ctx); err != nil {
		return "", nil, err
	}
	if !mcp.IsLegacy(version) {
		version = mcp.LatestLegacy
	}
	about := s.about.Load()
	caps := s.capabilities(about)
	if about.Logging {
		caps, _ = with(caps, []member{{"logging", json.RawMessage("{}")}}) // caps is a JSON object
	}
	if about.Tasks != nil && version == mcp.LatestLegacy {
		caps, _ = with(caps, []member{{"tasks", about.Tasks}}) // caps is a JSON object
	}
	return version, encode(struct {
		Version      string             `json:"protocolVersion"`
		Capabilities json.RawMessage    `json:"capabilities"`
		Info         mcp.Implementation `json:"serverInfo"`
		Instructions string             `json:"instructions,omitempty"`
	}{version, caps, about.Info, about.Instructions}), nil
}

// withoutInitialize returns the protocol versions that a client can use without initialize.
func withoutInitialize() []string { return []string{mcp.ModernVersion} }

// discovered returns the result for server/discover.
func (s *Server) discovered() json.RawMessage {
	about := s.about.Load()
	return encode(struct {
		Versions     []string        `json:"supportedVersions"`
		Capabilities json.RawMessage `json:"capabilities"`
		Instructions string          `json:"instructions,omitempty"`
	}{withoutInitialize(), s.capabilities(about), about.Instructions})
}

// checkMeta validates the protocol members in a modern request's _meta.
func checkMeta(m *message) *Error {
	version := m.version()
	switch {
	case m.meta[mcp.MetaProtocolVersion] == nil:
		return errorf(mcp.CodeInvalidParams, "%q is missing in params._meta", mcp.MetaProtocolVersion)
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

// encode marshals a value that is known to be encodable.
func encode(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}
