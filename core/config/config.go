// Package config reads mcp-servers.json into an immutable desired state.
//
// Three shapes of file are read (the list form, the mcpServers map of Claude,
// Cursor and others, and the servers map of VS Code), as JSON with comments and
// trailing commas. Loading never starts anything and never fails half: it
// returns every problem of the file at once, each with line and column, and a
// Config only if none of them is an error. A Config and all it holds are
// read-only for everybody once Load has returned.
//
// Loading has no goroutines and
// may be called from many. It looks at the disk only for the config file, for
// envFile and cwd, for commands, none of which it starts, and for whether the value
// of a variable is a path.
//
// # Order of reading
//
// Bytes are checked for size, encoding and depth, then parsed to a tree; a syntax
// error ends here, as the one problem. Then every key of every server is read,
// each string with its references expanded (see expander) before it is checked.
// What came out of a reference or an envFile never appears in a problem.
//
// # Libraries
//
// tailscale/hujson: a syntax tree of JSON with comments that has byte offsets,
// which encoding/json does not give. bmatcuk/doublestar/v4: globs with "**" and
// {a,b}. Only in tests, santhosh-tekuri/jsonschema/v6 holds the published schema
// to what is read here.
package config

import "time"

// Config is one desired state: the servers that should be tracked and how.
type Config struct {
	// Path is the file it was read from, as given; "" when built in code.
	Path string
	// Servers are in the order of the file; their IDs are unique.
	Servers []Server
	// Index is for the gateway.
	Index Index
}

// Server says how to reach one MCP server and what to follow on it.
type Server struct {
	ID          string
	Description string
	Enabled     bool

	// Transport is how to connect. TransportHTTP with Fallback set may fall
	// back to legacy SSE on the same URL; that is so when the file names no type.
	Transport Transport
	Fallback  bool

	// stdio
	Command string
	Args    []string
	Env     map[string]Secret // includes what envFile held; own keys win
	Dir     string            // absolute working directory

	// http, sse and catalog
	URL     Secret // a URL may carry credentials in user info or query
	Headers map[string]Secret

	// Secrets are the values of the variables and inputs that the above and OnConnect
	// refer to, wherever they went: to be hidden in all that is shown of the server.
	// A value that is the absolute path of something that exists is none.
	Secrets []Secret

	// what to follow
	TrackResources bool
	TrackTools     bool
	TrackPrompts   bool
	Include        []string // globs over resource URIs; none means all
	Exclude        []string
	Read           ReadMode
	PollInterval   time.Duration // for servers that cannot push; default 30s
	OnConnect      []ToolCall    // made once in each session, after subscribing

	// CatalogInterval is how often the version of a catalog is asked for; default
	// 30s, and 0 for all but TransportCatalog.
	CatalogInterval time.Duration

	Protocol       Protocol
	ConnectTimeout time.Duration // 0: the caller's default
	RequestTimeout time.Duration // one request; default 30s
}

// Tracked reports whether anything of the server is to be followed. A catalog is
// not: see [TransportCatalog].
func (s *Server) Tracked() bool {
	return s.Enabled && (s.TrackResources || s.TrackTools || s.TrackPrompts)
}

// Transport names the way to a server.
type Transport string

// The transports, in the words of the file and of every output.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http"
	TransportSSE   Transport = "sse"
	// TransportCatalog is no way to an MCP server: URL is the base of an HTTP API
	// that describes its routes as tools (see core/upstream). Nobody opens a session
	// to it and nothing of it is tracked; the gateway serves its tools.
	TransportCatalog Transport = "catalog"
)

// Protocol restricts the era of MCP that is spoken.
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

// ToolCall is one tools/call request.
type ToolCall struct {
	Tool      string
	Arguments map[string]any
}

// Defaults for keys that the file leaves out.
const (
	DefaultPollInterval   = 30 * time.Second
	DefaultRequestTimeout = 30 * time.Second
	// DefaultCatalogInterval is that of Server.CatalogInterval.
	DefaultCatalogInterval = 30 * time.Second
)
