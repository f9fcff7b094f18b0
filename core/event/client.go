package event

import (
	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// The payloads of this file report what a client on this side did through
// tracker.Client. On the wire they carry neither arguments nor contents, which may be
// private to the caller; in this process Content, Prompt and Result hold them.

// ResourceContent is published when a client has read a resource, or when a cached
// resource was read again after an update.
type ResourceContent struct {
	// Template is the URI template that the URI was expanded from; "" if it was not.
	Template string `json:"template,omitempty"`
	// Changed says whether the content differs from the content that was cached before;
	// nil if none was cached.
	Changed        *bool          `json:"changed,omitempty"`
	MimeType       string         `json:"mimeType,omitempty"`
	Size           int64          `json:"size"` // bytes of content
	Digest         catalog.Digest `json:"digest,omitzero"`
	PreviousDigest catalog.Digest `json:"previousDigest,omitzero"`
	// Content and Previous are the contents themselves. They are nil in events that
	// were decoded and where they exceed tracker.Options.MaxText, as events may wait for a
	// slow consumer; the cache may have them. Previous is also nil if nothing was cached
	// before.
	Content  *cache.Resource `json:"-"`
	Previous *cache.Resource `json:"-"`
}

// PromptContent is published when a client got a prompt.
type PromptContent struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes of the MCP result
	// Prompt is the prompt itself; nil where Content of [ResourceContent] would be.
	Prompt *cache.Prompt `json:"-"`
}

// ToolResult is published when a client's call of a tool ended.
type ToolResult struct {
	Name     string       `json:"name"`
	Success  bool         `json:"success"`
	Error    string       `json:"error,omitempty"` // one line, safe to print
	Duration Milliseconds `json:"durationMs"`
	// Result is the result itself; nil where Content of [ResourceContent] would be.
	Result *cache.ToolResult `json:"-"`
}

// SubscriptionsChanged is published when clients subscribe to other resources than
// before, in addition to those that the config follows.
type SubscriptionsChanged struct {
	URIs []string `json:"uris" about:"all of them, sorted"`
}

// Type implements [Payload].
func (ResourceContent) Type() Type { return TypeResourceContent }

// Type implements [Payload].
func (PromptContent) Type() Type { return TypePromptContent }

// Type implements [Payload].
func (ToolResult) Type() Type { return TypeToolResult }

// Type implements [Payload].
func (SubscriptionsChanged) Type() Type { return TypeSubscriptionsChanged }

// MarshalJSON implements [json.Marshaler].
func (s SubscriptionsChanged) MarshalJSON() ([]byte, error) {
	type alias SubscriptionsChanged
	s.URIs = orEmpty(s.URIs)
	return printable.Marshal(alias(s))
}
