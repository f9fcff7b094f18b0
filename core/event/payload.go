package event

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// State is what the tracker does with a server at present.
type State string

// The states of a server.
const (
	Pending     State = "Pending"     // configured, but not started
	Connecting  State = "Connecting"  // starting, connecting, listing, subscribing
	Ready       State = "Ready"       // listed and followed
	Backoff     State = "Backoff"     // failed; waiting for the next attempt
	Unsupported State = "Unsupported" // connected, but it offers nothing that can be followed
	NeedsAuth   State = "NeedsAuth"   // credentials are missing or wrong; retried rarely
	Disabled    State = "Disabled"    // by the config
	// Unconfigured servers need a variable, file or program that this machine lacks.
	// They are not connected until the config, or what it refers to, changes.
	Unconfigured State = "Unconfigured"
	// Unapproved servers have an entry in the config that the user has not approved. They are not
	// connected, or are still connected with the entry that was approved before.
	Unapproved State = "Unapproved"
	Stopping   State = "Stopping" // being disconnected
)

// UpdateMode is how changes of resources are noticed.
type UpdateMode string

// The modes.
const (
	Push UpdateMode = "push" // the server sends notifications
	Poll UpdateMode = "poll" // the resources are read at an interval
)

// ServerState is published when the state of a server changes.
type ServerState struct {
	State           State        `json:"state"`
	Previous        State        `json:"previous,omitempty"`
	Reason          string       `json:"reason,omitempty"`  // a word or phrase, such as "crashloop" or "removed"
	Error           string       `json:"error,omitempty"`   // one line, safe to print
	Attempt         int          `json:"attempt,omitempty"` // consecutive failures
	RetryIn         Milliseconds `json:"retryInMs,omitempty"`
	ProtocolVersion string       `json:"protocolVersion,omitempty"`
	Era             string       `json:"era,omitempty"`
	StillConnected  bool         `json:"stillConnected,omitempty" about:"Unapproved: still connected, with the entry that was approved before"`
}

// SubscriptionActive is published when a server's resources are followed from now on, or in
// another way than before.
type SubscriptionActive struct {
	Resources ResourceSet `json:"resources" about:"number or list"`
	Mode      UpdateMode  `json:"mode,omitempty" about:"push or poll; absent if changes go unnoticed"`
	Missing   []string    `json:"missing,omitempty" about:"URIs that the server does not push"`
}

// ResourceSet is a number of resources, or their URIs if the caller named them. On the wire it is
// a number or an array of strings.
type ResourceSet struct {
	Count int
	URIs  []string // nil: only the number
}

// ResourceUpdated is published when a server announced an update of a resource, or its content was
// found to be different.
type ResourceUpdated struct {
	// Changed says whether the content differs from the one published last; nil if that is not
	// known, because it was not read, or never before.
	Changed        *bool          `json:"changed,omitempty" about:"false: announced, but the content is the same"`
	Name           string         `json:"name,omitempty"`
	MimeType       string         `json:"mimeType,omitempty"`
	Size           *int64         `json:"size,omitempty"` // bytes of content
	Digest         catalog.Digest `json:"digest,omitzero"`
	PreviousDigest catalog.Digest `json:"previousDigest,omitzero"`
	// Content and Diff are set by an output that was asked to show them; otherwise nil.
	Content *string `json:"content,omitempty" about:"with --content"`
	Diff    *string `json:"diff,omitempty" about:"with --diff"`
	// Text and PreviousText are the contents themselves if the tracker keeps
	// them (see tracker.Options.Texts); nil for binary or large contents.
	Text         *string `json:"-"`
	PreviousText *string `json:"-"`
}

// Descriptor is the part of a resource's descriptor that events show.
type Descriptor struct {
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
}

// ResourceAdded is published when a followed server offers a new resource.
type ResourceAdded struct{ Descriptor }

// ResourceRemoved is published when a resource is no longer offered.
type ResourceRemoved struct {
	Descriptor
	// Missing is set by a tracker if a read did not find a resource that it still tracks
	// because the server lists it or the config names it.
	Missing bool `json:"-"`
}

// ResourceChanged is published when the descriptor of a resource changed, not its
// content.
type ResourceChanged struct{ Descriptor }

// ListChanged is published when one of the lists of a server changed. It names URIs, URI templates
// or names.
type ListChanged struct {
	List    catalog.Kind `json:"-"`
	Added   []string     `json:"added"`
	Removed []string     `json:"removed"`
	Changed []string     `json:"changed"`
	// Details are how the descriptors of the first items of Changed differ; see
	// [catalog.ItemChanges].
	Details []catalog.ItemChange `json:"details,omitempty" about:"how the changed ones differ: key, fields, changes"`
	// Error is why the list could not be loaded; the old one is kept.
	Error string `json:"error,omitempty" about:"why the list could not be loaded; the old one stays"`
	// Items is the whole list after the change, nil if it is unknown. Only a tracker that
	// records its events sets it.
	Items *catalog.List `json:"-"`
	// Follows are the resources whose own events follow this one. It is set together with Items.
	Follows []string `json:"-"`
}

// ServerEvent is published for an event of the server (MCP Events) that is about no
// resource, if the config follows such events. Its data is not published.
type ServerEvent struct {
	Name    string `json:"name" about:"its type"`
	EventID string `json:"eventId"`
	Size    int    `json:"size" about:"bytes of its data"`
}

// ConfigReloaded is published when a new config is applied. It has the ids of the servers that
// differ. Events about the effects follow. Duration is the time since the change of the file was
// first noticed.
type ConfigReloaded struct {
	Added    []string     `json:"added"`
	Removed  []string     `json:"removed"`
	Changed  []string     `json:"changed"`
	Duration Milliseconds `json:"durationMs"`
}

// ConfigRejected is published when a new config is invalid; the old one stays in use.
type ConfigRejected struct {
	Problems []Problem `json:"problems"`
}

// Problem is one defect of a rejected config. It has the members of a problem of
// validate --json. Its publisher makes sure that no field contains a secret.
type Problem struct {
	Severity string `json:"severity"`       // error or warning
	File     string `json:"file,omitempty"` // its path
	Line     int    `json:"line"`           // 1-based
	Column   int    `json:"column"`         // 1-based, in code points
	Path     string `json:"path"`           // JSON pointer of the value at fault; "" for the whole file
	Code     string `json:"code"`           // the kind of problem, such as "syntax"
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

// severityError is the severity of the problems that cause the rejection.
const severityError = "error"

// Summary returns the first error, or the first warning if there is no error, as
// FILE:LINE:COLUMN: SEVERITY: MESSAGE, and how many more errors there are. In decoded events it
// may contain any characters.
func (c ConfigRejected) Summary() string {
	if len(c.Problems) == 0 {
		return "no problems"
	}
	isError := func(p Problem) bool { return p.Severity == severityError }
	p := c.Problems[max(0, slices.IndexFunc(c.Problems, isError))]
	text := fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Severity, p.Message)
	more := -1
	for _, p := range c.Problems {
		if isError(p) {
			more++
		}
	}
	switch {
	case more == 1:
		text += " (and 1 more error)"
	case more > 1:
		text += fmt.Sprintf(" (and %d more errors)", more)
	}
	return text
}

// Gap is sent to a consumer that missed the events after From up to To, which are no longer
// available. The events that follow restore the states.
type Gap struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason"`
}

// Milliseconds is a duration that is a whole number of milliseconds on the wire.
type Milliseconds time.Duration

// The following payloads report what a client in this process did through
// tracker.Client. On the wire they carry neither arguments nor contents, which may be
// private to the caller; in this process, Content, Prompt and Result hold them.

// ResourceContent is published when a client has read a resource, or when a cached
// resource was read again after an update.
type ResourceContent struct {
	// Template is the URI template that the URI was expanded from; "" if it was not.
	Template string `json:"template,omitempty"`
	// Changed says whether the content differs from the previously cached content;
	// nil if none was cached.
	Changed        *bool          `json:"changed,omitempty"`
	MimeType       string         `json:"mimeType,omitempty"`
	Size           int64          `json:"size"` // bytes of content
	Digest         catalog.Digest `json:"digest,omitzero"`
	PreviousDigest catalog.Digest `json:"previousDigest,omitzero"`
	// Content and Previous are the contents themselves. They are nil in decoded events, and if they
	// exceed tracker.Options.MaxText, because events may wait for a slow consumer; the cache may
	// have them. Previous is also nil if nothing was cached before.
	Content  *cache.Resource `json:"-"`
	Previous *cache.Resource `json:"-"`
}

// PromptContent is published when a client got a prompt.
type PromptContent struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes of the MCP result
	// Prompt is the prompt itself; nil if Content of a [ResourceContent] would be.
	Prompt *cache.Prompt `json:"-"`
}

// ToolResult is published when a client's call of a tool ended.
type ToolResult struct {
	Name     string       `json:"name"`
	Success  bool         `json:"success"`
	Error    string       `json:"error,omitempty"` // one line, safe to print
	Duration Milliseconds `json:"durationMs"`
	// Result is the result itself; nil if Content of a [ResourceContent] would be.
	Result *cache.ToolResult `json:"-"`
}

// SubscriptionsChanged is published when the set of resources that clients subscribe to changes.
// These are in addition to the resources that the config selects.
type SubscriptionsChanged struct {
	URIs []string `json:"uris" about:"all of them, sorted"`
}

// Type implements [Payload].
func (ServerState) Type() Type          { return TypeServerState }
func (SubscriptionActive) Type() Type   { return TypeSubscriptionActive }
func (ResourceUpdated) Type() Type      { return TypeResourceUpdated }
func (ResourceAdded) Type() Type        { return TypeResourceAdded }
func (ResourceRemoved) Type() Type      { return TypeResourceRemoved }
func (ResourceChanged) Type() Type      { return TypeResourceChanged }
func (l ListChanged) Type() Type        { return Type(l.List) + ".list_changed" }
func (ServerEvent) Type() Type          { return TypeServerEvent }
func (ConfigReloaded) Type() Type       { return TypeConfigReloaded }
func (ConfigRejected) Type() Type       { return TypeConfigRejected }
func (Gap) Type() Type                  { return TypeGap }
func (ResourceContent) Type() Type      { return TypeResourceContent }
func (PromptContent) Type() Type        { return TypePromptContent }
func (ToolResult) Type() Type           { return TypeToolResult }
func (SubscriptionsChanged) Type() Type { return TypeSubscriptionsChanged }

// appendMembers appends the members as the tags of the fields describe them, each after a
// comma. It does not use encoding/json, because nearly all events are of this type.
func (r ResourceUpdated) appendMembers(b []byte) ([]byte, error) {
	if r.Changed != nil {
		b = strconv.AppendBool(append(b, `,"changed":`...), *r.Changed)
	}
	var err error
	text := func(name, value string, shown bool) {
		if shown && err == nil {
			b, err = appendString(append(append(append(b, `,"`...), name...), `":`...), value)
		}
	}
	text("name", r.Name, r.Name != "")
	text("mimeType", r.MimeType, r.MimeType != "")
	if r.Size != nil {
		b = strconv.AppendInt(append(b, `,"size":`...), *r.Size, 10)
	}
	text("digest", r.Digest.String(), !r.Digest.IsZero())
	text("previousDigest", r.PreviousDigest.String(), !r.PreviousDigest.IsZero())
	if r.Content != nil {
		text("content", *r.Content, true)
	}
	if r.Diff != nil {
		text("diff", *r.Diff, true)
	}
	return b, err
}

// MarshalJSON implements [json.Marshaler].
func (s ResourceSet) MarshalJSON() ([]byte, error) {
	if s.URIs != nil {
		return printable.Marshal(s.URIs)
	}
	return strconv.AppendInt(nil, int64(s.Count), 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (s *ResourceSet) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		err := json.Unmarshal(data, &s.URIs)
		s.Count = len(s.URIs)
		return err
	}
	return json.Unmarshal(data, &s.Count)
}

// MarshalJSON implements [json.Marshaler].
func (l ListChanged) MarshalJSON() ([]byte, error) {
	type alias ListChanged
	l.Added, l.Removed, l.Changed = orEmpty(l.Added), orEmpty(l.Removed), orEmpty(l.Changed)
	return printable.Marshal(alias(l))
}

// MarshalJSON implements [json.Marshaler].
func (s SubscriptionsChanged) MarshalJSON() ([]byte, error) {
	type alias SubscriptionsChanged
	s.URIs = orEmpty(s.URIs)
	return printable.Marshal(alias(s))
}

// MarshalJSON implements [json.Marshaler].
func (c ConfigReloaded) MarshalJSON() ([]byte, error) {
	type alias ConfigReloaded
	c.Added, c.Removed, c.Changed = orEmpty(c.Added), orEmpty(c.Removed), orEmpty(c.Changed)
	return printable.Marshal(alias(c))
}

// MarshalJSON implements [json.Marshaler].
func (m Milliseconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(m).Milliseconds(), 10), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Milliseconds) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return errors.New("a duration is not a whole number of milliseconds")
	}
	*m = Milliseconds(time.Duration(n) * time.Millisecond)
	return nil
}

// orEmpty returns s, or an empty slice for nil, so that JSON has [] and not null.
func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
