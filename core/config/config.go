// Package config reads config files into an immutable desired state.
//
// Our own format and those of the programs that package hosts names are read, as JSON with
// comments, TOML or YAML. Loading starts nothing and is all or nothing: it returns every
// problem of the file at once, each with line and column, and a Config only if none of them is
// an error. If this machine lacks something that one server needs, that is a warning and only
// that server is Unconfigured. A Config and all it holds are read-only once Load has returned.
//
// Loading may be called concurrently. It reads the config file and the files that it refers to,
// and checks that folders and commands exist; it executes no command.
//
// # Order of reading
//
// Bytes are checked for size, then parsed to a tree (package tree); a syntax error
// ends here, as the only problem. The places of the tree that hold servers are found
// (shapes.go). Then every key of every server is read, each string with its
// references expanded (see expander) before it is checked. What came out of a
// reference or an envFile never appears in a problem.
//
// # Libraries
//
// Only in tests, santhosh-tekuri/jsonschema/v6 holds the published schema to what is
// read here.
package config

import (
	"strings"
	"time"
)

// Config is one desired state: the servers that should be tracked and how.
type Config struct {
	// Path is the file that the config was read from, as given; "" when built in code.
	Path string
	// Servers are in the order of the file; their IDs are unique.
	Servers []Server
	// Files are the absolute paths, sorted, that the servers depend on beside the config
	// itself: files named by envFile and ${file:PATH}, and folders and programs that are
	// missing.
	Files []string
	// Index configures the index of capabilities that a gateway serves.
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

	// Missing says what an enabled server needs and this machine lacks: a variable,
	// an input, a file, a folder or a program, one clause each. See Unconfigured.
	Missing []string

	// URL and Headers are used by the transports http, sse and catalog. A URL may carry
	// credentials in its user info or query.
	URL     Secret
	Headers map[string]Secret
	OAuth   OAuth // how to log in to a server reached by http or sse

	// Secrets are the values of the variables and inputs that the fields above, OnConnect and
	// Events refer to; they are hidden wherever the server is shown. A value that is the
	// absolute path of an existing file is not among them.
	Secrets []Secret

	// CatalogInterval is how often the version of a catalog is fetched; default 30s. It is 0
	// for all other transports.
	CatalogInterval time.Duration

	Protocol       Protocol
	ConnectTimeout time.Duration // 0: the caller's default
	RequestTimeout time.Duration // one request; default 30s

	// Intent is what the entry would run or send, and to whom, as the file writes it; nil if the
	// server was not read from a file.
	Intent *Intent
	// Unapproved says what to do before the server may be used, because the user has not approved
	// its Intent: a text for people, "" for all that may be used. Load never sets it.
	Unapproved string
	// Superseded says that Unapproved is about another entry that the file has now under this ID.
	// This one was approved and stays in use.
	Superseded bool

	// Unshared is "shared": false. Each client of a gateway then gets its own session with the
	// server.
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
	PollInterval   time.Duration // for servers that cannot push; default 30s
	// SafetyInterval is how often a resource is read although the server pushes its updates, in
	// case one was not sent; 0: [DefaultSafetyInterval], negative: never.
	SafetyInterval time.Duration
	Events         Events
	OnConnect      []ToolCall // made once in each session, after subscribing
}

// Unusable returns why the server must not be connected to: an [UnapprovedError], or what
// Unconfigured returns; nil if it may be.
func (s *Server) Unusable() error {
	if s.Unapproved != "" && !s.Superseded {
		return &UnapprovedError{Hint: s.Unapproved}
	}
	return s.Unconfigured()
}

// An UnapprovedError says that the user has not approved what an entry would run or send.
type UnapprovedError struct{ Hint string }

func (e *UnapprovedError) Error() string { return "not approved; " + e.Hint }

// Unconfigured returns an [UnconfiguredError] when this machine lacks something the server
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

// Tracked reports whether anything of the server is to be followed. A catalog is
// not: see [TransportCatalog].
func (s *Server) Tracked() bool {
	return s.Enabled && (s.TrackResources || s.TrackTools || s.TrackPrompts)
}

// Transport is the way in which a server is reached.
type Transport string

// The transports, spelled as in the file and in all output.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http"
	TransportSSE   Transport = "sse"
	// TransportCatalog is not an MCP server: URL is the base of an HTTP API that describes its
	// routes as tools (see core/gateway/upstream). No session is opened to it and nothing is tracked;
	// the gateway serves its tools.
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

// Mode says how changes of resources are noticed.
type Mode string

// The modes.
const (
	ModeAuto Mode = "auto" // by the updates that the server pushes, if it does
	ModePoll Mode = "poll" // by reading at PollInterval
)

// ToolCall is one tools/call request.
type ToolCall struct {
	Tool      string
	Arguments map[string]any
}

// Defaults for keys that the file leaves out.
const (
	DefaultPollInterval   = 30 * time.Second
	DefaultSafetyInterval = 5 * time.Minute
	DefaultRequestTimeout = 30 * time.Second
	// DefaultCatalogInterval is the default of Server.CatalogInterval.
	DefaultCatalogInterval = 30 * time.Second
)
