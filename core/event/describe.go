package event

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
)

// Description says in words for people what an event reports. An output lays it out: it chooses colours,
// widths and what it leaves out, and makes the texts safe to print, because servers, files and configs chose
// parts of them.
type Description struct {
	Verb string // what happened, such as "updated", or what it concerns, such as "tools" or "lock"
	Tone Tone
	// Subject is the URI or name of what the event concerns, and Text is a statement about it, or a
	// statement of its own if Subject is empty. Both may be empty.
	Subject, Text string
	Items         []Item   // items of the list that changed, grouped by Op
	Details       []string // further facts, the most important first
	Extra         []string // facts for outputs that show everything, such as digests
	Hint          string   // a command that the user may run
}

// Tone says how welcome the news of an event is.
type Tone string

// The tones.
const (
	ToneGood    Tone = "good"
	ToneBad     Tone = "bad"
	ToneChanged Tone = "changed"
	ToneAccent  Tone = "accent" // neither good nor bad
	ToneQuiet   Tone = "quiet"  // how servers are followed
)

// Item is an item that was added to a list, removed from it or changed. If Op is empty, it is part of a set
// that the event names in full, or says how many items were left out.
type Item struct {
	Op     catalog.Op
	Name   string
	Places []string // changed members of the item's descriptor, such as "description" or "+inputSchema/properties/c"
	More   int      // number of changed members that Places does not have
}

// String returns the name after the sign of Op: +, - or ~.
func (i Item) String() string {
	return map[catalog.Op]string{catalog.Added: "+", catalog.Removed: "-", catalog.Changed: "~"}[i.Op] + i.Name
}

// Note returns the changed members in parentheses, or an empty string if none is known.
func (i Item) Note() string {
	places := i.Places
	if i.More > 0 {
		places = append(slices.Clone(places), fmt.Sprintf("… %d more", i.More))
	}
	if len(places) == 0 {
		return ""
	}
	return "(" + strings.Join(places, ", ") + ")"
}

// MaxItems is the number of items of each Op that Few keeps.
const MaxItems = 5

// maxPlaces is the number of places of an item that Few keeps.
const maxPlaces = 3

// Few returns a description with few items, for outputs with little room. Further items are counted.
func (d Description) Few() Description {
	rest := d.Items
	d.Items = nil
	for len(rest) > 0 {
		op, n := rest[0].Op, len(rest)
		if i := slices.IndexFunc(rest, func(it Item) bool { return it.Op != op }); i >= 0 {
			n = i
		}
		for _, it := range rest[:min(n, MaxItems)] {
			kept := it.Places[:min(len(it.Places), maxPlaces)]
			d.Items = append(d.Items, Item{op, it.Name, kept, it.More + len(it.Places) - len(kept)})
		}
		if n > MaxItems {
			d.Items = append(d.Items, Item{Op: op, Name: fmt.Sprintf("… %d more", n-MaxItems)})
		}
		rest = rest[n:]
	}
	return d
}

// Statement returns Subject and Text as one text, or the items if there is neither.
func (d Description) Statement() string {
	if d.Subject == "" && d.Text == "" {
		return strings.Join(d.names(), " ")
	}
	return strings.TrimSpace(d.Subject + " " + d.Text)
}

// Facts returns the details, and the items if Statement does not have them.
func (d Description) Facts() []string {
	if d.Subject == "" && d.Text == "" {
		return d.Details
	}
	return append(slices.Clone(d.Details), d.names()...)
}

// names returns the items as texts.
func (d Description) names() (all []string) {
	for _, it := range d.Items {
		all = append(all, strings.TrimSpace(it.String()+" "+it.Note()))
	}
	return all
}

// String returns the description in one line, without Extra and Hint.
func (d Description) String() string {
	text := d.Verb
	if d.Subject == "" && d.Text != "" {
		text += ":"
	}
	text = strings.TrimSpace(text + " " + d.Statement())
	if facts := d.Facts(); len(facts) > 0 {
		text += " (" + strings.Join(facts, ", ") + ")"
	}
	return text
}

// String returns the event as one printable line for people: its time, its server and what happened,
// without contents. Use AppendJSON to store or transmit an event.
func (e Event) String() string {
	text := e.Describe().Few().String()
	if e.ServerID != "" {
		text = e.ServerID + " " + text
	}
	return e.Timestamp.UTC().Format(TimeFormat) + " " + printable.Line(text, 1000)
}

// Described returns the JSON of an event with one more member, description: the verb, the tone, the subject
// and the details of its [Description], with few items. It returns data unless it is an event that this
// version knows.
func Described(data []byte) []byte {
	var e Event
	if json.Unmarshal(data, &e) != nil {
		return data
	}
	d := e.Describe().Few()
	text, err := printable.Marshal(struct {
		Verb    string   `json:"verb"`
		Tone    Tone     `json:"tone"`
		Subject string   `json:"subject,omitempty"`
		Details []string `json:"details,omitempty"`
	}{d.Verb, d.Tone, d.Statement(), d.Facts()})
	end := bytes.LastIndexByte(data, '}')
	if err != nil || end < 0 {
		return data
	}
	return append(append(append(slices.Clone(data[:end]), `,"description":`...), text...), '}')
}

// Describe describes the event. It shortens nothing.
func (e *Event) Describe() Description {
	about := func(subject, verb string, tone Tone, details ...string) Description {
		return Description{Verb: verb, Tone: tone, Subject: subject, Details: slices.DeleteFunc(details, func(s string) bool { return s == "" })}
	}
	uri := e.ResourceURI
	switch p := e.Payload.(type) {
	case nil:
		return Description{Verb: "no payload", Tone: ToneQuiet}
	case ServerState:
		return p.describe()
	case SubscriptionActive:
		return Description{Verb: "following", Tone: ToneQuiet, Text: p.following()}
	case ResourceUpdated:
		return p.describe(about(uri, "updated", ToneChanged), e.Cause)
	case ResourceAdded:
		return about(uri, "added", ToneGood)
	case ResourceRemoved:
		return about(uri, "removed", ToneBad)
	case ResourceChanged:
		return about(uri, "description changed", ToneChanged)
	case ListChanged:
		if p.Error != "" {
			return Description{Verb: string(p.List), Tone: ToneBad, Text: "could not be listed: " + p.Error}
		}
		return Description{Verb: string(p.List), Tone: ToneAccent, Items: p.items()}
	case SkillAdded:
		if p.Dynamic {
			return about(uri, "skill added", ToneGood, "generated files")
		}
		if p.Files == 0 {
			return about(uri, "skill added", ToneGood)
		}
		return about(uri, "skill added", ToneGood, printable.Plural(p.Files, "file"), printable.Size(p.Size))
	case SkillRemoved:
		return about(uri, "skill removed", ToneBad)
	case SkillChanged:
		d := about(uri, "skill changed", ToneChanged)
		if p.Frontmatter {
			d.Details = []string{"frontmatter"}
		}
		d.Items = p.items(uri)
		return d
	case SkillMismatch:
		return about(uri, "skill mismatch", ToneBad, p.Reason)
	case ServerEvent:
		return about(p.Name, "event", ToneAccent, printable.Size(int64(p.Size)), p.EventID)
	case CardChanged:
		return p.describe()
	case LockDrift:
		return p.describe(e.ServerID)
	case HookReceived:
		return about(p.HookID, "hook", ToneAccent, printable.Size(int64(p.Size)), p.DeliveryID)
	case WebhookDisabled:
		return about(p.Host, "webhook switched off", ToneBad, strings.ReplaceAll(p.Error, "_", " "))
	case ResourceContent:
		return about(uri, "read", ToneAccent, printable.Size(p.Size), unchanged(p.Changed), p.Template)
	case PromptContent:
		return about(p.Name, "got prompt", ToneAccent, printable.Size(p.Size))
	case ToolResult:
		took := time.Duration(p.Duration).Round(time.Millisecond).String()
		if p.Success {
			return about(p.Name, "called", ToneAccent, took)
		}
		return about(p.Name, "call failed", ToneBad, p.Error, took)
	case SubscriptionsChanged:
		d := Description{Verb: printable.Plural(len(p.URIs), "subscription"), Tone: ToneAccent}
		for _, uri := range p.URIs {
			d.Items = append(d.Items, Item{Name: uri})
		}
		return d
	case ConfigReloaded:
		return Description{Verb: "config reloaded", Tone: ToneAccent, Items: items(p.Added, p.Removed, p.Changed)}
	case ConfigRejected:
		return Description{Verb: "config rejected", Tone: ToneBad, Text: p.summary()}
	case Gap:
		return Description{Verb: "gap", Tone: ToneBad, Text: cmp.Or(p.Reason, "events are missing")}
	}
	return about(uri, string(e.Type()), ToneQuiet)
}

func (s ServerState) describe() Description {
	var d Description
	d.Verb, d.Tone = s.State.Said(s.Reason)
	reason := s.Reason
	if s.State.Dormant(reason) {
		reason = ""
	}
	if s.State == Ready && s.ConnectedIn > 0 {
		d.Verb += " in " + seconds(time.Duration(s.ConnectedIn))
	}
	retry := ""
	if s.RetryIn > 0 {
		retry = "next attempt in " + time.Duration(s.RetryIn).Round(100*time.Millisecond).String()
	}
	d.Details = slices.DeleteFunc([]string{reason, s.Error, retry}, func(s string) bool { return s == "" })
	if s.ProtocolVersion != "" {
		d.Extra = []string{s.ProtocolVersion}
	}
	return d
}

// seconds formats a duration, like "30ms", "0.4s" or "1m20s".
func seconds(d time.Duration) string {
	switch {
	case d < 100*time.Millisecond:
		return max(d, time.Millisecond).Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// following says what is followed of a server. Resources are omitted if only lists are followed.
func (s SubscriptionActive) following() string {
	var parts []string
	lists := s.Tools + s.Prompts + s.Skills
	if s.Resources > 0 || lists == 0 {
		parts = append(parts, printable.Plural(s.Resources, "resource"))
	}
	for _, list := range []struct {
		n    int
		noun string
	}{{s.Tools, "tool"}, {s.Prompts, "prompt"}, {s.Skills, "skill"}} {
		if list.n > 0 {
			parts = append(parts, printable.Plural(list.n, list.noun))
		}
	}
	text := strings.Join(parts, ", ")
	if s.Mode != "" || s.Resources > 0 || lists == 0 {
		text += " (" + cmp.Or(string(s.Mode), "changes are not detected") + ")"
	}
	if len(s.Missing) > 0 {
		text += fmt.Sprintf(", %d of them polled", len(s.Missing))
	}
	return text
}

// describe adds the details of the update, but not its content, to a description.
func (r ResourceUpdated) describe(d Description, cause Cause) Description {
	note := func(s string) {
		if s != "" {
			d.Details = append(d.Details, s)
		}
	}
	if r.Size != nil {
		note(printable.Size(*r.Size))
	}
	note(unchanged(r.Changed))
	if r.Text != nil && r.PreviousText != nil {
		if added, removed := textdiff.Counts(*r.PreviousText, *r.Text); added+removed > 0 {
			note(fmt.Sprintf("+%d −%d", added, removed))
		}
	}
	switch cause {
	case CauseNotify:
	case CauseTrailing:
		d.Extra = append(d.Extra, cause.Words())
	default:
		note(cause.Words())
	}
	if !r.Digest.IsZero() {
		d.Extra = append(d.Extra, r.Digest.String())
	}
	return d
}

// items returns the names of what was added, removed and changed.
func items(added, removed, changed []string) (all []Item) {
	for _, names := range []struct {
		op   catalog.Op
		list []string
	}{{catalog.Added, added}, {catalog.Removed, removed}, {catalog.Changed, changed}} {
		for _, name := range names.list {
			all = append(all, Item{Op: names.op, Name: name})
		}
	}
	return all
}

// items returns the items that changed, with the members that differ, as far as the event has them.
func (l ListChanged) items() []Item {
	all := items(l.Added, l.Removed, l.Changed)
	for _, d := range l.Details {
		i := slices.IndexFunc(all, func(it Item) bool { return it.Op == catalog.Changed && it.Name == d.Key })
		if i < 0 {
			continue
		}
		for _, c := range d.Changes {
			sign := Item{Op: c.Op, Name: strings.TrimPrefix(c.Path, "/")}.String()
			all[i].Places = append(all[i].Places, strings.TrimPrefix(sign, "~"))
		}
		all[i].More = d.More
	}
	return all
}

// items returns the files that differ, by their paths in the folder of the skill.
func (s SkillChanged) items(uri string) []Item {
	folder, _ := path.Split(uri)
	names := func(files []SkillFile) (names []string) {
		for _, f := range files {
			names = append(names, strings.TrimPrefix(f.URI, folder))
		}
		return names
	}
	all := items(names(s.Added), names(s.Removed), names(s.Changed))
	if s.More > 0 {
		all = append(all, Item{Name: fmt.Sprintf("… %d more", s.More)})
	}
	return all
}

func (c CardChanged) describe() Description {
	d := Description{Verb: "card changed", Tone: ToneChanged, Details: []string{c.URL}}
	switch {
	case c.Digest.IsZero():
		d.Verb, d.Tone = "card removed", ToneBad
	case c.PreviousDigest.IsZero():
		d.Verb, d.Tone = "card added", ToneGood
	default:
		var fields []string
		for _, field := range c.Fields {
			if field == "version" {
				field = fmt.Sprintf("version %s to %s", c.PreviousVersion, c.Version)
			}
			fields = append(fields, field)
		}
		d.Text = strings.Join(fields, ", ")
	}
	return d
}

func (d LockDrift) describe(server string) Description {
	out := Description{Verb: "lock", Tone: ToneGood, Subject: d.Item}
	switch {
	case d.Change == DriftApproved:
		out.Text = "is approved now"
	case d.Change == DriftResolved:
		out.Text = "no longer differs from the lock"
	case d.Reason != "":
		out.Tone, out.Subject = ToneBad, ""
		var hint bool
		if out.Text, out.Hint, hint = strings.Cut(d.Reason, "; run mcptrack "); hint {
			out.Hint = "run mcptrack " + out.Hint
		}
	default:
		var classes []string
		for _, c := range d.Classes {
			classes = append(classes, c.Name)
		}
		out.Tone, out.Text, out.Hint = ToneBad, "changed: "+strings.Join(classes, ", "), "run mcptrack review "+printable.Shell(server)
		if d.Severity == "note" {
			out.Tone = ToneChanged
		}
	}
	if d.Item == "" && d.Reason == "" {
		out.Text = "the server " + out.Text
	}
	return out
}

// unchanged describes a field Changed that is false.
func unchanged(changed *bool) string {
	if changed != nil && !*changed {
		return "same content"
	}
	return ""
}
