// Package config reads config files into an immutable desired state.
//
// It reads our own format and the formats of the programs in package hosts, as JSON with
// comments, TOML or YAML. Loading starts nothing and is all or nothing: it returns every
// problem of the file, each with line and column, and a Config only if none of them is an
// error. If this machine lacks something that one server needs, that is a warning, and only
// that server is Unconfigured. A Config and everything in it are read-only once Load has
// returned.
//
// Load may be called concurrently. It reads the config file and the files it refers to, and
// checks that folders and commands exist; it executes no command.
//
// # Order of reading
//
// The bytes are checked for size and parsed into a tree (package tree). A syntax error is the
// only problem of its file. The objects that hold servers are found (containers.go). Then every
// key of every server is read as its row in the table of keys says (keys.go). References in a
// string are expanded (expand.go) before the string is checked. A value from a reference or an
// envFile never appears in a problem.
//
// # Libraries
//
// Only tests use santhosh-tekuri/jsonschema/v6: it checks that the published schema agrees with
// what is read here.
package config

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/glob"
)

// Config is one desired state: which servers to track, and how.
type Config struct {
	// Path is the file that the config was read from, as given; "" when built in code.
	Path string
	// Servers are in the order of the file; their IDs are unique.
	Servers []Server
	// Files are the sorted absolute paths that the servers depend on besides the config
	// itself: files named by envFile and ${file:PATH}, and missing folders and programs.
	Files []string
	// Index configures the capability index of a gateway.
	Index Index
	// Webhooks are used by the commands that store events: serve-sse, and the gateway with
	// --events.
	Webhooks []Webhook
}

// Server says how to reach one MCP server and what to follow on it.
type Server struct {
	ID          string
	Description string
	Enabled     bool

	// Transport says how to connect. If Fallback is set, TransportHTTP may fall back to legacy
	// SSE on the same URL; Load sets it when the file names no type.
	Transport Transport
	Fallback  bool

	Program  // how TransportStdio is started
	Tracking // what is followed

	// Missing lists what an enabled server needs and this machine lacks: variables, inputs,
	// files, folders and programs, one clause each. See Unconfigured.
	Missing []string

	// URL and Headers are for the transports http, sse and catalog. A URL may contain
	// credentials in its user info or query.
	URL     Secret
	Headers map[string]Secret
	OAuth   OAuth // how to log in over http or sse

	// Secrets are the values of the variables and inputs that decide what is run or sent. They
	// are hidden wherever the server is shown. A value that is the absolute path of an existing
	// file is not a secret.
	Secrets []Secret

	// CatalogInterval is how often the version of a catalog is fetched; 0 for all other
	// transports.
	CatalogInterval time.Duration

	Protocol       Protocol
	ConnectTimeout time.Duration // 0: the caller's default
	RequestTimeout time.Duration // of one request

	// Intent is what the entry would run or send, and to whom, as written in the file; nil if
	// the server was not read from a file.
	Intent *Intent
	// Unapproved tells people how to approve the Intent of a server that must not be used
	// before; "" if it may be used. Load never sets it.
	Unapproved string
	// Superseded means that Unapproved is about a newer entry with this ID in the file. This
	// one was approved and stays in use.
	Superseded bool

	// Unshared gives each client of a gateway its own session with the server.
	Unshared bool
}

// Program is a command that is started as a child process and speaks MCP on its
// standard input and output.
type Program struct {
	Command string
	Args    []string
	Env     map[string]Secret // includes the content of envFile; "env" overrides it
	Dir     string            // absolute working directory
}

// Tracking says what is followed on a server, and how.
type Tracking struct {
	TrackResources bool
	TrackTools     bool
	TrackPrompts   bool
	Include        []string // globs over resource URIs; none means all
	Exclude        []string
	Read           ReadMode
	Mode           Mode          // whether updates of resources are pushed or polled
	PollInterval   time.Duration // for servers that cannot push
	// SafetyInterval is how often a resource is read although the server pushes its updates, in
	// case it misses one; 0: [DefaultSafetyInterval], negative: never.
	SafetyInterval time.Duration
	Events         Events
	OnConnect      []ToolCall // made once in each session, after subscribing
}

// Unusable returns why the server must not be connected to: an [UnapprovedError] or an
// [UnconfiguredError]; nil if it may be.
func (s *Server) Unusable() error {
	if s.Unapproved != "" && !s.Superseded {
		return &UnapprovedError{Hint: s.Unapproved}
	}
	return s.Unconfigured()
}

// An UnapprovedError means that the user has not approved what an entry would run or send.
type UnapprovedError struct{ Hint string }

func (e *UnapprovedError) Error() string { return "not approved; " + e.Hint }

// Unconfigured returns an [UnconfiguredError] if this machine lacks something the server
// needs. Such a server must not be connected to: its other fields may be incomplete.
func (s *Server) Unconfigured() error {
	if len(s.Missing) == 0 {
		return nil
	}
	return &UnconfiguredError{Missing: s.Missing}
}

// An UnconfiguredError says why a server cannot be connected to on this machine. It
// names variables, files and programs as the config does, never their values.
type UnconfiguredError struct{ Missing []string }

func (e *UnconfiguredError) Error() string { return strings.Join(e.Missing, "; ") }

// Tracked reports whether to follow anything of the server. A catalog is never tracked: see
// [TransportCatalog].
func (s *Server) Tracked() bool {
	return s.Enabled && (s.TrackResources || s.TrackTools || s.TrackPrompts)
}

// Transport is how a server is reached.
type Transport string

// The transports, spelled as in the file and in all output.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http"
	TransportSSE   Transport = "sse"
	// TransportCatalog is not an MCP server: URL is the base of an HTTP API that describes its
	// routes as tools (see core/gateway/upstream). It has no session and is not tracked; the
	// gateway serves its tools.
	TransportCatalog Transport = "catalog"
)

// Protocol restricts which era of MCP is spoken with a server.
type Protocol string

// The choices of a server's "protocol" key.
const (
	ProtocolAuto   Protocol = "auto"
	ProtocolLegacy Protocol = "legacy" // 2024-11-05 to 2025-11-25
	ProtocolModern Protocol = "modern" // 2026-07-28
)

// ReadMode says whether changed resources are read to compare their content.
type ReadMode string

// The choices of a server's "read" key.
const (
	ReadDigest ReadMode = "digest"
	ReadNone   ReadMode = "none"
)

// Mode says how changes of resources are detected.
type Mode string

// The modes.
const (
	ModeAuto Mode = "auto" // by the updates that the server pushes, if it can push
	ModePoll Mode = "poll" // by reading at PollInterval
)

// ToolCall is one tools/call request.
type ToolCall struct {
	Tool      string
	Arguments map[string]any
}

// Defaults for keys that the file leaves out.
const (
	DefaultPollInterval    = 30 * time.Second
	DefaultSafetyInterval  = 5 * time.Minute
	DefaultRequestTimeout  = 30 * time.Second
	DefaultCatalogInterval = 30 * time.Second
)

// A Summary is what validate --json prints about one server.
type Summary struct {
	ID             string    `json:"id"`
	Transport      Transport `json:"transport"`
	Enabled        bool      `json:"enabled"`
	TrackResources bool      `json:"trackResources"`
}

// Summaries returns the servers in the order of the file, never nil. A nil
// Config has none.
func (c *Config) Summaries() []Summary {
	if c == nil {
		return []Summary{}
	}
	out := make([]Summary, len(c.Servers))
	for i := range c.Servers {
		s := &c.Servers[i]
		out[i] = Summary{ID: s.ID, Transport: s.Transport, Enabled: s.Enabled, TrackResources: s.TrackResources}
	}
	return out
}

// Tracked counts the tracked servers.
func (c *Config) Tracked() int {
	n := 0
	if c != nil {
		for i := range c.Servers {
			if c.Servers[i].Tracked() {
				n++
			}
		}
	}
	return n
}

// Server returns the server with the ID.
func (c *Config) Server(id string) (Server, bool) {
	if c != nil {
		for i := range c.Servers {
			if c.Servers[i].ID == id {
				return c.Servers[i], true
			}
		}
	}
	return Server{}, false
}

// With returns the config with other servers and everything else as it is.
func (c *Config) With(servers []Server) *Config {
	out := *c
	out.Servers = servers
	return &out
}

// Only returns the config with the servers for which keep returns true, and everything else as it
// is.
func (c *Config) Only(keep func(Server) bool) *Config {
	return c.With(slices.DeleteFunc(slices.Clone(c.Servers), func(s Server) bool { return !keep(s) }))
}

// Selects reports whether the resource URI passes Include and Exclude, whose globs are those of
// package glob: Include is empty or matches, and Exclude does not match. It ignores TrackResources.
func (s Server) Selects(uri string) bool {
	matches := func(globs []string) bool {
		return slices.ContainsFunc(globs, func(g string) bool { return glob.Match(g, uri) })
	}
	return (len(s.Include) == 0 || matches(s.Include)) && !matches(s.Exclude)
}

// Equal reports whether s and o describe the same server in every respect. Nil and empty lists
// and maps are equal. Intents are ignored: what the file writes matters only where it leads to
// other fields.
func (s Server) Equal(o Server) bool {
	s.Intent, o.Intent = nil, nil
	return equal(reflect.ValueOf(s), reflect.ValueOf(o))
}

// SameConnection reports whether a live connection made for s still serves o: whether only
// live keys differ, which take effect in an open session.
//
// OnConnect is not live because its calls are made once in each session: a changed list would
// never take effect in an open one. Whether events are followed at all is announced to the server
// when the session begins, so Events.Off is not live, although the other members of Events are.
func (s Server) SameConnection(o Server) bool {
	return s.connection().Equal(o.connection())
}

// connection returns the server without the fields of live keys.
func (s Server) connection() Server {
	off := s.Events.Off
	for _, k := range serverKeys() {
		if k.live {
			k.setZero(&s)
		}
	}
	s.Events.Off = off
	if s.Superseded {
		s.Unapproved, s.Superseded = "", false
	}
	return s
}

// equal is reflect.DeepEqual, except that nil and empty lists and maps are equal.
func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		if a.Type() == reflect.TypeFor[Secret]() {
			break
		}
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !equal(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for _, key := range a.MapKeys() {
			if other := b.MapIndex(key); !other.IsValid() || !equal(a.MapIndex(key), other) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
