package event

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
)

// State is the state of a server in the tracker.
type State string

// The server states.
const (
	Pending     State = "Pending"     // configured, but not started
	Connecting  State = "Connecting"  // starting, connecting, listing, subscribing
	Ready       State = "Ready"       // listed and followed
	Backoff     State = "Backoff"     // failed; waiting for the next attempt
	Unsupported State = "Unsupported" // connected, but offers nothing that can be followed
	NeedsAuth   State = "NeedsAuth"   // credentials are missing or wrong; retried rarely
	Disabled    State = "Disabled"    // disabled in the config
	// Unconfigured means that the server needs a variable, file or program that is missing on this
	// machine. It is not connected until the config, or something the config refers to, changes.
	Unconfigured State = "Unconfigured"
	// Unapproved means that the user has not approved the server's entry in the config. The server
	// is not connected, or is still connected using the previously approved entry.
	Unapproved State = "Unapproved"
	Stopping   State = "Stopping" // being disconnected
	// Failed means that a command that connects once, such as list, could not connect or list. A
	// tracker retries and never publishes it.
	Failed State = "Failed"
)

// States returns the states that a tracker publishes.
func States() []State {
	return []State{Pending, Connecting, Ready, Backoff, Unsupported, NeedsAuth, Unconfigured, Unapproved, Disabled, Stopping}
}

// Words returns the state in lower-case words; see [State.Said]. Output for programs uses the State itself. Unknown states are returned in lower case.
func (s State) Words() string {
	switch s {
	case Pending:
		return "waiting"
	case Backoff:
		return "retrying"
	case NeedsAuth:
		return "needs login"
	case Unconfigured:
		return "not configured"
	case Unapproved:
		return "not approved"
	case Stopping:
		return "stopped"
	}
	return strings.ToLower(string(s))
}

// Reasons of the states of a server that is connected on demand.
const (
	Asleep = "asleep" // Pending: nobody needs the server
	Waking = "waking" // Connecting: the server was asleep, or was not connected before
)

// Dormant reports whether a server in this state, for this reason, is asleep, or has been woken and is not
// yet connected.
func (s State) Dormant(reason string) bool {
	return s == Pending && reason == Asleep || s == Connecting && reason == Waking
}

// Said returns the words and the tone in which every output shows a server in this state, for this reason.
// The words of a dormant server are the reason.
func (s State) Said(reason string) (words string, tone Tone) {
	words = s.Words()
	if s.Dormant(reason) {
		words = reason
	}
	switch s {
	case Ready:
		return words, ToneGood
	case Backoff, Failed, NeedsAuth, Unconfigured, Unapproved:
		return words, ToneBad
	case Unsupported:
		return words, ToneChanged
	case Pending, Connecting:
		if words != Asleep {
			return words, ToneAccent
		}
	}
	return words, ToneQuiet
}

// UpdateMode describes how changes to resources are detected.
type UpdateMode string

// The update modes.
const (
	Push UpdateMode = "push" // the server sends notifications
	Poll UpdateMode = "poll" // resources are polled at an interval
)

// NoResources is the Reason in the state of a connected server whose resources are to be followed,
// but which offers none. The state is Unsupported if nothing else on the server is followed.
const NoResources = "the server does not offer resources"

// ServerState is published when the state of a server changes.
type ServerState struct {
	State           State        `json:"state"`
	Previous        State        `json:"previous,omitempty"`
	Reason          string       `json:"reason,omitempty"`  // a word or short phrase, such as "crashloop" or "removed"
	Error           string       `json:"error,omitempty"`   // one line, safe to print
	Attempt         int          `json:"attempt,omitempty"` // number of consecutive failures
	RetryIn         Milliseconds `json:"retryInMs,omitempty"`
	ProtocolVersion string       `json:"protocolVersion,omitempty"`
	Era             string       `json:"era,omitempty"`
	ConnectedIn     Milliseconds `json:"connectedInMs,omitempty"`
	StillConnected  bool         `json:"stillConnected,omitempty" about:"still connected as approved before"`
	// InstructionsDigest is the digest of Instructions, in every event that reports a connection; zero
	// if the server has no instructions.
	InstructionsDigest catalog.Digest `json:"instructionsDigest,omitzero"`
	// Instructions are the server's instructions, encoded as JSON. Only a tracker's recorder receives
	// them; otherwise it is empty, and also if the server has none.
	Instructions string `json:"-"`
}

// TellsInstructions reports whether the event says which instructions the server has: none, if
// InstructionsDigest is zero.
func (s ServerState) TellsInstructions() bool {
	return s.State == Ready || s.State == Unsupported || !s.InstructionsDigest.IsZero()
}

// SubscriptionActive is published when the tracker starts following a server's resources, tools or
// prompts, and again when the set of followed resources changes or when their changes are detected
// in another way. Changes to the lists of tools and prompts are published as [ListChanged] alone.
type SubscriptionActive struct {
	Resources int        `json:"resources"` // number of followed resources
	URIs      []string   `json:"uris,omitempty" about:"at most 100"`
	Tools     int        `json:"tools,omitempty"`
	Prompts   int        `json:"prompts,omitempty"`
	Skills    int        `json:"skills,omitempty"`
	Mode      UpdateMode `json:"mode,omitempty" about:"push or poll"`
	Missing   []string   `json:"missing,omitempty" about:"URIs without push"`
}

// MaxActiveURIs limits the URIs in one subscription.active event.
const MaxActiveURIs = 100

// ResourceUpdated is published when a server announces an update of a resource, or when the tracker
// finds that the resource's content has changed.
type ResourceUpdated struct {
	// Changed reports whether the content differs from the last published content. It is nil if that
	// is unknown, because the content was not read or had never been read before.
	Changed        *bool          `json:"changed,omitempty" about:"false if the content is the same"`
	Name           string         `json:"name,omitempty"`
	MimeType       string         `json:"mimeType,omitempty"`
	Size           *int64         `json:"size,omitempty"` // content size in bytes
	Digest         catalog.Digest `json:"digest,omitzero"`
	PreviousDigest catalog.Digest `json:"previousDigest,omitzero"`
	// Content and Diff are set by an output that is configured to show them; otherwise nil.
	Content *string `json:"content,omitempty" about:"with --content"`
	Diff    *string `json:"diff,omitempty" about:"with --diff"`
	// Text and PreviousText are the new and the previous content if the tracker keeps texts (see
	// tracker.Options.Texts); nil for binary or large contents.
	Text         *string `json:"-"`
	PreviousText *string `json:"-"`
}

// UnifiedDiff returns the unified diff from PreviousText to Text, or Diff if only that is known. It
// is empty if the texts are equal, larger than 1 MiB or unknown. Its lines contain the texts as they
// are: escape them before printing them on a terminal.
func (r ResourceUpdated) UnifiedDiff() string {
	if r.Text != nil && r.PreviousText != nil {
		return textdiff.Unified(cmp.Or(r.Name, "content"), *r.PreviousText, *r.Text)
	}
	if r.Diff != nil {
		return *r.Diff
	}
	return ""
}

// Descriptor holds the parts of a resource's descriptor that are included in events.
type Descriptor struct {
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
}

// ResourceAdded is published when a followed server offers a new resource.
type ResourceAdded struct{ Descriptor }

// ResourceRemoved is published when a resource is no longer offered.
type ResourceRemoved struct {
	Descriptor
	// Missing is set by a tracker if a read reported that the resource does not exist, although the
	// tracker still tracks it because the server lists it or the config names it.
	Missing bool `json:"-"`
}

// ResourceChanged is published when the descriptor of a resource changes. It does not report
// content changes.
type ResourceChanged struct{ Descriptor }

// ListChanged is published when one of a server's lists changes. It contains the URIs, URI
// templates or names of the items.
type ListChanged struct {
	List    catalog.Kind `json:"-"`
	Added   []string     `json:"added"`
	Removed []string     `json:"removed"`
	Changed []string     `json:"changed"`
	// Details describes how the descriptors of the first items in Changed differ; see
	// [catalog.ItemChanges].
	Details []catalog.ItemChange `json:"details,omitempty" about:"how the changed items differ"`
	// Versions identifies the definitions of the items that were added, removed or changed before and
	// after the change; see [catalog.ItemVersions].
	Versions []catalog.ItemVersion `json:"versions,omitempty" about:"digests of at most 1,000 definitions"`
	// Error explains why the list could not be loaded; the previous list stays in use.
	Error string `json:"error,omitempty" about:"why it could not be loaded"`
	// Items is the complete list after the change; nil if it is unknown. Only a tracker's recorder
	// receives it: subscribers get nil and read the list from a snapshot.
	Items *catalog.List `json:"-"`
	// Before is the complete list before the change; nil if its definitions are unknown. Like Items,
	// only a tracker's recorder receives it.
	Before catalog.List `json:"-"`
	// Follows lists the resources whose own events come directly after this one. It is set together
	// with Items.
	Follows []string `json:"-"`
}

// Then returns a change and a later one to the same list as one. A key that was added and then removed is in none of
// its lists; a key that was removed and then added is in Changed.
func (l ListChanged) Then(now ListChanged) ListChanged {
	type fate struct{ before, after bool }
	fates := map[string]fate{}
	for _, c := range []ListChanged{l, now} {
		note := func(keys []string, before, after bool) {
			for _, k := range keys {
				f, seen := fates[k]
				if !seen {
					f.before = before
				}
				f.after = after
				fates[k] = f
			}
		}
		note(c.Removed, true, false)
		note(c.Added, false, true)
		note(c.Changed, true, true)
	}
	sum := ListChanged{List: now.List, Error: now.Error, Items: cmp.Or(now.Items, l.Items)}
	sum.Versions = mergeVersions(l.Versions, now.Versions)
	sum.Follows = slices.Compact(slices.Sorted(slices.Values(slices.Concat(l.Follows, now.Follows))))
	for k, f := range fates {
		switch {
		case f.before && f.after:
			sum.Changed = append(sum.Changed, k)
		case f.after:
			sum.Added = append(sum.Added, k)
		case f.before:
			sum.Removed = append(sum.Removed, k)
		}
	}
	slices.Sort(sum.Added)
	slices.Sort(sum.Removed)
	slices.Sort(sum.Changed)
	return sum
}

// mergeVersions combines the versions of the items in two successive changes to a list, sorted by key.
func mergeVersions(was, now []catalog.ItemVersion) []catalog.ItemVersion {
	sum := map[string]catalog.ItemVersion{}
	for _, v := range was {
		sum[v.Key] = v
	}
	for _, v := range now {
		if first, again := sum[v.Key]; again {
			v.PreviousDigest = first.PreviousDigest
		}
		sum[v.Key] = v
	}
	var all []catalog.ItemVersion
	for _, key := range slices.Sorted(maps.Keys(sum)) {
		all = append(all, sum[key])
	}
	return all
}

// Skill describes a skill in events. The event's resourceUri is the URI of its SKILL.md.
type Skill struct {
	Name string `json:"name"`
	// Dynamic means that the server generates the files, so that nothing is known about them.
	Dynamic bool           `json:"dynamic,omitempty" about:"the server generates the files"`
	Files   int            `json:"files,omitempty"`
	Size    int64          `json:"size,omitempty" about:"bytes of all files"`
	Digest  catalog.Digest `json:"digest,omitzero" about:"of the frontmatter and the list of files"`
}

// SkillAdded is published when a followed server offers a new skill.
type SkillAdded struct{ Skill }

// SkillRemoved is published when a skill is no longer offered. If the skill was last listed by an
// earlier process, only its URI is known.
type SkillRemoved struct{ Skill }

// SkillChanged is published when the frontmatter or the list of files of a skill changed.
type SkillChanged struct {
	Skill
	PreviousDigest catalog.Digest `json:"previousDigest,omitzero"`
	// Frontmatter reports whether the frontmatter differs. The lists of files are absent if the
	// previous files are unknown, because an earlier process listed them or because they were or are
	// generated.
	Frontmatter bool        `json:"frontmatter,omitempty"`
	Added       []SkillFile `json:"added,omitempty"`
	Removed     []SkillFile `json:"removed,omitempty"`
	Changed     []SkillFile `json:"changed,omitempty"`
	More        int         `json:"more,omitempty" about:"files left out"`
}

// SkillFile is a file of a changed skill.
type SkillFile struct {
	URI            string         `json:"uri"`
	Digest         catalog.Digest `json:"digest,omitzero"`
	Size           int64          `json:"size"`
	PreviousDigest catalog.Digest `json:"previousDigest,omitzero"`
	PreviousSize   *int64         `json:"previousSize,omitempty"`
}

// MaxSkillFiles limits the files in one skill.changed event.
const MaxSkillFiles = 100

// SkillMismatch is published when a client reads a file of a skill and the content is not what the
// skill's entry says. The event's resourceUri is the URI of the file.
type SkillMismatch struct {
	Skill  string `json:"skill" about:"URI of its SKILL.md"`
	Reason string `json:"reason"`
}

// ServerEvent is published for an event from the server (MCP Events) that does not concern a
// resource, if the config subscribes to such events. The data of the server's event is not
// published.
type ServerEvent struct {
	Name    string `json:"name" about:"type of the event"`
	EventID string `json:"eventId"`
	Size    int    `json:"size" about:"of its data, in bytes"`
}

// CardChanged is published when the server card of a server (SEP-2127) differs from the card that the
// tracker saw before. A card is public and says what the server wants to be known as; it is no authority
// on the server. The publisher ensures that all texts are single printable lines.
type CardChanged struct {
	URL             string         `json:"url"`
	Fields          []string       `json:"fields,omitempty" about:"members that differ"`
	Version         string         `json:"version,omitempty"`
	PreviousVersion string         `json:"previousVersion,omitempty"`
	Title           string         `json:"title,omitempty"`
	PreviousTitle   string         `json:"previousTitle,omitempty"`
	Remotes         []string       `json:"remotes,omitempty" about:"URLs in the card"`
	PreviousRemotes []string       `json:"previousRemotes,omitempty"`
	Digest          catalog.Digest `json:"digest,omitzero"`
	PreviousDigest  catalog.Digest `json:"previousDigest,omitzero"`
}

// DriftState is the state of a difference from the lock file.
type DriftState string

// The states of a difference from the lock file.
const (
	DriftChanged  DriftState = "changed"  // the item differs from what was approved
	DriftApproved DriftState = "approved" // the user approved what was changed
	DriftResolved DriftState = "resolved" // the server took the change back, or the config or the lock permits it now
)

// LockDrift is published when an item of a server begins to differ from the lock file, when it
// differs in another way than before, and when it no longer differs. The last event about an item
// tells whether it differs. The event contains nothing of the item's definition.
type LockDrift struct {
	Change  DriftState `json:"state" about:"changed, approved or resolved"`
	Section string     `json:"section,omitempty" about:"such as tools; absent for the server itself"`
	Item    string     `json:"item,omitempty" about:"such as tool/search"`
	// Classes has the classes of a change; empty if it is over or concerns the whole server.
	Classes  []DriftClass `json:"classes,omitempty" about:"of the change"`
	Severity string       `json:"severity,omitempty" about:"note, warning or error"`
	Action   string       `json:"action,omitempty" about:"audit, hold or block"`
	OldHash  string       `json:"oldHash,omitempty" about:"approved"`
	NewHash  string       `json:"newHash,omitempty" about:"changed"`
	Reason   string       `json:"reason,omitempty" about:"why the whole server differs"`
	Lock     string       `json:"lock,omitempty" about:"the lock file, in events of the daemon"`
}

// Key returns the name or URI of the item, or an empty string if it has none.
func (d LockDrift) Key() string {
	_, key, _ := strings.Cut(d.Item, "/")
	return key
}

// DriftClass names a class of changes; see package lock.
type DriftClass struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// HookReceived is published for each message that an incoming webhook accepts. The event has no server:
// the resources that are read because of the message have their own events. The body is not in the
// event; it is stored beside the log under its digest if it is JSON (see journal.Contents).
type HookReceived struct {
	HookID      string         `json:"hookId"`
	DeliveryID  string         `json:"deliveryId,omitempty" about:"the sender's"`
	ContentType string         `json:"contentType,omitempty"`
	Size        int            `json:"size"`
	Digest      catalog.Digest `json:"digest" about:"SHA-256"`
}

// WebhookDisabled is published when a webhook of the config is switched off because all attempts to deliver events
// to it failed for a day. Webhooks are not sent it. The publisher ensures that all texts are single printable lines.
type WebhookDisabled struct {
	Host        string    `json:"host" about:"with the port, if the URL has one"`
	Format      string    `json:"format" about:"standard, cloudevents or slack"`
	Error       string    `json:"error" about:"of the last attempt, such as timeout"`
	FailedSince time.Time `json:"failedSince"`
}

// ConfigReloaded is published when a new config is applied. It contains the ids of the servers
// whose entries differ; events about the effects follow. Duration is the time since the file change
// was first detected.
type ConfigReloaded struct {
	Added    []string     `json:"added"`
	Removed  []string     `json:"removed"`
	Changed  []string     `json:"changed"`
	Duration Milliseconds `json:"durationMs"`
}

// ConfigRejected is published when a new config is invalid; the previous config stays in use.
type ConfigRejected struct {
	Problems []Problem `json:"problems"`
}

// Problem describes one error or warning in a rejected config. Its members match a problem in the
// output of validate --json. The publisher ensures that no field contains a secret.
type Problem struct {
	Severity string `json:"severity"`       // "error" or "warning"
	File     string `json:"file,omitempty"` // path of the config file
	Line     int    `json:"line"`           // 1-based
	Column   int    `json:"column"`         // 1-based, counted in code points
	Path     string `json:"path"`           // JSON pointer to the invalid value; empty if the whole file is invalid
	Code     string `json:"code"`           // the kind of problem, such as "syntax"
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

// severityError is the severity of the problems that cause a config to be rejected.
const severityError = "error"

// summary returns the first error as FILE:LINE:COLUMN: SEVERITY: MESSAGE, followed by the number of
// further errors. If there is no error, it returns the first warning. For decoded events, the
// result may contain any characters.
func (c ConfigRejected) summary() string {
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

// Gap is sent to a consumer that missed the events after From, up to and including To, and can no
// longer receive them. The events that follow it restore the current states.
type Gap struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason"`
}

// Milliseconds is a duration that is encoded in JSON as an integer number of milliseconds.
type Milliseconds time.Duration

// The following payloads report what a client in this process did through tracker.Client. Arguments
// and contents may be private to the caller, so they are not sent on the wire; within this process
// they are available in Content, Prompt and Result.

// ResourceContent is published when a client has read a resource, or when a cached resource has
// been read again after an update.
type ResourceContent struct {
	// Template is the URI template from which the URI was expanded; empty if no template was used.
	Template string `json:"template,omitempty"`
	// Changed reports whether the content differs from the previously cached content; nil if nothing
	// was cached.
	Changed        *bool          `json:"changed,omitempty"`
	MimeType       string         `json:"mimeType,omitempty"`
	Size           int64          `json:"size"` // content size in bytes
	Digest         catalog.Digest `json:"digest,omitzero"`
	PreviousDigest catalog.Digest `json:"previousDigest,omitzero"`
	// Content and Previous are the new and the previously cached content. Both are nil in decoded
	// events and if they exceed tracker.Options.MaxText, because events may wait for a slow
	// consumer; the content may still be in the cache. Previous is nil if nothing was cached
	// before.
	Content  *cache.Resource `json:"-"`
	Previous *cache.Resource `json:"-"`
}

// PromptContent is published when a client has retrieved a prompt.
type PromptContent struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // size of the MCP result in bytes
	// Prompt is the prompt; nil under the same conditions as Content in [ResourceContent].
	Prompt *cache.Prompt `json:"-"`
}

// ToolResult is published when a client's tool call has finished.
type ToolResult struct {
	Name     string       `json:"name"`
	Success  bool         `json:"success"`
	Error    string       `json:"error,omitempty"` // one line, safe to print
	Duration Milliseconds `json:"durationMs"`
	// Result is the result of the call; nil under the same conditions as Content in
	// [ResourceContent].
	Result *cache.ToolResult `json:"-"`
}

// SubscriptionsChanged is published when the set of resources that clients subscribe to changes.
// These resources are followed in addition to those selected by the config.
type SubscriptionsChanged struct {
	URIs []string `json:"uris"`
}

func (ServerState) Type() Type          { return TypeServerState }
func (SubscriptionActive) Type() Type   { return TypeSubscriptionActive }
func (ResourceUpdated) Type() Type      { return TypeResourceUpdated }
func (ResourceAdded) Type() Type        { return TypeResourceAdded }
func (ResourceRemoved) Type() Type      { return TypeResourceRemoved }
func (ResourceChanged) Type() Type      { return TypeResourceChanged }
func (l ListChanged) Type() Type        { return Type(l.List) + ".list_changed" }
func (SkillAdded) Type() Type           { return TypeSkillAdded }
func (SkillRemoved) Type() Type         { return TypeSkillRemoved }
func (SkillChanged) Type() Type         { return TypeSkillChanged }
func (SkillMismatch) Type() Type        { return TypeSkillMismatch }
func (ServerEvent) Type() Type          { return TypeServerEvent }
func (CardChanged) Type() Type          { return TypeCardChanged }
func (LockDrift) Type() Type            { return TypeLockDrift }
func (HookReceived) Type() Type         { return TypeHookReceived }
func (WebhookDisabled) Type() Type      { return TypeWebhookDisabled }
func (ConfigReloaded) Type() Type       { return TypeConfigReloaded }
func (ConfigRejected) Type() Type       { return TypeConfigRejected }
func (Gap) Type() Type                  { return TypeGap }
func (ResourceContent) Type() Type      { return TypeResourceContent }
func (PromptContent) Type() Type        { return TypePromptContent }
func (ToolResult) Type() Type           { return TypeToolResult }
func (SubscriptionsChanged) Type() Type { return TypeSubscriptionsChanged }

// appendMembers appends the event's members to b, each preceded by a comma, in the format described
// by the struct tags. It avoids encoding/json for speed, because nearly all events are of this
// type.
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
	digest := func(name string, d catalog.Digest) {
		if !d.IsZero() {
			b, _ = d.AppendText(append(append(append(b, `,"`...), name...), `":"`...)) // never fails
			b = append(b, '"')
		}
	}
	digest("digest", r.Digest)
	digest("previousDigest", r.PreviousDigest)
	if r.Content != nil {
		text("content", *r.Content, true)
	}
	if r.Diff != nil {
		text("diff", *r.Diff, true)
	}
	return b, err
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
		return errors.New("a duration must be an integer number of milliseconds")
	}
	*m = Milliseconds(time.Duration(n) * time.Millisecond)
	return nil
}

// orEmpty returns s, or an empty slice if s is nil, so that it is encoded as [] and not as null.
func orEmpty(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
