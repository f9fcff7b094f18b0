package event

import (
	"fmt"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// State says where a server stands: what the tracker does with it at present.
type State string

// The states of a server.
const (
	Pending     State = "Pending"     // configured, not begun
	Connecting  State = "Connecting"  // starting, connecting, listing, subscribing
	Ready       State = "Ready"       // listed and followed
	Backoff     State = "Backoff"     // failed; waiting for the next attempt
	Unsupported State = "Unsupported" // connected, but it offers nothing that can be followed
	NeedsAuth   State = "NeedsAuth"   // credentials are missing or wrong; tried again rarely
	Disabled    State = "Disabled"    // the config says so
	// Unconfigured servers need a variable, file or program that this machine lacks.
	// They are not connected until the config or what it refers to changes.
	Unconfigured State = "Unconfigured"
	// Unapproved servers have an entry in the config that the user has not approved. They are not
	// connected, or still connected with the entry that was approved before.
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
	Attempt         int          `json:"attempt,omitempty"` // failures in a row
	RetryIn         Milliseconds `json:"retryInMs,omitempty"`
	ProtocolVersion string       `json:"protocolVersion,omitempty"`
	Era             string       `json:"era,omitempty"`
	StillConnected  bool         `json:"stillConnected,omitempty" about:"Unapproved: still connected, with the entry that was approved before"`
}

// SubscriptionActive is published when the resources of a server are followed from
// here on.
type SubscriptionActive struct {
	Resources ResourceSet `json:"resources" about:"number or list"`
	Mode      UpdateMode  `json:"mode,omitempty" about:"push or poll; absent if changes go unnoticed"`
	Missing   []string    `json:"missing,omitempty" about:"URIs that the server does not push"`
}

// ResourceSet is a number of resources, or their URIs where a caller named them: a
// number or an array of strings on the wire.
type ResourceSet struct {
	Count int
	URIs  []string // nil: only the number
}

// ResourceUpdated is published when the content of a resource was announced or found to
// be different.
type ResourceUpdated struct {
	// Changed says whether the content differs from what was published last; nil when
	// that is not known (not read, or never read before).
	Changed        *bool          `json:"changed,omitempty" about:"false: announced, but the content is the same"`
	Name           string         `json:"name,omitempty"`
	MimeType       string         `json:"mimeType,omitempty"`
	Size           *int64         `json:"size,omitempty"` // bytes of content
	Digest         catalog.Digest `json:"digest,omitzero"`
	PreviousDigest catalog.Digest `json:"previousDigest,omitzero"`
	// Content and Diff are filled in by an output that was asked to show them; else nil.
	Content *string `json:"content,omitempty" about:"with --content"`
	Diff    *string `json:"diff,omitempty" about:"with --diff"`
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

// ResourceAdded is published when a followed server offers a new resource.
type ResourceAdded struct{ Descriptor }

// ResourceRemoved is published when a resource is no longer offered.
type ResourceRemoved struct {
	Descriptor
	// Missing is set by a tracker if a read did not find a resource that it still tracks,
	// since the server lists it or the config names it.
	Missing bool `json:"-"`
}

// ResourceChanged is published when the descriptor of a resource changed, not its
// content.
type ResourceChanged struct{ Descriptor }

// ListChanged says how one of the lists of a server changed: URIs, URI templates or
// names.
type ListChanged struct {
	List    catalog.Kind `json:"-"`
	Added   []string     `json:"added"`
	Removed []string     `json:"removed"`
	Changed []string     `json:"changed"`
	// Details say how the descriptors of the first items of Changed differ, see
	// [catalog.ItemChanges].
	Details []catalog.ItemChange `json:"details,omitempty" about:"how the changed ones differ: key, fields, changes"`
	// Error says why the list could not be loaded again; the old one is kept.
	Error string `json:"error,omitempty" about:"why the list could not be loaded; the old one stays"`
	// Items is the whole list after the change, nil if it is unknown: only a tracker that
	// records its events sets it.
	Items *catalog.List `json:"-"`
	// Follows are the resources about which events of their own follow this one. Who sets Items
	// sets it.
	Follows []string `json:"-"`
}

// ServerEvent is published for an event of a server's own (MCP Events) that is about no
// resource, where the config follows such events. Its data is not published.
type ServerEvent struct {
	Name    string `json:"name" about:"its type"`
	EventID string `json:"eventId"`
	Size    int    `json:"size" about:"bytes of its data"`
}

// ConfigReloaded is published when a new config is applied, and names the ids of the
// servers that differ. Events about the effects follow. Duration is the time since the
// change of the file was first seen.
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

// Problem is one defect of a config that was rejected. Its members are those of a problem of
// validate --json. Who publishes it makes sure that no field has a secret in it.
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

// severityError is the severity of the problems that lead to the rejection.
const severityError = "error"

// Summary is the first error, or the first warning if there is no error, as
// FILE:LINE:COLUMN: SEVERITY: MESSAGE, and how many more errors there are. Decoded events
// may have any characters in it.
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

// Gap is sent to a consumer that missed events which are no longer available: those
// after From up to To. The events that follow restore the states.
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
func (ServerEvent) Type() Type { return TypeServerEvent }

// Type implements [Payload].
func (ConfigReloaded) Type() Type { return TypeConfigReloaded }

// Type implements [Payload].
func (ConfigRejected) Type() Type { return TypeConfigRejected }

// Type implements [Payload].
func (Gap) Type() Type { return TypeGap }

// Milliseconds is a duration that is a whole number of milliseconds on the wire.
type Milliseconds time.Duration
