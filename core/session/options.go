package session

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
)

// DialFunc is how a tracker gets its sessions: the seam for embedders and
// tests. The context bounds the dialling only, not the session's life.
type DialFunc func(ctx context.Context, srv config.Server, opts Options) (*Session, error)

// Options are the ways of a session that do not come from the server's entry in
// the configuration. The zero value is usable.
type Options struct {
	// ClientName and ClientVersion are told to the server; "mcptrack" and "dev".
	ClientName, ClientVersion string
	// ConnectTimeout bounds Dial when the server's entry does not; default 15 s.
	ConnectTimeout time.Duration
	// Era is what an earlier session with the same server found out; "" when
	// nothing is known. A wrong Era costs one request, not the connection.
	Era Era
	// Limits bound what a server may make us hold.
	Limits Limits
	// OneShot is for a command that asks something and leaves: no push channel
	// is opened or waited for, and a child process that outlives its stdin gets
	// SIGTERM after 100 ms instead of 1 s.
	OneShot bool
	// Logger gets everything that is worth a line, at debug level; nil discards.
	Logger *slog.Logger
	// Environ looks up what the child's environment is picked from; os.LookupEnv
	// when nil. A child inherits what core/process allows, never the rest,
	// which may hold other servers' secrets.
	Environ func(name string) (string, bool)
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

// Info is what the handshake told. It does not change during a session, but for
// Push, which turns true when a server opens its GET stream late.
type Info struct {
	Transport       config.Transport // the one in use: sse after a fallback from http
	Era             Era
	ProtocolVersion string
	ServerName      string
	ServerVersion   string
	Capabilities    Capabilities
	RawCapabilities json.RawMessage // as the server sent them
	Push            bool            // a channel for notifications exists
}

// Capabilities are the parts of a server's capabilities that a tracker acts on.
type Capabilities struct {
	Resources, Tools, Prompts, Completions bool

	ResourcesSubscribe                                         bool
	ResourcesListChanged, ToolsListChanged, PromptsListChanged bool
}

// Has reports whether the server offers lists of the kind.
func (c Capabilities) Has(k catalog.Kind) bool {
	switch k {
	case catalog.Resources, catalog.Templates:
		return c.Resources
	case catalog.Tools:
		return c.Tools
	case catalog.Prompts:
		return c.Prompts
	}
	return false
}

func parseCapabilities(raw json.RawMessage) Capabilities {
	type list struct {
		ListChanged bool `json:"listChanged"`
		Subscribe   bool `json:"subscribe"`
	}
	var c struct {
		Resources, Tools, Prompts *list
		Completions               json.RawMessage
	}
	if json.Unmarshal(raw, &c) != nil {
		// One member of a wrong type must not hide the others.
		var members map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members)
		for name, into := range map[string]**list{"resources": &c.Resources, "tools": &c.Tools, "prompts": &c.Prompts} {
			if _, ok := members[name]; ok && *into == nil {
				*into = new(list)
			}
		}
	}
	caps := Capabilities{Completions: len(c.Completions) > 0 && string(c.Completions) != "null"}
	if c.Resources != nil {
		caps.Resources, caps.ResourcesSubscribe, caps.ResourcesListChanged = true, c.Resources.Subscribe, c.Resources.ListChanged
	}
	if c.Tools != nil {
		caps.Tools, caps.ToolsListChanged = true, c.Tools.ListChanged
	}
	if c.Prompts != nil {
		caps.Prompts, caps.PromptsListChanged = true, c.Prompts.ListChanged
	}
	return caps
}

// withDefaults fills in what was left zero.
func (o Options) withDefaults() Options {
	o.ClientName = cmp.Or(o.ClientName, "mcptrack")
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
