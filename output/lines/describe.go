package lines

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/columns"
)

// describe returns what happened as text; used is the number of columns that the line already
// has.
func (w *Writer) describe(e *event.Event, used int) string {
	switch p := e.Payload.(type) {
	case event.ServerState:
		return w.state(p, used)
	case event.SubscriptionActive:
		s := fmt.Sprintf("following %s (%s)", plural(p.Resources.Count, "resource"), cmp.Or(printable.Line(string(p.Mode), 32), "changes are not detected"))
		if len(p.Missing) > 0 {
			s += fmt.Sprintf(", %d of them polled", len(p.Missing))
		}
		return w.paint(grey, s)
	case event.ResourceUpdated:
		return w.change(yellow, "updated", e, w.details(e, p), used)
	case event.ResourceAdded:
		return w.change(green, "added", e, nil, used)
	case event.ResourceRemoved:
		return w.change(red, "removed", e, nil, used)
	case event.ResourceChanged:
		return w.change(yellow, "description changed", e, nil, used)
	case event.ListChanged:
		if p.List == catalog.Resources && p.Error == "" && !w.Wide && !w.Verbose {
			return w.list(e, p, used)
		}
		return w.word(cyan, string(p.List)) + "  " + w.listChange(p)
	case event.ServerEvent:
		return w.word(cyan, "event") + "  " + printable.Line(p.Name, 200) + "  " + w.paint(grey, Size(int64(p.Size))+", "+printable.Line(p.EventID, 100))
	case event.ResourceContent, event.PromptContent, event.ToolResult, event.SubscriptionsChanged:
		return w.client(e)
	case event.ConfigReloaded:
		return w.paint(cyan, fmt.Sprintf("config reloaded: %d added, %d removed, %d changed", len(p.Added), len(p.Removed), len(p.Changed)))
	case event.ConfigRejected:
		return w.paint(red, "config rejected: ") + printable.Line(p.Summary(), 500)
	case event.Gap:
		return w.paint(red, "gap") + "  " + printable.Line(p.Reason, 200)
	}
	return string(e.Type())
}

// word returns the word for what happened, padded to its column.
func (w *Writer) word(colour, s string) string {
	if w.Columns != nil && !w.Wide {
		s = columns.Pad(s, wordColumn)
	}
	return w.paint(bold+";"+colour, s)
}

// minSubject is the least number of columns for a URI: to keep it, details are left out.
const minSubject = 24

// change describes a change of a resource: what happened, the URI, and details, the most
// important first.
func (w *Writer) change(colour, what string, e *event.Event, more []string, used int) string {
	uri := printable.Line(e.ResourceURI, 0)
	details := strings.Join(more, ", ")
	if w.Columns != nil && !w.Wide {
		whole := w.Columns() - used - max(wordColumn, len(what)) - 2
		room := whole
		for ; len(more) > 0; more = more[:len(more)-1] {
			details = strings.Join(more, ", ")
			if room = whole - columns.Width(details) - 2; room >= min(minSubject, columns.Width(uri)) {
				break
			}
			details, room = "", whole
		}
		uri = columns.Middle(uri, max(room, 1))
		w.subject = min(max(w.subject, columns.Width(uri)), maxSubject)
		if details != "" {
			uri = columns.Pad(uri, min(w.subject, room))
		}
	}
	out := w.word(colour, what) + "  " + uri
	if details != "" {
		out += "  " + w.paint(grey, details)
	}
	return out
}

// state describes a server's state, in grey unless something is wrong.
func (w *Writer) state(p event.ServerState, used int) string {
	colour, rest := grey, grey
	switch p.State {
	case event.Backoff, event.NeedsAuth, event.Unconfigured, event.Unapproved:
		colour, rest = red, ""
	case event.Unsupported:
		colour = yellow
	}
	var parts []string
	for _, part := range []string{printable.Line(p.ProtocolVersion, 32), printable.Line(p.Reason, 200), printable.Line(p.Error, 500)} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if p.RetryIn > 0 {
		parts = append(parts, "next attempt in "+time.Duration(p.RetryIn).Round(100*time.Millisecond).String())
	}
	word := strings.ToLower(printable.Line(string(p.State), 32))
	if w.Columns == nil || w.Wide {
		return strings.TrimSuffix(w.paint(colour, word)+"  "+w.paint(rest, strings.Join(parts, "  ")), "  ")
	}
	if len(parts) == 0 {
		return w.paint(colour, word)
	}
	indent := used + wordColumn + 2
	lines := columns.Wrap(strings.Join(parts, ", "), max(w.Columns()-indent, 20))
	for i := range lines {
		lines[i] = w.paint(rest, lines[i])
	}
	return w.paint(colour, columns.Pad(word, wordColumn)) + "  " + strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

func (w *Writer) details(e *event.Event, p event.ResourceUpdated) []string {
	var parts []string
	if p.Size != nil {
		parts = append(parts, Size(*p.Size))
	}
	if p.Changed != nil && !*p.Changed {
		parts = append(parts, "same content")
	}
	if e.Cause != event.CauseNotify {
		parts = append(parts, Found(e.Cause))
	}
	if w.Wide && !p.Digest.IsZero() {
		parts = append(parts, p.Digest.String())
	}
	return parts
}

// maxNames bounds the names of a changed list that are shown.
const maxNames = 5

func (w *Writer) listChange(p event.ListChanged) string {
	if p.Error != "" {
		return w.paint(red, "could not be listed: ") + printable.Line(p.Error, 500)
	}
	var parts []string
	for _, c := range []struct {
		sign, colour string
		names        []string
	}{{"+", green, p.Added}, {"-", red, p.Removed}, {"~", yellow, p.Changed}} {
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

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	grey   = "90"
)

// palette has the colours of servers: not red, which means failure, nor the grey of states.
var palette = [...]string{"36", "35", "34", "33", "32", "96", "95", "94", "93", "92"}

func (w *Writer) paint(colour, s string) string {
	if !w.Colour || s == "" || colour == "" {
		return s
	}
	return "\x1b[" + colour + "m" + s + "\x1b[0m"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Size formats a number of bytes for people.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}

// Found returns in words how a change was found.
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
	default:
		return printable.Line(string(c), 40)
	}
}
