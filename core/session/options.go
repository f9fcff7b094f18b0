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

// DialFunc makes the sessions of a tracker; embedders and tests may replace it. The context
// bounds only the dialling, not the session.
type DialFunc func(ctx context.Context, srv config.Server, opts Options) (*Session, error)

// Options are the settings of a session that do not come from the server's entry in the config.
// The zero value is usable.
type Options struct {
	// ClientVersion is sent to the server with the name mcptrack; default "dev".
	ClientVersion string
	// ConnectTimeout bounds Dial when the server's entry does not; default 15 s.
	ConnectTimeout time.Duration
	// Era is the era of an earlier session with the same server, which is tried first; "": none
	// is known. A wrong Era costs one request, not the connection.
	Era Era
	// Limits bound the memory that one server can make us use.
	Limits Limits
	// OneShot is for a command that makes a few requests and exits: no notification channel is
	// opened or waited for, and a child process that outlives its stdin gets SIGTERM after 100
	// ms instead of 1 s.
	OneShot bool
	// Logins stores the logins to servers that require OAuth; nil: there are none. If a
	// server's entry has an Authorization header, its login is not used.
	Logins *login.Store
	// Client answers requests of legacy servers and gets their messages; nil: no client is
	// behind the session, and such messages are dropped.
	Client *ClientSide
	// Logger gets the session's log records, at debug level; nil discards them.
	Logger *slog.Logger
	// Environ looks up the variables that a child may inherit; default os.LookupEnv. A child
	// inherits only what core/process allows, because the rest may contain secrets of other
	// servers.
	Environ func(name string) (string, bool)
	// DialContext makes the connections to servers over HTTP; default: that of a [net.Dialer]
	// with keep-alive.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// ClientSide is what a server sees of the client behind a session; a modern one sees only its
// capabilities.
type ClientSide struct {
	// Capabilities are declared to the server, a JSON object; in the modern era by every request,
	// unless [Request.Client] has others.
	Capabilities json.RawMessage
	// Request answers a request of the server, such as sampling/createMessage. It is called on
	// a goroutine of its own, and ctx ends when the server cancels the request or the session
	// ends. An [*RPCError] that it returns is sent to the server unchanged.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Message gets notifications that the session does not handle itself, such as
	// notifications/message, in order. It is called by the goroutine that reads from the
	// server and must not block.
	Message func(method string, params json.RawMessage)
}

// Limits bound one session. A zero field means its default.
type Limits struct {
	MaxPages int   // pages of one list; 100
	MaxItems int   // items of one list; 10,000
	MaxList  int64 // bytes of all pages of one list; 32 MiB
	MaxLine  int   // bytes of one line of stdout, or of one SSE event; 4 MiB
	MaxBody  int64 // bytes of one HTTP body after decompression; 8 MiB
	MaxDirty int   // keys in Signals before it overflows into a Gap; 20,000
}

// Era is the generation of MCP that a session speaks.
type Era string

// The eras. See https://modelcontextprotocol.io/specification for both.
const (
	EraLegacy Era = "legacy" // 2024-11-05 to 2025-11-25: initialize, subscribe
	EraModern Era = "modern" // 2026-07-28: discover, subscriptions/listen
)

// Info is the result of the handshake. It does not change during a session, but for
// Push, which turns true when a server opens its GET stream late.
type Info struct {
	Transport       config.Transport // the one in use: sse after a fallback from http
	Era             Era
	Other           Era // the other era, if the server is known to speak it, too
	ProtocolVersion string
	ServerName      string
	ServerVersion   string
	Capabilities    Capabilities
	RawCapabilities json.RawMessage // unchanged, as the server sent them
	Instructions    string          // as the server sent them; hostile, at most 64 KiB
	Push            bool            // whether there is a channel for notifications
}

// Capabilities are what a server declares.
type Capabilities = mcp.Capabilities

// withDefaults fills in what was left zero.
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
