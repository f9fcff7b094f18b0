package cache

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Resource holds the content of a resource as read at one point in time.
type Resource struct {
	// URI is the resource that was read.
	URI string
	// Template is the URI template from which URI was expanded, using Params; empty if the caller
	// passed the URI itself.
	Template string
	Params   map[string]string

	Digest   catalog.Digest // digest of the content, see session.Content
	Size     int64          // total size of all texts and decoded blobs, in bytes
	MimeType string         // first MIME type in the response

	// Time is when the response arrived.
	Time time.Time
	// Expires is when the content stops being fresh, according to the server's ttlMs. Without a
	// positive ttlMs it is not after Time.
	Expires time.Time
	// Private is true unless the server set cacheScope to public.
	Private bool
	// Stale is true if an update was announced after the content was requested.
	Stale bool

	raw string // the MCP result, stored as a string because strings are immutable
}

// NewResource returns a Resource for a resources/read result that arrived at the given time.
func NewResource(uri string, raw json.RawMessage, at time.Time) Resource {
	ttl, public := freshness(raw)
	return Resource{URI: uri, Time: at, Expires: at.Add(ttl), Private: !public, raw: string(raw)}
}

// Raw returns a copy of the MCP result.
func (r Resource) Raw() json.RawMessage { return json.RawMessage(r.raw) }

// Text returns the concatenated text of all parts of the content, or false if any part is binary.
func (r Resource) Text() (string, bool) {
	var result struct {
		Contents []struct {
			Text *string `json:"text"`
		} `json:"contents"`
	}
	if json.Unmarshal([]byte(r.raw), &result) != nil {
		return "", false
	}
	var b strings.Builder
	for _, c := range result.Contents {
		if c.Text == nil {
			return "", false
		}
		b.WriteString(*c.Text)
	}
	return b.String(), true
}

// Prompt holds the result of a prompts/get request.
type Prompt struct {
	Name      string
	Arguments map[string]string
	Time      time.Time // when the response arrived
	raw       string
}

// NewPrompt returns a Prompt for a prompts/get result.
func NewPrompt(name string, args map[string]string, raw json.RawMessage, at time.Time) Prompt {
	return Prompt{Name: name, Arguments: args, Time: at, raw: string(raw)}
}

// Raw returns a copy of the MCP result.
func (p Prompt) Raw() json.RawMessage { return json.RawMessage(p.raw) }

// ToolResult holds the outcome of a tools/call request.
type ToolResult struct {
	Name string
	// Success is false if the call failed or received no response, or if the result has isError
	// set.
	Success bool
	// Error is the error message as one printable line; empty on success.
	Error string
	Time  time.Time // when the call ended

	arguments, raw string
}

// NewToolResult returns a ToolResult. raw is nil if there was no result; failure is empty if the
// call succeeded. Arguments that cannot be encoded as JSON are omitted, because they were not sent
// either.
func NewToolResult(name string, args map[string]any, raw json.RawMessage, failure string, at time.Time) ToolResult {
	encoded, _ := json.Marshal(args)
	return ToolResult{Name: name, Success: failure == "", Error: failure, Time: at, arguments: string(encoded), raw: string(raw)}
}

// Raw returns a copy of the MCP result, or nil if there was none.
func (t ToolResult) Raw() json.RawMessage {
	if t.raw == "" {
		return nil
	}
	return json.RawMessage(t.raw)
}

// Arguments returns the arguments of the call as a JSON object.
func (t ToolResult) Arguments() json.RawMessage { return json.RawMessage(t.arguments) }

// entry is a cached value: a Resource, a Prompt or a ToolResult.
type entry interface {
	bytes() int64 // approximate size in memory
	// own returns a copy of the entry that does not share its maps.
	own() entry
}

// overhead is the approximate size in bytes of an entry, excluding its texts.
const overhead = 256

func (r Resource) bytes() int64 {
	return overhead + int64(len(r.raw)+len(r.URI)+len(r.Template)+len(r.MimeType)) + mapBytes(r.Params)
}

func (r Resource) own() entry {
	r.Params = maps.Clone(r.Params)
	return r
}

func (p Prompt) bytes() int64 {
	return overhead + int64(len(p.raw)+len(p.Name)) + mapBytes(p.Arguments)
}

func (p Prompt) own() entry {
	p.Arguments = maps.Clone(p.Arguments)
	return p
}

func (t ToolResult) bytes() int64 {
	return overhead + int64(len(t.raw)+len(t.arguments)+len(t.Name)+len(t.Error))
}

func (t ToolResult) own() entry { return t }

func mapBytes(m map[string]string) int64 {
	n := 0
	for k, v := range m {
		n += len(k) + len(v) + 64
	}
	return int64(n)
}

// maxTTL limits ttlMs, so that the duration does not overflow and no entry stays fresh
// indefinitely.
const maxTTL = 24 * time.Hour

// freshness parses ttlMs and cacheScope in a result.
func freshness(raw json.RawMessage) (ttl time.Duration, public bool) {
	var members struct {
		TTL   json.RawMessage `json:"ttlMs"`
		Scope json.RawMessage `json:"cacheScope"`
	}
	if json.Unmarshal(raw, &members) != nil {
		return 0, false
	}
	var ms float64
	if json.Unmarshal(members.TTL, &ms) == nil && ms > 0 {
		ttl = time.Duration(min(ms, float64(maxTTL.Milliseconds()))) * time.Millisecond
	}
	return ttl, string(members.Scope) == `"public"`
}
