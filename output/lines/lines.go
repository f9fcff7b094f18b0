// Package lines formats events for users: one line per event, with diffs and contents indented
// below it. The text may change between versions; scripts should use NDJSON.
//
// On a terminal, lines are coloured, aligned in columns and truncated to the terminal's width. The
// first line of each day is preceded by the date. On other outputs, lines are neither aligned nor
// truncated, and times include the date and the zone. A failure is shown only if it differs from the
// previous one.
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
	"github.com/mcptrack/mcptrack/output/termtext"
)

// Writer formats events and writes them to one stream. It is not safe for concurrent use.
type Writer struct {
	W      io.Writer
	Colour bool
	Wide   bool // also shows dates, ids and digests, and truncates nothing
	// Verbose writes a line for every event. By default, transient states, repeated failures, and
	// changed lists whose items have events of their own are omitted.
	Verbose bool
	// Summaries adds a one-line description of new content that is binary or large.
	Summaries bool
	Zone      *time.Location // time zone of the displayed times; nil means UTC

	// Columns returns the terminal width in columns. It is nil if the output is not a terminal.
	Columns func() int

	failing  map[string]string          // cause of the newest failure, by server
	followed map[string]string          // how each server is followed, as shown last
	colours  map[string]termtext.Colour // assigned colours, by server
	column   int                        // width of the server column
	subject  int                        // width of the URI column
	day      string                     // date of the last written line
}

// Write formats and writes the events, in order.
func (w *Writer) Write(events ...*event.Event) error {
	var b strings.Builder
	for _, e := range events {
		if !w.passing(e) && !w.repeats(e) {
			w.line(&b, e)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := io.WriteString(w.W, b.String()); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// Servers assigns colours to servers and sets the width of the server column. Servers not listed
// here are assigned a colour when they first appear.
func (w *Writer) Servers(ids ...string) {
	for _, id := range ids {
		if _, known := w.colours[id]; known || len(w.colours) >= maxServers {
			continue
		}
		if w.colours == nil {
			w.colours = map[string]termtext.Colour{}
		}
		w.colours[id] = palette[len(w.colours)%len(palette)]
		if w.Columns != nil && !w.Wide {
			w.column = max(w.column, termtext.Width(w.name(id)))
		}
	}
}

const (
	maxColumn  = 24   // maximum width of the server column, in columns
	maxSubject = 60   // maximum width of the URI column, in columns
	maxServers = 4096 // maximum number of servers with an assigned colour
	wordColumn = 9    // the width of "resources", the longest word
)

func (w *Writer) zone() *time.Location { return cmp.Or(w.Zone, time.UTC) }

func (w *Writer) line(b *strings.Builder, e *event.Event) {
	at, layout := e.Timestamp.In(w.zone()), "15:04:05.000"
	if w.Wide || w.Columns == nil {
		layout = "2006-01-02T15:04:05.000Z07:00"
	}
	w.dayOf(b, at)
	b.WriteString(w.paint(termtext.Grey, at.Format(layout)))
	if w.Wide {
		b.WriteString("  " + w.paint(termtext.Grey, e.ID))
	}
	used := len(layout)
	if e.ServerID != "" {
		w.Servers(e.ServerID)
		b.WriteString("  " + w.paint(cmp.Or(w.colours[e.ServerID], termtext.Bold), termtext.Pad(w.name(e.ServerID), w.column)))
		used += 2 + w.column
	}
	b.WriteString("  " + w.describe(e, used+2) + "\n")
	if u, ok := e.Payload.(event.ResourceUpdated); ok {
		w.below(b, u)
	}
}

// dayOf writes the date on a terminal if it differs from the date of the previous line, or from
// today's date for the first line.
func (w *Writer) dayOf(b *strings.Builder, at time.Time) {
	if w.Columns == nil || w.Wide {
		return
	}
	day := at.Format(time.DateOnly)
	if last := cmp.Or(w.day, time.Now().In(w.zone()).Format(time.DateOnly)); day != last {
		b.WriteString(w.paint(termtext.Bold, at.Format("Monday, 2 January 2006")) + "\n")
	}
	w.day = day
}

// below writes the requested diff or content below an event's line.
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
	n, limit := 0, strings.Count(text, "\n")+1
	if u.Diff != nil && *u.Diff != "" && w.Columns != nil && !w.Wide {
		limit = maxDiff
	}
	for line := range strings.Lines(text) {
		if n++; n > limit {
			continue
		}
		b.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
	}
	if n > limit {
		b.WriteString("    " + w.paint(termtext.Grey, fmt.Sprintf("… %s; use -o wide to see them", printable.Plural(n-limit, "more line"))) + "\n")
	}
}

// maxDiff limits the lines of a diff on a terminal.
const maxDiff = 20

// Hides reports whether an event is not shown on a terminal: an announcement of a change that left the content
// as it was.
func (w *Writer) Hides(e *event.Event) bool {
	u, ok := e.Payload.(event.ResourceUpdated)
	return ok && u.Changed != nil && !*u.Changed && w.Columns != nil && !w.Verbose && !w.Wide
}

// passing reports whether an event is not shown: a state that is transient or repeats the failure
// that was last shown or, on a terminal, an announcement without a change.
func (w *Writer) passing(e *event.Event) bool {
	if w.Hides(e) {
		return true
	}
	if a, ok := e.Payload.(event.SubscriptionActive); ok {
		how := fmt.Sprint(a.Mode, len(a.Missing) > 0)
		again := w.followed[e.ServerID] == how // only the number of items differs, which list changes show
		if w.followed == nil {
			w.followed = map[string]string{}
		}
		w.followed[e.ServerID] = how
		return again && !w.Verbose && !w.Wide
	}
	st, ok := e.Payload.(event.ServerState)
	if !ok || w.Verbose {
		return false
	}
	if st.State != event.Ready {
		delete(w.followed, e.ServerID)
	}
	switch st.State {
	case event.Connecting:
		return true
	case event.Pending:
		delete(w.failing, e.ServerID)
		return true
	case event.Stopping:
		delete(w.failing, e.ServerID)
		return st.Reason == "shutdown"
	case event.Backoff:
		if w.failing == nil {
			w.failing = map[string]string{}
		}
		cause := withoutNumbers(st.Reason + " " + st.Error)
		before, failed := w.failing[e.ServerID]
		w.failing[e.ServerID] = cause
		return failed && before == cause
	}
	delete(w.failing, e.ServerID)
	return false
}

// withoutNumbers removes the parts of an error that vary between attempts: durations, ports and
// process ids.
func withoutNumbers(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' || r == 'µ' || r == 'm' {
			return -1 // "1.5ms" contains a dot and a unit
		}
		return r
	}, s)
}

// name returns the id of a server, truncated to the width of the server column.
func (w *Writer) name(id string) string {
	id = printable.Line(id, 64)
	if w.Columns != nil && !w.Wide {
		id = termtext.Middle(id, w.serverColumn())
	}
	return id
}

// serverColumn returns the maximum width of the server column.
func (w *Writer) serverColumn() int { return min(maxColumn, max(w.Columns()/5, 8)) }
