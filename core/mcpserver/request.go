package mcpserver

import (
	"encoding/json"
	"sync"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// Request is a request for a Func. It is valid until the Func returns.
type Request struct {
	// Method is tools/call, prompts/get, resources/read, completion/complete, or one of an
	// extension.
	Method string
	// Params are the parameters as the client sent them, without the members of _meta
	// that concern only the connection.
	Params json.RawMessage
	// Version is the protocol version of the client.
	Version string
	// Principal distinguishes clients with different credentials: a digest of the
	// Authorization header, "" without one. Never the credentials themselves.
	Principal string
	// Identity is a lasting name of the client, from Events.Identify; "" if it has none.
	Identity string
	// Capabilities are those of the client, a JSON object; nil if it declared none.
	Capabilities json.RawMessage
	// Client is the client, if it is of the legacy era; else nil.
	Client *Client

	// EventNumbering is the numbering of the errors of MCP Events, set by their handler; "": the
	// client's capabilities decide.
	EventNumbering mcp.EventNumbering

	after  *afterwards
	modern bool
	fields map[string]json.RawMessage
	notes  *notifier
}

// After makes the server call f once the answer to the request was written, or could not be
// written. f must not block.
func (r *Request) After(f func()) {
	if r.after == nil {
		f()
		return
	}
	r.after.add(f)
}

// afterwards are the functions to call after an answer.
type afterwards struct {
	mu   sync.Mutex
	all  []func()
	over bool // the answer was written
}

func (a *afterwards) add(f func()) {
	a.mu.Lock()
	over := a.over
	if !over {
		a.all = append(a.all, f)
	}
	a.mu.Unlock()
	if over {
		f()
	}
}

func (a *afterwards) run() {
	a.mu.Lock()
	all := a.all
	a.all, a.over = nil, true
	a.mu.Unlock()
	for _, f := range all {
		f()
	}
}

// URI is params.uri, or "".
func (r *Request) URI() string { return text(r.fields["uri"]) }

// Name is params.name, or "".
func (r *Request) Name() string { return text(r.fields["name"]) }

// Modern reports whether the client is of the era of 2026-07-28.
func (r *Request) Modern() bool { return r.modern }

// ProgressToken is the token that progress must carry; nil if the client requested none.
func (r *Request) ProgressToken() json.RawMessage {
	meta, err := object(r.fields["_meta"])
	if err != nil {
		return nil
	}
	return meta["progressToken"]
}

// Notify sends a notification that belongs to this request, such as
// notifications/progress, before its answer. It blocks while the client does not read.
// It does nothing once the client has disconnected, the request was cancelled or the
// Func has returned, for an HTTP client that does not accept text/event-stream, and for
// params that cannot be encoded.
func (r *Request) Notify(method string, params any) {
	if r.notes == nil {
		return
	}
	if message := notification(method, params); message != nil {
		r.notes.write(message)
	}
}
