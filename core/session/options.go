package session

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// DialFunc makes the sessions of a tracker; embedders and tests may replace it. ctx bounds only
// dialling, not the session.
type DialFunc func(ctx context.Context, srv config.Server, opts Options) (*Session, error)

// Options are the settings of a session that do not come from the server's config entry. The zero
// value is usable.
type Options struct {
	// ClientVersion is sent to the server together with the name mcptrack; default "dev".
	ClientVersion string
	// ConnectTimeout bounds Dial if the server's entry does not; default 15 s.
	ConnectTimeout time.Duration
	// Era is the era of an earlier session with this server, to be tried first; "": unknown. A
	// wrong Era costs one request, not the connection.
	Era Era
	// Limits bound the memory that one server can make us use.
	Limits Limits
	// OneShot is for a command that makes a few requests and exits: no notification stream is
	// opened or awaited, and a child that outlives its stdin gets SIGTERM after 100 ms instead of 1
	// s.
	OneShot bool
	// Logins stores logins to servers that require OAuth; nil: there are none. A server whose entry
	// has an Authorization header does not use its login.
	Logins *login.Store
	// Client answers requests from legacy servers and gets their messages; nil: there is no client,
	// and such messages are dropped.
	Client *ClientSide
	// Logger gets the session's log records, at debug level; nil discards them.
	Logger *slog.Logger
	// Environ looks up the variables that a child may inherit; default os.LookupEnv. A child
	// inherits only what core/process allows, because other variables may contain secrets of other
	// servers.
	Environ func(name string) (string, bool)
	// DialContext connects to servers over HTTP; default: a [net.Dialer] with keep-alive.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// ClientSide is what a server sees of the client behind a session. A modern server sees only the
// capabilities.
type ClientSide struct {
	// Capabilities are declared to the server, as a JSON object; in the modern era with every
	// request, unless [Request.Client] has others.
	Capabilities json.RawMessage
	// Request answers a request from the server, such as sampling/createMessage, on its own
	// goroutine. ctx ends when the server cancels the request or the session ends. The server gets
	// an [*RPCError] unchanged.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Message gets notifications that the session does not handle itself, such as
	// notifications/message, in order. The goroutine that reads from the server calls it, so it
	// must not block.
	Message func(method string, params json.RawMessage)
}

// Limits bound one session. Zero fields have defaults.
type Limits struct {
	MaxPages int   // pages of one list; 100
	MaxItems int   // items of one list; 10,000
	MaxList  int64 // bytes of all pages of one list; 32 MiB
	MaxLine  int   // bytes of one stdout line or one SSE event; 4 MiB
	MaxBody  int64 // bytes of one HTTP body after decompression; 8 MiB
	MaxDirty int   // keys in Signals before they overflow into a Gap; 20,000
}

// Era is the generation of MCP that a session speaks.
type Era string

// The eras. See https://modelcontextprotocol.io/specification for both.
const (
	EraLegacy Era = "legacy" // 2024-11-05 to 2025-11-25: initialize, subscribe
	EraModern Era = "modern" // 2026-07-28: discover, subscriptions/listen
)

// Info is the result of the handshake. It does not change during a session, except Push, which
// becomes true if a server opens its GET stream late.
type Info struct {
	Transport       config.Transport // the transport in use: sse after a fallback from http
	Era             Era
	Other           Era // the other era, if the server is known to speak it
	ProtocolVersion string
	ServerName      string
	ServerVersion   string
	Capabilities    Capabilities
	RawCapabilities json.RawMessage // as the server sent them
	Instructions    string          // as the server sent them: hostile, at most 64 KiB
	Push            bool            // the server can send notifications
}

// Capabilities are what a server declares.
type Capabilities = mcp.Capabilities

func (o Options) withDefaults() Options {
	o.ClientVersion = cmp.Or(o.ClientVersion, "dev")
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, 15*time.Second)
	o.Limits = Limits{
		MaxPages: cmp.Or(o.Limits.MaxPages, 100),
		MaxItems: cmp.Or(o.Limits.MaxItems, 10_000),
		MaxList:  cmp.Or(o.Limits.MaxList, 32<<20),
		MaxLine:  cmp.Or(o.Limits.MaxLine, 4<<20),
		MaxBody:  cmp.Or(o.Limits.MaxBody, 8<<20),
		MaxDirty: cmp.Or(o.Limits.MaxDirty, 20_000),
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Environ == nil {
		o.Environ = os.LookupEnv
	}
	return o
}
