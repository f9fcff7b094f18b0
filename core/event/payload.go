package event

import (
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
)

// Payload is what an event tells beyond its header. The types of this package
// that end in no other words are all there are.
type Payload interface{ Type() Type }

// State is what a server's worker is doing.
type State string

// The states of a server.
const (
	Pending     State = "Pending"     // wanted, not begun
	Connecting  State = "Connecting"  // starting, connecting, listing, subscribing
	Ready       State = "Ready"       // listed and followed
	Backoff     State = "Backoff"     // failed; waiting for the next attempt
	Unsupported State = "Unsupported" // connected, but it has nothing of what is to be followed
	NeedsAuth   State = "NeedsAuth"   // refused for want of credentials; tried again rarely
	Disabled    State = "Disabled"    // the config says so
	Stopping    State = "Stopping"    // being disconnected
)

// Mode is how changes of resources are noticed.
type Mode string

// The modes.
const (
	Push Mode = "push"
	Poll Mode = "poll"
)

// ServerState tells that a server's state changed.
type ServerState struct {
	State           State        `json:"state"`
	Previous        State        `json:"previous,omitempty"`
	Reason          string       `json:"reason,omitempty"` // one word or phrase, such as "crashloop" or "removed"
	Error           string       `json:"error,omitempty"`  // one line, safe to print
	Attempt         int          `json:"attempt,omitempty"`
	RetryIn         Milliseconds `json:"retryInMs,omitempty"`
	ProtocolVersion string       `json:"protocolVersion,omitempty"`
	Era             string       `json:"era,omitempty"`
}

// SubscriptionActive tells that the server's resources are followed from here on.
type SubscriptionActive struct {
	Resources ResourceSet `json:"resources"`
	Mode      Mode        `json:"mode,omitempty"`    // none where changes are not noticed: neither pushed nor read
	Missing   []string    `json:"missing,omitempty"` // URIs that the server does not push; they are polled, if read at all
}

// ResourceSet is a number of resources, or their URIs where somebody asked for
// them: a number or an array of strings on the wire.
type ResourceSet struct {
	Count int
	URIs  []string // nil: only the number
}

// ResourceUpdated tells that a resource's content was announced or found to be
// different.
type ResourceUpdated struct {
	// Changed is whether the content differs from what was told last; nil when
	// that is not known (not read, or never read before).
	Changed        *bool          `json:"changed,omitempty"`
	Name           string         `json:"name,omitempty"`
	MimeType       string         `json:"mimeType,omitempty"`
	Size           *int64         `json:"size,omitempty"` // bytes of content
	Digest         catalog.Digest `json:"-"`
	PreviousDigest catalog.Digest `json:"-"`
	// Content and Diff are filled in by who shows the event, when asked for.
	Content *string `json:"content,omitempty"`
	Diff    *string `json:"diff,omitempty"`
	// Text and PreviousText are the contents themselves where the tracker keeps
	// them (see tracker.Options.Texts); nil for binary or large content.
	Text         *string `json:"-"`
	PreviousText *string `json:"-"`
}

// Descriptor is the part of a resource's descriptor that events show.
type Descriptor struct {
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
}

// ResourceAdded tells that a followed server offers a new resource.
type ResourceAdded struct{ Descriptor }

// ResourceRemoved tells that a resource is no longer offered.
type ResourceRemoved struct{ Descriptor }

// ResourceChanged tells that a resource's descriptor changed (not its content).
type ResourceChanged struct{ Descriptor }

// ListChanged tells how one of the lists of a server changed: URIs, URI
// templates or names.
type ListChanged struct {
	List    catalog.Kind `json:"-"`
	Added   []string     `json:"added"`
	Removed []string     `json:"removed"`
	Changed []string     `json:"changed"`
	// Details tell how the descriptors of Changed differ: for the first of them, up
	// to [MaxDetails] changes in all.
	Details []ItemChange `json:"details,omitempty"`
	// Error says why the list could not be loaded again; the old one is kept.
	Error string `json:"error,omitempty"`
}

// ConfigReloaded tells that a new config is applied: ids of servers. What follows
// from it comes later. Duration is from when the change was first seen.
type ConfigReloaded struct {
	Added    []string     `json:"added"`
	Removed  []string     `json:"removed"`
	Changed  []string     `json:"changed"`
	Duration Milliseconds `json:"durationMs"`
}

// ConfigRejected tells that a new config is not used; the old one stays.
type ConfigRejected struct {
	Problems config.Problems `json:"problems"`
}

// Gap tells a consumer that events it would have had to see are gone: those
// after From up to To. What follows it makes up for the states.
type Gap struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason"`
}

// Type implements [Payload].
func (ServerState) Type() Type { return TypeServerState }

// Type implements [Payload].
func (SubscriptionActive) Type() Type { return TypeSubscriptionActive }

// Type implements [Payload].
func (ResourceUpdated) Type() Type { return TypeResourceUpdated }

// Type implements [Payload].
func (ResourceAdded) Type() Type { return TypeResourceAdded }

// Type implements [Payload].
func (ResourceRemoved) Type() Type { return TypeResourceRemoved }

// Type implements [Payload].
func (ResourceChanged) Type() Type { return TypeResourceChanged }

// Type implements [Payload].
func (l ListChanged) Type() Type { return Type(l.List) + ".list_changed" }

// Type implements [Payload].
func (ConfigReloaded) Type() Type { return TypeConfigReloaded }

// Type implements [Payload].
func (ConfigRejected) Type() Type { return TypeConfigRejected }

// Type implements [Payload].
func (Gap) Type() Type { return TypeGap }

// Milliseconds is a duration that is a whole number of milliseconds on the wire.
type Milliseconds time.Duration
