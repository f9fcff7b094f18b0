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
	"github.com/mcptrack/mcptrack/core/process"
	"github.com/mcptrack/mcptrack/core/tracing"
)

// DialFunc opens the sessions for a tracker. Embedders and tests may replace it. ctx limits only
// dialling, not the session.
type DialFunc func(ctx context.Context, srv config.Server, opts Options) (*Session, error)

// Options contains the session settings that do not come from the server's config entry. The zero
// value is usable.
type Options struct {
	// ClientVersion is sent to the server together with the client name mcptrack. The default is
	// "dev".
	ClientVersion string
	// ConnectTimeout limits Dial if the server's entry does not specify a timeout. The default is
	// 15 seconds.
	ConnectTimeout time.Duration
	// Era is the era of an earlier session with this server, and is tried first. Empty if unknown.
	// A wrong Era costs one request, but not the connection.
	Era Era
	// Limits limits the memory that one server can make the session use.
	Limits Limits
	// OneShot is for commands that make a few requests and exit. No notification stream is opened
	// or awaited, and a child process that continues after its stdin is closed receives SIGTERM
	// after 100 ms instead of 1 s.
	OneShot bool
	// Grace is how long a child process may continue after its stdin is closed, before it receives
	// SIGTERM. The default is as OneShot says. A session with a cancelled request waits at most 1 s.
	Grace time.Duration
	// Logins stores logins to servers that require OAuth. If nil, no logins are used. A server
	// whose entry contains an Authorization header does not use its login.
	Logins *login.Store
	// Client answers requests from legacy servers and receives their messages. If nil, there is no
	// client, and such messages are dropped.
	Client *ClientSide
	// Logger receives the session's log records, at debug level. Nil discards them.
	Logger *slog.Logger
	// Tracer records a span for every request, and makes it the parent of what the server records.
	// Nil records nothing.
	Tracer *tracing.Tracer
	// Environ looks up the environment variables that a child process may inherit. The default is
	// os.LookupEnv. A child process inherits only the variables that core/process allows, because
	// other variables may contain secrets for other servers.
	Environ func(name string) (string, bool)
	// DialContext connects to servers over HTTP. The default is a [net.Dialer] with keep-alive.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
}

// ClientSide is the client on whose behalf a session acts, as seen by the server. A modern server
// sees only its capabilities.
type ClientSide struct {
	// Capabilities is declared to the server, as a JSON object. In the modern era it is declared
	// with every request, unless [Request.Client] overrides it.
	Capabilities json.RawMessage
	// Events also declares MCP Events, as a session without Capabilities does.
	Events bool
	// Request answers a request from the server, such as sampling/createMessage, on its own
	// goroutine. ctx is done when the server cancels the request or the session ends. An
	// [*RPCError] is sent to the server unchanged.
	Request func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)
	// Asked is called by the goroutine that reads from the server, before it starts Request, so it must
	// not block. Requests that the server sends before a response are reported before that response is
	// returned. Request is not called if the session ends immediately. Asked may be nil.
	Asked func(method string)
	// Message receives, in order, the notifications that the session does not handle itself, such
	// as notifications/message. It is called by the goroutine that reads from the server, so it
	// must not block.
	Message func(method string, params json.RawMessage)
}

// Limits contains the limits for one session. A zero field selects its default.
type Limits struct {
	MaxPages int   // pages per list; default 100
	MaxItems int   // items per list; default 10,000
	MaxList  int64 // bytes of all pages of one list; default 32 MiB
	MaxLine  int   // bytes of one stdout line or one SSE event; default 4 MiB
	MaxBody  int64 // bytes of one HTTP body after decompression; default 8 MiB
	MaxDirty int   // keys in Signals before they overflow into a Gap; default 20,000
}

// Era is the generation of MCP that a session uses.
type Era string

// The eras. See https://modelcontextprotocol.io/specification for both.
const (
	EraLegacy Era = "legacy" // 2024-11-05 to 2025-11-25: initialize, subscribe
	EraModern Era = "modern" // 2026-07-28: discover, subscriptions/listen
)

// Info is the result of the handshake. It does not change during a session, except that Push
// becomes true if a server opens its GET stream late.
type Info struct {
	Transport       config.Transport // transport in use: sse after a fallback from http
	Era             Era
	Other           Era // the other era, if the server is known to support both
	ProtocolVersion string
	ServerName      string
	ServerTitle     string
	ServerVersion   string
	Capabilities    Capabilities
	RawCapabilities json.RawMessage // as sent by the server
	Instructions    string          // as sent by the server: untrusted, at most 64 KiB
	Push            bool            // whether the server can send notifications
	PID             int             // id of the process that mcptrack started; 0 if there is none
}

// Capabilities contains the capabilities that a server declares.
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

// Inherited returns the names of the variables that a program inherits from Options.Environ; all others are
// withheld from it.
func Inherited() []string { return process.Inherited() }
