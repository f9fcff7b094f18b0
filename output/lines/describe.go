package lines

import (
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
	d, columns := e.Describe(), w.Columns != nil && !w.Wide
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
	colour, plain, dim := termtext.Bold+";"+termtext.Toned(d.Tone), termtext.Colour(""), termtext.Grey
	switch d.Tone {
	case event.ToneQuiet:
		colour, plain = termtext.Grey, termtext.Grey
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
	parts := []string{w.paint(colour, word), statement, strings.Join(details, "\n"+strings.Repeat(" ", indent))}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "  ")
}

// text returns a text that is safe to print, with at most limit characters unless the output is wide.
func (w *Writer) text(s string, limit int) string {
	if w.Wide {
		limit = 0
	}
	return printable.Line(s, limit)
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

// repeats reports whether events of their own tell what changed in a list. Followed resources and skills have
// them.
func (w *Writer) repeats(e *event.Event) bool {
	p, ok := e.Payload.(event.ListChanged)
	return ok && p.Error == "" && (p.List == catalog.Resources || p.List == catalog.Skills) && !w.Wide && !w.Verbose
}
