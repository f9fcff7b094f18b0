// Package lines formats events for people: one line each, coloured on a terminal, with
// diffs and contents indented below. The text may change; scripts should use NDJSON.
//
// On a terminal the lines are laid out in columns and cut to its width, a new day begins with a
// line with its date, and for each server that keeps failing a line at the bottom counts the
// failures (see [Screen]). Other output is neither aligned nor cut, and a failure has a line
// only if it differs from the one before.
package lines

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/columns"
	"github.com/mcptrack/mcptrack/output/diff"
)

// Writer writes events to one stream. It must be used by one goroutine at a time.
type Writer struct {
	W      io.Writer // ignored if Screen is set, which then gets the lines
	Colour bool
	Wide   bool // also show dates, ids and digests, and cut nothing
	// Verbose writes a line for every event. Otherwise there are none for states that only lead
	// to others, repeated failures, and changes of resources already shown in the line of their
	// list.
	Verbose bool
	// Summaries describes new content that cannot be displayed, because it is binary or
	// large.
	Summaries bool
	Zone      *time.Location // of the times shown; nil: UTC

	// Columns returns the width of the terminal; nil: the output is not a terminal. Screen is
	// that terminal.
	Columns func() int
	Screen  *Screen

	failing map[string]failure // by server
	listed  map[listing]bool   // changes shown in lines about lists
	removed map[listing]bool   // removals shown in lines about one resource
	colours map[string]string  // by server
	column  int                // width of the column of servers
	subject int                // width of the column of URIs
	day     string             // date of the last line
}

// Write writes the events, in order.
func (w *Writer) Write(events ...*event.Event) error {
	var b strings.Builder
	for _, e := range events {
		if !w.passing(e) && !w.repeats(e) {
			w.line(&b, e)
		}
	}
	if w.Screen != nil {
		return w.Screen.Print(b.String(), w.bottom())
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := io.WriteString(w.W, b.String()); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// Servers assigns colours to servers and sets the width of their column; other servers get a
// colour when they first appear.
func (w *Writer) Servers(ids ...string) {
	for _, id := range ids {
		if _, known := w.colours[id]; known || len(w.colours) >= maxServers {
			continue
		}
		if w.colours == nil {
			w.colours = map[string]string{}
		}
		w.colours[id] = palette[len(w.colours)%len(palette)]
		if w.Columns != nil && !w.Wide {
			w.column = max(w.column, columns.Width(w.name(id)))
		}
	}
}

const (
	maxColumn  = 24   // of the column of servers
	maxSubject = 60   // of the column of URIs
	maxServers = 4096 // servers that have a colour of their own
	wordColumn = 9    // "resources"
)

func (w *Writer) zone() *time.Location { return cmp.Or(w.Zone, time.UTC) }

func (w *Writer) line(b *strings.Builder, e *event.Event) {
	at, layout := e.Timestamp.In(w.zone()), "15:04:05.000"
	if w.Wide {
		layout = "2006-01-02T15:04:05.000Z07:00"
	}
	w.dayOf(b, at)
	b.WriteString(w.paint(grey, at.Format(layout)))
	if w.Wide {
		b.WriteString("  " + w.paint(grey, e.ID))
	}
	used := len(layout)
	if e.ServerID != "" {
		w.Servers(e.ServerID)
		b.WriteString("  " + w.paint(cmp.Or(w.colours[e.ServerID], bold), columns.Pad(w.name(e.ServerID), w.column)))
		used += 2 + w.column
	}
	b.WriteString("  " + w.describe(e, used+2) + "\n")
	if u, ok := e.Payload.(event.ResourceUpdated); ok {
		w.below(b, u)
	}
}

// dayOf writes the date, on a terminal, if it differs from that of the line before, or at the
// beginning from today's.
func (w *Writer) dayOf(b *strings.Builder, at time.Time) {
	if w.Columns == nil || w.Wide {
		return
	}
	day := at.Format(time.DateOnly)
	if last := cmp.Or(w.day, time.Now().In(w.zone()).Format(time.DateOnly)); day != last {
		b.WriteString(w.paint(bold, at.Format("Monday, 2 January 2006")) + "\n")
	}
	w.day = day
}

// below writes the requested diff or content under the line of an event.
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
