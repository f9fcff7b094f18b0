package lines

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// describe returns the text for an event. used is the number of columns already occupied on the
// line.
func (w *Writer) describe(e *event.Event, used int) string {
	switch p := e.Payload.(type) {
	case event.ServerState:
		return w.state(p, used)
	case event.SubscriptionActive:
		s := following(p)
		if len(p.Missing) > 0 {
			s += fmt.Sprintf(", %d of them polled", len(p.Missing))
		}
		return w.paint(termtext.Grey, s)
	case event.ResourceUpdated:
		return w.change(termtext.Yellow, "updated", e, w.details(e, p), used)
	case event.ResourceAdded:
		return w.change(termtext.Green, "added", e, nil, used)
	case event.ResourceRemoved:
		return w.change(termtext.Red, "removed", e, nil, used)
	case event.ResourceChanged:
		return w.change(termtext.Yellow, "description changed", e, nil, used)
	case event.ListChanged:
		if p.List == catalog.Resources && p.Error == "" && !w.Wide && !w.Verbose {
			return w.list(e, p, used)
		}
		return w.word(termtext.Cyan, string(p.List)) + "  " + w.listChange(p)
	case event.SkillAdded:
		return w.change(termtext.Green, "skill added", e, skillDetails(p.Skill), used)
	case event.SkillRemoved:
		return w.change(termtext.Red, "skill removed", e, nil, used)
	case event.SkillChanged:
		return w.change(termtext.Yellow, "skill changed", e, w.skillChange(p), used)
	case event.SkillMismatch:
		return w.change(termtext.Red, "skill mismatch", e, []string{printable.Line(p.Reason, 300)}, used)
	case event.ServerEvent:
		return w.word(termtext.Cyan, "event") + "  " + printable.Line(p.Name, 200) + "  " + w.paint(termtext.Grey, Size(int64(p.Size))+", "+printable.Line(p.EventID, 100))
	case event.CardChanged:
		return w.word(termtext.Yellow, "card") + "  " + printable.Line(p.Summary(), 300) + "  " + w.paint(termtext.Grey, printable.Line(p.URL, 200))
	case event.HookReceived:
		id := ""
		if p.DeliveryID != "" {
			id = ", " + printable.Line(p.DeliveryID, 100)
		}
		return w.word(termtext.Cyan, "hook") + "  " + printable.Line(p.HookID, 64) + "  " + w.paint(termtext.Grey, Size(int64(p.Size))+id)
	case event.LockDrift:
		return w.drift(e.ServerID, p)
	case event.ResourceContent, event.PromptContent, event.ToolResult, event.SubscriptionsChanged:
		return w.client(e)
	case event.ConfigReloaded:
		return w.paint(termtext.Cyan, fmt.Sprintf("config reloaded: %d added, %d removed, %d changed", len(p.Added), len(p.Removed), len(p.Changed)))
	case event.ConfigRejected:
		return w.paint(termtext.Red, "config rejected: ") + printable.Line(p.Summary(), 500)
	case event.Gap:
		return w.paint(termtext.Red, "gap") + "  " + printable.Line(p.Reason, 200)
	}
	return string(e.Type())
}

// drift describes a difference from the lock, with the command that shows it.
func (w *Writer) drift(server string, p event.LockDrift) string {
	item := cmp.Or(printable.Line(p.Item, 200), "the server")
	switch {
	case p.Change == event.DriftApproved:
		return w.word(termtext.Green, "lock") + "  " + item + " is approved now"
	case p.Change == event.DriftResolved:
		return w.word(termtext.Green, "lock") + "  " + item + " no longer differs from the lock"
	case p.Reason != "":
		return w.word(termtext.Red, "lock") + "  " + printable.Line(p.Reason, 500)
	}
	colour := termtext.Red
	if p.Severity == "note" {
		colour = termtext.Yellow
	}
	return w.word(colour, "lock") + "  " + item + " changed: " + printable.Line(p.ClassNames(), 200) + "; " + w.paint(termtext.Grey, "run mcptrack review "+printable.Shell(server))
}

// following says what is followed of a server. Resources are omitted if only lists are followed.
func following(p event.SubscriptionActive) string {
	var parts []string
	if p.Resources > 0 || p.Tools+p.Prompts+p.Skills == 0 {
		parts = append(parts, plural(p.Resources, "resource"))
	}
	if p.Tools > 0 {
		parts = append(parts, plural(p.Tools, "tool"))
	}
	if p.Prompts > 0 {
		parts = append(parts, plural(p.Prompts, "prompt"))
	}
	if p.Skills > 0 {
		parts = append(parts, plural(p.Skills, "skill"))
	}
	s := "following " + strings.Join(parts, ", ")
	if p.Mode == "" && p.Resources == 0 && p.Tools+p.Prompts+p.Skills > 0 {
		return s
	}
	return s + " (" + cmp.Or(printable.Line(string(p.Mode), 32), "changes are not detected") + ")"
}

// skillDetails returns how large a skill is.
func skillDetails(s event.Skill) []string {
	switch {
	case s.Dynamic:
		return []string{"generated files"}
	case s.Files == 0:
		return nil
	}
	return []string{plural(s.Files, "file"), Size(s.Size)}
}

// skillChange returns what differs of a skill: the files by their paths in it, with digests on wide
// lines.
func (w *Writer) skillChange(p event.SkillChanged) (parts []string) {
	if p.Frontmatter {
		parts = append(parts, "frontmatter")
	}
	n := 0
	for _, c := range []struct {
		sign  string
		files []event.SkillFile
	}{{"+", p.Added}, {"-", p.Removed}, {"~", p.Changed}} {
		for _, f := range c.files {
			if n++; n > maxNames && !w.Wide {
				continue
			}
			text := c.sign + printable.Line(path.Base(f.URI), 80)
			if w.Wide {
				text = c.sign + printable.Line(f.URI, 0) + " " + f.Digest.String()
			}
			parts = append(parts, text)
		}
	}
	if more := n - maxNames; more > 0 && !w.Wide {
		parts = append(parts, fmt.Sprintf("… %d more", more+p.More))
	} else if p.More > 0 {
		parts = append(parts, fmt.Sprintf("… %d more", p.More))
	}
	return parts
}

// word returns a coloured word for an event, padded to the width of its column.
func (w *Writer) word(colour termtext.Colour, s string) string {
	if w.Columns != nil && !w.Wide {
		s = termtext.Pad(s, wordColumn)
	}
	return w.paint(termtext.Bold+";"+colour, s)
}

// minSubject is the minimum width of a URI in columns; details are omitted to preserve it.
const minSubject = 24

// change describes what happened to a resource. Details in more are ordered by importance, and the
// last ones are omitted first.
func (w *Writer) change(colour termtext.Colour, what string, e *event.Event, more []string, used int) string {
	uri := printable.Line(e.ResourceURI, 0)
	details := strings.Join(more, ", ")
	if w.Columns != nil && !w.Wide {
		whole := w.Columns() - used - max(wordColumn, len(what)) - 2
		room := whole
		for ; len(more) > 0; more = more[:len(more)-1] {
			details = strings.Join(more, ", ")
			if room = whole - termtext.Width(details) - 2; room >= min(minSubject, termtext.Width(uri)) {
				break
			}
			details, room = "", whole
		}
		uri = termtext.Middle(uri, max(room, 1))
		w.subject = min(max(w.subject, termtext.Width(uri)), maxSubject)
		if details != "" {
			uri = termtext.Pad(uri, min(w.subject, room))
		}
	}
	out := w.word(colour, what) + "  " + uri
	if details != "" {
		out += "  " + w.paint(termtext.Grey, details)
	}
	return out
}

// state describes a server's state. The text is grey unless something is wrong.
func (w *Writer) state(p event.ServerState, used int) string {
	colour, rest := termtext.Grey, termtext.Grey
	switch p.State {
	case event.Backoff, event.NeedsAuth, event.Unconfigured, event.Unapproved:
		colour, rest = termtext.Red, ""
	case event.Unsupported:
		colour = termtext.Yellow
	}
	var parts []string
	protocol := ""
	if w.Verbose || w.Wide {
		protocol = printable.Line(p.ProtocolVersion, 32)
	}
	for _, part := range []string{protocol, printable.Line(p.Reason, 200), printable.Line(p.Error, 500)} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if p.RetryIn > 0 {
		parts = append(parts, "next attempt in "+time.Duration(p.RetryIn).Round(100*time.Millisecond).String())
	}
	word := printable.Line(p.State.Words(), 32)
	if p.State == event.Ready && p.ConnectedIn > 0 {
		word += " in " + seconds(time.Duration(p.ConnectedIn))
	}
	if w.Columns == nil || w.Wide {
		return strings.TrimSuffix(w.paint(colour, word)+"  "+w.paint(rest, strings.Join(parts, "  ")), "  ")
	}
	if len(parts) == 0 {
		return w.paint(colour, word)
	}
	indent := used + wordColumn + 2
	lines := termtext.Wrap(strings.Join(parts, ", "), max(w.Columns()-indent, 20))
	for i := range lines {
		lines[i] = w.paint(rest, lines[i])
	}
	return w.paint(colour, termtext.Pad(word, wordColumn)) + "  " + strings.Join(lines, "\n"+strings.Repeat(" ", indent))
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

func (w *Writer) details(e *event.Event, p event.ResourceUpdated) []string {
	var parts []string
	if p.Size != nil {
		parts = append(parts, Size(*p.Size))
	}
	if p.Changed != nil && !*p.Changed {
		parts = append(parts, "same content")
	}
	if p.Text != nil && p.PreviousText != nil {
		if added, removed := textdiff.Counts(*p.PreviousText, *p.Text); added+removed > 0 {
			parts = append(parts, fmt.Sprintf("+%d −%d", added, removed))
		}
	}
	if e.Cause != event.CauseNotify && (e.Cause != event.CauseTrailing || w.Verbose) {
		parts = append(parts, Found(e.Cause))
	}
	if w.Wide && !p.Digest.IsZero() {
		parts = append(parts, p.Digest.String())
	}
	return parts
}

// maxNames limits how many names of a changed list are shown.
const maxNames = 5

func (w *Writer) listChange(p event.ListChanged) string {
	if p.Error != "" {
		return w.paint(termtext.Red, "could not be listed: ") + printable.Line(p.Error, 500)
	}
	var parts []string
	for _, c := range []struct {
		sign   string
		colour termtext.Colour
		names  []string
	}{{"+", termtext.Green, p.Added}, {"-", termtext.Red, p.Removed}, {"~", termtext.Yellow, p.Changed}} {
		for i, name := range c.names {
			if i == maxNames && !w.Wide {
				parts = append(parts, fmt.Sprintf("%s… %d more", c.sign, len(c.names)-i))
				break
			}
			parts = append(parts, w.paint(c.colour, c.sign+printable.Line(name, 80))+w.places(p, name, c.sign))
		}
	}
	return strings.Join(parts, " ")
}

// palette contains the colours of servers. It excludes red, which marks failures, and grey, which
// marks states.
var palette = [...]termtext.Colour{"36", "35", "34", "33", "32", "96", "95", "94", "93", "92"}

func (w *Writer) paint(colour termtext.Colour, s string) string {
	if !w.Colour {
		return s
	}
	return colour.Paint(s)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Size returns a number of bytes in human-readable form.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
}

// Found returns a phrase that describes how a change was detected.
func Found(c event.Cause) string {
	switch c {
	case event.CauseNotify:
		return "announced"
	case event.CauseTrailing:
		return "end of a burst"
	case event.CauseResync:
		return "found after a reconnect"
	case event.CausePoll:
		return "found by polling"
	case event.CauseEvent:
		return "named by an event"
	case event.CauseHook:
		return "read because of a hook"
	default:
		return printable.Line(string(c), 40)
	}
}

// client describes an action of a local client: a read, a call or a subscription.
func (w *Writer) client(e *event.Event) string {
	switch p := e.Payload.(type) {
	case event.ResourceContent:
		parts := []string{Size(p.Size)}
		if p.Changed != nil && !*p.Changed {
			parts = append(parts, "same content")
		}
		if p.Template != "" {
			parts = append(parts, "by "+printable.Line(p.Template, 200))
		}
		return w.word(termtext.Cyan, "read") + "  " + printable.Line(e.ResourceURI, 0) + "  " + w.paint(termtext.Grey, strings.Join(parts, ", "))
	case event.PromptContent:
		return w.word(termtext.Cyan, "got prompt") + "  " + printable.Line(p.Name, 80) + "  " + w.paint(termtext.Grey, Size(p.Size))
	case event.ToolResult:
		took := "  " + w.paint(termtext.Grey, time.Duration(p.Duration).Round(time.Millisecond).String())
		if !p.Success {
			return w.word(termtext.Red, "call failed") + "  " + printable.Line(p.Name, 80) + "  " + printable.Line(p.Error, 500) + took
		}
		return w.word(termtext.Cyan, "called") + "  " + printable.Line(p.Name, 80) + took
	case event.SubscriptionsChanged:
		s := plural(len(p.URIs), "subscription")
		for i, uri := range p.URIs {
			if i == maxNames && !w.Wide {
				return w.paint(termtext.Cyan, s) + fmt.Sprintf("  … %d more", len(p.URIs)-i)
			}
			s += "  " + printable.Line(uri, 200)
		}
		return w.paint(termtext.Cyan, s)
	}
	return ""
}

// maxPlaces limits how many changed members of a descriptor are shown.
const maxPlaces = 3

// places lists the changed members of an item's descriptor if the event contains them.
func (w *Writer) places(p event.ListChanged, name, sign string) string {
	i := slices.IndexFunc(p.Details, func(d catalog.ItemChange) bool { return d.Key == name })
	if sign != "~" || i < 0 {
		return ""
	}
	d := p.Details[i]
	var places []string
	for i, c := range d.Changes {
		if i == maxPlaces && !w.Wide {
			break
		}
		op := map[string]string{"added": "+", "removed": "-", "changed": ""}[string(c.Op)]
		places = append(places, op+printable.Line(strings.TrimPrefix(c.Path, "/"), 80))
	}
	if more := len(d.Changes) - len(places) + d.More; more > 0 {
		places = append(places, fmt.Sprintf("… %d more", more))
	}
	return w.paint(termtext.Grey, " ("+strings.Join(places, ", ")+")")
}

// A changed list of resources is one event, and each followed resource that changed with it is
// another event. Users see each change once: the line for the list replaces the later lines for its
// resources, and it omits removals for which a line was already written.

// listing identifies a change to one resource in a server's list: added, changed or removed.
type listing struct{ server, uri, sign string }

// maxListed limits how many listings are remembered. If a listing was forgotten, a later event for
// the same change is shown on an extra line.
const maxListed = 1000

// repeats reports whether an earlier line already showed this change.
func (w *Writer) repeats(e *event.Event) bool {
	if w.Wide || w.Verbose {
		return false
	}
	l := listing{server: e.ServerID, uri: e.ResourceURI}
	switch p := e.Payload.(type) {
	case event.ResourceAdded:
		l.sign = "+"
	case event.ResourceRemoved:
		l.sign = "-"
	case event.ResourceChanged:
		l.sign = "~"
	case event.ListChanged:
		if p.List == catalog.Skills && p.Error == "" {
			return true // each skill has an event of its own
		}
		if p.List != catalog.Resources || p.Error != "" || !w.rest(e.ServerID, p).Empty() {
			return false
		}
		w.forgetRemoved(e.ServerID, p)
		return true
	default:
		return false
	}
	if w.listed[l] {
		delete(w.listed, l)
		return true
	}
	if l.sign == "-" {
		w.removed = remember(w.removed, l)
	} else {
		delete(w.removed, listing{l.server, l.uri, "-"})
	}
	return false
}

// rest returns the change to a list without the removals for which a line was already written.
func (w *Writer) rest(server string, p event.ListChanged) catalog.Delta {
	return catalog.Delta{Added: p.Added, Changed: p.Changed, Removed: slices.DeleteFunc(slices.Clone(p.Removed), func(uri string) bool {
		return w.removed[listing{server, uri, "-"}]
	})}
}

func (w *Writer) forgetRemoved(server string, p event.ListChanged) {
	for _, uri := range p.Removed {
		delete(w.removed, listing{server, uri, "-"})
	}
}

// list formats a change to a list of resources. It records the resources that its line lists, so
// that later events for them are not shown. used is the number of columns already occupied on the
// line.
func (w *Writer) list(e *event.Event, p event.ListChanged, used int) string {
	d := w.rest(e.ServerID, p)
	w.forgetRemoved(e.ServerID, p)
	for sign, uris := range map[string][]string{"+": d.Added, "-": d.Removed, "~": d.Changed} {
		for _, uri := range uris[:min(len(uris), maxNames)] {
			w.listed = remember(w.listed, listing{e.ServerID, uri, sign})
		}
	}
	switch one := len(d.Added)+len(d.Removed)+len(d.Changed) == 1; {
	case one && len(d.Added) == 1:
		return w.change(termtext.Green, "added", &event.Event{ResourceURI: d.Added[0]}, nil, used)
	case one && len(d.Removed) == 1:
		return w.change(termtext.Red, "removed", &event.Event{ResourceURI: d.Removed[0]}, nil, used)
	}
	p.Removed = d.Removed
	return w.word(termtext.Cyan, string(p.List)) + "  " + w.listChange(p)
}

func remember(all map[listing]bool, l listing) map[listing]bool {
	if all == nil || len(all) >= maxListed {
		all = map[listing]bool{}
	}
	all[l] = true
	return all
}
