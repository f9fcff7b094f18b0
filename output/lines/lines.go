// Package lines formats events for people: one line each, coloured on a terminal, with
// diffs and contents indented below. The text may change; scripts should use NDJSON.
package lines

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/diff"
)

// Writer writes events to one stream. It must be used by one goroutine at a time.
type Writer struct {
	W      io.Writer
	Colour bool
	Wide   bool // dates, ids and digests too
	// Summaries describes new content that cannot be displayed, because it is binary or
	// large.
	Summaries bool
	Zone      *time.Location // of the times shown; nil: UTC
}

// Write writes the events, in order.
func (w *Writer) Write(events ...*event.Event) error {
	var b strings.Builder
	for _, e := range events {
		w.line(&b, e)
	}
	if _, err := io.WriteString(w.W, b.String()); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

func (w *Writer) line(b *strings.Builder, e *event.Event) {
	zone, layout := w.Zone, "15:04:05.000"
	if zone == nil {
		zone = time.UTC
	}
	if w.Wide {
		layout = "2006-01-02T15:04:05.000Z07:00"
	}
	b.WriteString(w.paint(grey, e.Timestamp.In(zone).Format(layout)))
	if w.Wide {
		b.WriteString("  " + w.paint(grey, e.ID))
	}
	if e.ServerID != "" {
		b.WriteString("  " + w.paint(bold, printable.Line(e.ServerID, 64)))
	}
	b.WriteString("  " + w.describe(e) + "\n")
	if u, ok := e.Payload.(event.ResourceUpdated); ok {
		w.below(b, u)
	}
}

// below writes the requested diff or content below the line of the event.
func (w *Writer) below(b *strings.Builder, u event.ResourceUpdated) {
	text := ""
	switch {
	case u.Diff != nil && *u.Diff != "":
		text = printable.Lines(*u.Diff)
		if w.Colour {
			text = diff.Colour(*u.Diff)
		}
	case u.Content != nil:
		text = printable.Lines(*u.Content)
	case w.Summaries && u.Text == nil && u.Size != nil && (u.Changed == nil || *u.Changed):
		text = fmt.Sprintf("[%s, %d bytes, %s]", cmp.Or(printable.Line(u.MimeType, 100), "unknown type"), *u.Size, u.Digest)
	}
	for line := range strings.Lines(text) {
		b.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
	}
}

func (w *Writer) describe(e *event.Event) string {
	uri := printable.Line(e.ResourceURI, 0)
	switch p := e.Payload.(type) {
	case event.ServerState:
		return w.state(p)
	case event.SubscriptionActive:
		s := fmt.Sprintf("following %s (%s)", plural(p.Resources.Count, "resource"), cmp.Or(printable.Line(string(p.Mode), 32), "changes go unnoticed"))
		if len(p.Missing) > 0 {
			s += fmt.Sprintf(", %d of them polled", len(p.Missing))
		}
		return w.paint(cyan, s)
	case event.ResourceUpdated:
		return w.paint(yellow, "updated") + "  " + uri + w.details(e, p)
	case event.ResourceAdded:
		return w.paint(green, "added") + "  " + uri
	case event.ResourceRemoved:
		return w.paint(red, "removed") + "  " + uri
	case event.ResourceChanged:
		return w.paint(yellow, "description changed") + "  " + uri
	case event.ListChanged:
		return w.paint(cyan, string(p.List)) + "  " + w.listChange(p)
	case event.ResourceContent, event.PromptContent, event.ToolResult, event.SubscriptionsChanged:
		return w.client(e)
	case event.ConfigReloaded:
		return w.paint(cyan, fmt.Sprintf("config reloaded: %d added, %d removed, %d changed", len(p.Added), len(p.Removed), len(p.Changed)))
	case event.ConfigRejected:
		return w.paint(red, "config rejected: ") + printable.Line(p.Problems.Error(), 500)
	case event.Gap:
		return w.paint(red, "gap") + "  " + printable.Line(p.Reason, 200)
	}
	return string(e.Type())
}

func (w *Writer) state(p event.ServerState) string {
	colour := cyan
	switch p.State {
	case event.Ready:
		colour = green
	case event.Backoff, event.NeedsAuth, event.Unconfigured:
		colour = red
	case event.Unsupported:
		colour = yellow
	}
	s := w.paint(colour, strings.ToLower(printable.Line(string(p.State), 32)))
	if p.ProtocolVersion != "" {
		s += "  " + printable.Line(p.ProtocolVersion, 32)
	}
	if p.Reason != "" {
		s += "  " + printable.Line(p.Reason, 200)
	}
	if p.Error != "" {
		s += "  " + printable.Line(p.Error, 500)
	}
	if p.RetryIn > 0 {
		s += "  " + w.paint(grey, "next attempt in "+time.Duration(p.RetryIn).Round(100*time.Millisecond).String())
	}
	return s
}

func (w *Writer) details(e *event.Event, p event.ResourceUpdated) string {
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
	if len(parts) == 0 {
		return ""
	}
	return "  " + w.paint(grey, strings.Join(parts, ", "))
}

// maxNames is how many names of a changed list are shown.
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

func (w *Writer) paint(colour, s string) string {
	if !w.Colour || s == "" {
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

// Size is a number of bytes for people.
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

// Found returns how a change was found, in words for people.
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
	default:
		return printable.Line(string(c), 40)
	}
}
