// Package config reads config files into an immutable [Config].
//
// It reads mcptrack's own format and the formats of the programs in package hosts, as JSON with
// comments, TOML or YAML. Loading does not start anything, and it is all or nothing: it returns all
// problems in the file, each with line and column, and a Config only if none of the problems is an
// error. If something that a server needs is missing on this machine, the problem is a warning, and
// only that server is Unconfigured. A Config and everything in it are read-only once Load has
// returned.
//
// Load may be called concurrently. It reads the config file and the files it refers to, and checks
// that folders and commands exist; it does not execute any command.
//
// # Order of reading
//
// The size of the file is checked, and its content is parsed into a tree (package tree). If there
// is a syntax error, no other problems are reported. Then the objects that contain servers are
// located (containers.go). Every key of every server is read according to its row in the table of
// keys (keys.go). References in a string are expanded (expand.go) before the string is checked. A
// value that comes from a reference or an envFile never appears in a problem.
//
// # Libraries
//
// santhosh-tekuri/jsonschema/v6 is only used in tests, to check that the published schema agrees
// with what this package accepts.
package config

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/glob"
)

// Config describes which servers to track, and how.
type Config struct {
	// Path is the file from which the config was read, as passed by the caller; empty if the config
	// was built in code.
	Path string
	// Servers lists the servers in file order; their IDs are unique.
	Servers []Server
	// TracksAll means that all servers are tracked because the file belongs to a host other than
	// mcptrack and none of its servers has a key that selects what to track. A file belongs to a
	// host if its path is one where a host looks for its config, or if it has a form that
	// mcptrack's own format lacks: TOML, YAML, or servers elsewhere than in "servers" or
	// "mcpServers".
	TracksAll bool
	// Files lists the sorted absolute paths on which the servers depend in addition to the config
	// file: files named by envFile and ${file:PATH}, and missing folders and programs.
	Files []string
	// Index configures the capability index of a gateway.
	Index Index
	// Webhooks lists the webhooks used by commands that store events: serve-sse, and the gateway
	// with --events.
	Webhooks []Webhook
	// Hooks lists the incoming webhooks, received by commands that listen: serve-sse, the gateway and
	// the daemon. Their ids are unique in a config that was read from a file.
	Hooks []Hook
	// Clients lists what clients of the gateway and of the daemon see, in file order. Their names are unique in
	// a config that was read from a file.
	Clients []Client
}

// Server describes how to connect to one MCP server and what to follow on it.
type Server struct {
	ID          string
	Description string
	Enabled     bool

	// Transport specifies how to connect. If Fallback is set, TransportHTTP may fall back to legacy
	// SSE on the same URL; Load sets Fallback if the file does not specify a type.
	Transport Transport
	Fallback  bool

	Program  // how to start the program of a TransportStdio server
	Tracking // what to follow on the server
	Locking  // what is approved of the server

	// Missing lists what an enabled server needs but is missing on this machine: variables, inputs,
	// files, folders and programs, one clause each. See Unconfigured.
	Missing []string

	// URL and Headers are used by the transports http, sse and catalog. A URL may contain
	// credentials in its user info or query.
	URL     Secret
	Headers map[string]Secret
	OAuth   OAuth // how to log in over http or sse

	// Secrets holds the values of the variables and inputs that affect what is run or sent. They
	// are redacted wherever the server is displayed. A value that is the absolute path of an
	// existing file is not treated as a secret.
	Secrets []Secret

	// CatalogInterval is how often the version of a catalog is fetched; 0 for all other transports.
	CatalogInterval time.Duration

	Protocol       Protocol
	ConnectTimeout time.Duration // timeout for connecting; 0 means the caller's default
	RequestTimeout time.Duration // timeout of a single request

	// Intent describes what the entry would run or send, and to whom, as written in the file; nil
	// if the server was not read from a file.
	Intent *Intent
	// Unapproved tells the user how to approve the Intent of a server that must not be used until
	// then; empty if the server may be used. Load never sets it.
	Unapproved string
	// Superseded means that Unapproved refers to a newer entry with this ID in the file. This entry
	// was approved and stays in use.
	Superseded bool

	// Sharing determines which clients of the daemon share a process of the server.
	Sharing Sharing
	// Idle is how long the daemon keeps the server running without clients; 0 means [DefaultIdle].
	Idle time.Duration

	// Tools specifies how clients of a gateway see tools, by the server's own names.
	Tools map[string]Tool
	// MaxResult is the size in bytes of the largest result of a tool that clients of a gateway receive whole;
	// 0 means any.
	MaxResult int64
}

// Program describes a command that is started as a child process and speaks MCP on its standard
// input and output.
type Program struct {
	Command string
	Args    []string
	Env     map[string]Secret // includes the variables from envFile; "env" overrides them
	Dir     string            // absolute path of the working directory
}

// Tracking describes what is followed on a server, and how.
type Tracking struct {
	TrackResources bool
	TrackTools     bool
	TrackPrompts   bool
	TrackSkills    bool
	// Unasked means that the user did not set TrackResources for this server: it is tracked together
	// with all others. It is no problem if such a server offers no resources.
	Unasked      bool
	Include      []string // globs for resource URIs; empty means all
	Exclude      []string
	Read         ReadMode
	Mode         Mode          // how changes to resources are detected
	PollInterval time.Duration // used for servers that cannot push
	// SafetyInterval is how often a resource is read although the server pushes updates, in case
	// the server fails to announce one; 0 means [DefaultSafetyInterval], negative means never.
	SafetyInterval time.Duration
	Events         Events
	OnConnect      []ToolCall // tool calls made once per session, after subscribing
}

// Tracks reports whether changes of a list are followed. The lists of resources and templates are one choice.
func (t *Tracking) Tracks(k catalog.Kind) bool {
	switch k {
	case catalog.Tools:
		return t.TrackTools
	case catalog.Prompts:
		return t.TrackPrompts
	case catalog.Skills:
		return t.TrackSkills
	default:
		return t.TrackResources
	}
}

// Unusable returns the reason why the server must not be connected to, an [UnapprovedError] or an
// [UnconfiguredError], or nil if there is none.
func (s *Server) Unusable() error {
	if s.Unapproved != "" && !s.Superseded {
		return &UnapprovedError{Hint: s.Unapproved}
	}
	return s.Unconfigured()
}

// An UnapprovedError means that the user has not approved what an entry would run or send.
type UnapprovedError struct{ Hint string }

func (e *UnapprovedError) Error() string { return "not approved; " + e.Hint }

// Unconfigured returns an [UnconfiguredError] if something that the server needs is missing on this
// machine. Such a server must not be connected to, because its other fields may be incomplete.
func (s *Server) Unconfigured() error {
	if len(s.Missing) == 0 {
		return nil
	}
	return &UnconfiguredError{Missing: s.Missing}
}

// An UnconfiguredError explains why a server cannot be used on this machine. It identifies
// variables, files and programs as they are written in the config, and never includes their values.
type UnconfiguredError struct{ Missing []string }

func (e *UnconfiguredError) Error() string { return strings.Join(e.Missing, "; ") }

// Tracked reports whether anything on the server is to be followed. A catalog is never tracked: see
// [TransportCatalog].
func (s *Server) Tracked() bool {
	return s.Enabled && (s.TrackResources || s.TrackTools || s.TrackPrompts || s.TrackSkills)
}

// Transport specifies how to connect to a server.
type Transport string

// The transports, spelled as in config files and in all output.
const (
	TransportStdio Transport = "stdio"
	TransportHTTP  Transport = "http"
	TransportSSE   Transport = "sse"
	// TransportCatalog means that the server is not an MCP server: URL is the base URL of an HTTP
	// API that describes its routes as tools (see core/gateway/upstream). It has no session and is
	// not tracked; the gateway exposes its tools.
	TransportCatalog Transport = "catalog"
)

// Protocol restricts which protocol era of MCP is used with a server.
type Protocol string

// The values of a server's "protocol" key.
const (
	ProtocolAuto   Protocol = "auto"
	ProtocolLegacy Protocol = "legacy" // protocol versions 2024-11-05 to 2025-11-25
	ProtocolModern Protocol = "modern" // protocol version 2026-07-28
)

// ReadMode reports whether changed resources are read to compare their content.
type ReadMode string

// The values of a server's "read" key.
const (
	ReadDigest ReadMode = "digest"
	ReadNone   ReadMode = "none"
)

// Mode specifies how changes to resources are detected.
type Mode string

// The values of a server's "mode" key.
const (
	ModeAuto Mode = "auto" // by pushed updates if the server supports them, otherwise by polling
	ModePoll Mode = "poll" // by reading resources at PollInterval
)

// ToolCall describes one tools/call request.
type ToolCall struct {
	Tool      string
	Arguments map[string]any
}

// Default values of keys that are absent in the file.
const (
	DefaultPollInterval    = 30 * time.Second
	DefaultSafetyInterval  = 5 * time.Minute
	DefaultRequestTimeout  = 30 * time.Second
	DefaultCatalogInterval = 30 * time.Second
	DefaultIdle            = 10 * time.Minute
)

// Sharing determines which clients share one process of, and one session with, a server. The zero
// value means [SharedByFolder].
type Sharing string

// The values of a server's "shared" key.
const (
	SharedByFolder  Sharing = "folder"  // clients with the same working directory; also true
	SharedByMachine Sharing = "machine" // all clients of the user
	NotShared       Sharing = "false"   // each client has its own
)

// Unshared reports whether each client has its own session with the server.
func (s *Server) Unshared() bool { return s.Sharing == NotShared }

// A Summary contains what validate --json prints about one server.
type Summary struct {
	ID             string    `json:"id"`
	Transport      Transport `json:"transport"`
	Enabled        bool      `json:"enabled"`
	TrackResources bool      `json:"trackResources"`
}

// Summaries returns a summary of each server in file order. The result is never nil; for a nil
// Config it is empty.
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

// Tracked returns the number of tracked servers.
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

// trackAll tracks everything on all servers.
func (c *Config) trackAll() {
	c.TracksAll = true
	for i := range c.Servers {
		c.Servers[i].TrackAll()
	}
}

// TrackAll tracks everything on the server, unless it is a catalog. What the config selects already
// stays Unasked false.
func (s *Server) TrackAll() {
	if s.Transport != TransportCatalog {
		s.Unasked = s.Unasked || !s.TrackResources
		s.TrackResources, s.TrackTools, s.TrackPrompts, s.TrackSkills = true, true, true, true
	}
}

// Server returns the server with the given ID.
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

// With returns a copy of the config with different servers.
func (c *Config) With(servers []Server) *Config {
	out := *c
	out.Servers = servers
	return &out
}

// Only returns a copy of the config that contains only the servers for which keep returns true.
func (c *Config) Only(keep func(Server) bool) *Config {
	return c.With(slices.DeleteFunc(slices.Clone(c.Servers), func(s Server) bool { return !keep(s) }))
}

// Selects reports whether a resource URI is selected by Include and Exclude, which contain globs as
// defined by package glob: Include is empty or matches, and Exclude does not match. It ignores
// TrackResources.
func (s Server) Selects(uri string) bool {
	matches := func(globs []string) bool {
		return slices.ContainsFunc(globs, func(g string) bool { return glob.Match(g, uri) })
	}
	return (len(s.Include) == 0 || matches(s.Include)) && !matches(s.Exclude)
}

// Equal reports whether s and o describe the same server. Nil and empty lists and maps are
// considered equal. Intents are ignored: differences in the file only matter if they affect other
// fields.
func (s Server) Equal(o Server) bool {
	s.Intent, o.Intent = nil, nil
	return equal(reflect.ValueOf(s), reflect.ValueOf(o))
}

// SameConnection reports whether a connection opened for s can also be used for o, because they
// differ only in live keys, which take effect in an open session.
//
// OnConnect is not live because its calls are made once per session: a changed list would never
// take effect in an open session. Events.Off is not live, although the other members of Events are,
// because the client announces at the start of a session whether it follows events.
func (s Server) SameConnection(o Server) bool {
	return s.connection().Equal(o.connection())
}

// connection returns a copy of the server without the fields of live keys.
func (s Server) connection() Server {
	off := s.Events.Off
	for _, k := range serverKeys() {
		if k.live {
			k.setZero(&s)
		}
	}
	s.Events.Off, s.Unasked = off, false
	if s.Superseded {
		s.Unapproved, s.Superseded = "", false
	}
	return s
}

// equal is like reflect.DeepEqual, except that nil and empty lists and maps are equal.
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
