package event

import (
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
)

// What a client on this side did is told by the payloads of this file: something
// was read, called or subscribed to through tracker.Client. On the wire they carry
// no arguments and no contents, which may be for nobody's eyes but the caller's;
// in this process Content, Prompt and Result hold them.

// ResourceContent tells that a client has a resource's content anew: it was read,
// or read again after an update because it was kept.
type ResourceContent struct {
	// Template is the URI template that the URI was made from; "" if none was.
	Template string `json:"template,omitempty"`
	// Changed is whether the content differs from what was kept before; nil if
	// nothing was.
	Changed        *bool          `json:"changed,omitempty"`
	MimeType       string         `json:"mimeType,omitempty"`
	Size           int64          `json:"size"` // bytes of content
	Digest         catalog.Digest `json:"-"`
	PreviousDigest catalog.Digest `json:"-"`
	// Content and Previous are the contents themselves. They are nil in events that
	// were read from the wire and where they exceed tracker.Options.MaxText, as events
	// may wait for a slow consumer; the cache may have them. Previous is also nil if
	// nothing was kept before.
	Content  *cache.Resource `json:"-"`
	Previous *cache.Resource `json:"-"`
}

// PromptContent tells that a client got a prompt.
type PromptContent struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes of the MCP result
	// Prompt is the prompt itself; nil as Content of [ResourceContent] is.
	Prompt *cache.Prompt `json:"-"`
}

// ToolResult tells that a client's call of a tool ended.
type ToolResult struct {
	Name     string       `json:"name"`
	Success  bool         `json:"success"`
	Error    string       `json:"error,omitempty"` // one line, safe to print
	Duration Milliseconds `json:"durationMs"`
	// Result is the result itself; nil as Content of [ResourceContent] is.
	Result *cache.ToolResult `json:"-"`
}

// SubscriptionsChanged tells to which resources clients are subscribed now, beside
// those that the config follows.
type SubscriptionsChanged struct {
	URIs []string `json:"uris"` // sorted
}

// MaxDetails bounds [ListChanged.Details].
const MaxDetails = 200

// ItemChange tells how one descriptor of a list came to differ.
type ItemChange struct {
	Key     string           `json:"key"`            // the URI, URI template or name
	Fields  []string         `json:"fields"`         // its members that differ, sorted
	Changes []catalog.Change `json:"changes"`        // the places, as deep as they can be named
	More    int              `json:"more,omitempty"` // places that were left out
}

// Type implements [Payload].
func (ResourceContent) Type() Type { return TypeResourceContent }

// Type implements [Payload].
func (PromptContent) Type() Type { return TypePromptContent }

// Type implements [Payload].
func (ToolResult) Type() Type { return TypeToolResult }

// Type implements [Payload].
func (SubscriptionsChanged) Type() Type { return TypeSubscriptionsChanged }

type resourceContentAlias ResourceContent

// resourceContent has the digests in their wire form.
type resourceContent struct {
	resourceContentAlias
	digests
}

// MarshalJSON implements [json.Marshaler].
func (r ResourceContent) MarshalJSON() ([]byte, error) {
	return marshal(resourceContent{resourceContentAlias(r), digests{r.Digest.String(), r.PreviousDigest.String()}})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *ResourceContent) UnmarshalJSON(data []byte) error {
	var w resourceContent
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	*r = ResourceContent(w.resourceContentAlias)
	return w.parse(&r.Digest, &r.PreviousDigest)
}

// MarshalJSON implements [json.Marshaler].
func (s SubscriptionsChanged) MarshalJSON() ([]byte, error) {
	type alias SubscriptionsChanged
	s.URIs = orEmpty(s.URIs)
	return marshal(alias(s))
}

// MarshalJSON implements [json.Marshaler].
func (c ItemChange) MarshalJSON() ([]byte, error) {
	type alias ItemChange
	c.Fields = orEmpty(c.Fields)
	if c.Changes == nil {
		c.Changes = []catalog.Change{}
	}
	return marshal(alias(c))
}
