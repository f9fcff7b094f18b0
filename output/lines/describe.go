package lines

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/termtext"
)

const (
	minSubject = 24   // minimum width of a subject in columns; details are omitted to preserve it
	maxText    = 2000 // maximum characters of a text, unless the output is wide
	maxName    = 80   // maximum characters of the name of an item in a list, unless the output is wide
	maxNote    = 300  // maximum characters of what differs of an item, unless the output is wide
	minDetails = 20   // minimum width of wrapped details, in columns
)

// describe returns the text for an event: its verb, its statement and its details. used is the number of
// columns already occupied on the line.
func (w *Writer) describe(e *event.Event, used int) string {
	d, columns := w.merged(e).Describe(), w.Columns != nil && !w.Wide
	if w.Wide {
		d.Details = append(d.Details, d.Extra...)
	} else {
		d = d.Few()
	}
	word, statement, facts := w.text(d.Verb, maxText), w.text(d.Statement(), maxText), slices.Clone(d.Facts())
	for i := range facts {
		facts[i] = w.text(facts[i], maxText)
	}
	details := []string{strings.Join(facts, ", ")}
	if columns && statement+details[0] != "" {
		word = termtext.Pad(word, wordColumn)
	}
	indent := used + termtext.Width(word) + 2
	switch {
	case columns && statement == "":
		details = termtext.Wrap(details[0], max(w.Columns()-indent, minDetails))
	case d.Subject == "" && d.Text == "":
		statement = w.items(d.Items)
	case columns && d.Text == "":
		statement, details[0] = w.fit(statement, facts, w.Columns()-indent)
	}
	plain, dim := termtext.Colour(""), termtext.Grey
	switch d.Tone {
	case event.ToneQuiet:
		plain = termtext.Grey
	case event.ToneBad:
		dim = "" // the details say what is wrong
	}
	statement = w.paint(plain, statement)
	if d.Hint != "" {
		statement += "; " + w.paint(termtext.Grey, w.text(d.Hint, maxText))
	}
	for i := range details {
		details[i] = w.paint(dim, details[i])
	}
	parts := []string{w.paint(toneColour(d.Tone), word), statement, strings.Join(details, "\n"+strings.Repeat(" ", indent))}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ")
}

// text returns a text that is safe to print, with at most limit characters unless the output is wide.
func (w *Writer) text(s string, limit int) string {
	if w.Wide {
		limit = 0
	}
	return printable.Line(s, limit)
}

// toneColour returns the colour of a verb.
func toneColour(t event.Tone) termtext.Colour {
	switch t {
	case event.ToneGood:
		return termtext.Bold + ";" + termtext.Green
	case event.ToneBad:
		return termtext.Bold + ";" + termtext.Red
	case event.ToneChanged:
		return termtext.Bold + ";" + termtext.Yellow
	case event.ToneAccent:
		return termtext.Bold + ";" + termtext.Cyan
	}
	return termtext.Grey
}

// items returns the items of a list, coloured by what happened to them.
func (w *Writer) items(all []event.Item) string {
	colours := map[catalog.Op]termtext.Colour{catalog.Added: termtext.Green, catalog.Removed: termtext.Red, catalog.Changed: termtext.Yellow}
	var parts []string
	for _, it := range all {
		text := w.paint(colours[it.Op], w.text(it.String(), maxName))
		if note := it.Note(); note != "" {
			text += " " + w.paint(termtext.Grey, w.text(note, maxNote))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// fit fits a subject and its details into room columns. It omits the last details first, and then the middle
// of the subject.
func (w *Writer) fit(subject string, facts []string, room int) (cut, details string) {
	whole := room
	for ; len(facts) > 0; facts = facts[:len(facts)-1] {
		details = strings.Join(facts, ", ")
		if room = whole - termtext.Width(details) - 2; room >= min(minSubject, termtext.Width(subject)) {
			break
		}
		details, room = "", whole
	}
	cut = termtext.Middle(subject, max(room, 1))
	w.subject = min(max(w.subject, termtext.Width(cut)), maxSubject)
	if details != "" {
		cut = termtext.Pad(cut, min(w.subject, room))
	}
	return cut, details
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

// merged returns the event to describe for e. For a change to a list of resources it leaves out what was shown
// before, and records the resources that the line lists, so that later events for them are not shown; one
// added or removed resource is described as such.
func (w *Writer) merged(e *event.Event) *event.Event {
	p, ok := e.Payload.(event.ListChanged)
	if !ok || p.List != catalog.Resources || p.Error != "" || w.Wide || w.Verbose {
		return e
	}
	d := w.rest(e.ServerID, p)
	w.forgetRemoved(e.ServerID, p)
	for sign, uris := range map[string][]string{"+": d.Added, "-": d.Removed, "~": d.Changed} {
		for _, uri := range uris[:min(len(uris), event.MaxItems)] {
			w.listed = remember(w.listed, listing{e.ServerID, uri, sign})
		}
	}
	one := *e
	switch single := len(d.Added)+len(d.Removed)+len(d.Changed) == 1; {
	case single && len(d.Added) == 1:
		one.ResourceURI, one.Payload = d.Added[0], event.ResourceAdded{}
	case single && len(d.Removed) == 1:
		one.ResourceURI, one.Payload = d.Removed[0], event.ResourceRemoved{}
	default:
		p.Removed = d.Removed
		one.Payload = p
	}
	return &one
}

func remember(all map[listing]bool, l listing) map[listing]bool {
	if all == nil || len(all) >= maxListed {
		all = map[listing]bool{}
	}
	all[l] = true
	return all
}
