package lines

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/columns"
)

// failure is the failure of a server that keeps being retried.
type failure struct {
	cause    string // the error without its numbers, which differ each time
	attempts int
	next     time.Time
}

// passing reports whether a state gets no line, because it only leads to another one or repeats
// a failure already shown. Failures are kept for the bottom of the screen.
func (w *Writer) passing(e *event.Event) bool {
	st, ok := e.Payload.(event.ServerState)
	if !ok || w.Verbose {
		return false
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
			w.failing = map[string]failure{}
		}
		f := failure{cause: withoutNumbers(st.Reason + " " + st.Error), attempts: st.Attempt, next: e.Timestamp.Add(time.Duration(st.RetryIn))}
		before, failed := w.failing[e.ServerID]
		f.attempts = max(f.attempts, before.attempts+1)
		w.failing[e.ServerID] = f
		return failed && before.cause == f.cause
	}
	delete(w.failing, e.ServerID)
	return false
}

// withoutNumbers removes the parts of an error that differ with each attempt: durations, ports
// and process ids.
func withoutNumbers(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' || r == 'µ' || r == 'm' {
			return -1 // also of 1.5ms
		}
		return r
	}, s)
}

// maxBottom bounds the lines at the bottom.
const maxBottom = 5

// bottom returns the lines about servers that have failed more than once.
func (w *Writer) bottom() []string {
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(w.failing)), func(id string) bool { return w.failing[id].attempts < 2 })
	var out []string
	for i, id := range ids {
		if i == maxBottom-1 && len(ids) > maxBottom {
			out = append(out, w.paint(grey, fmt.Sprintf("… and %d more servers are backing off", len(ids)-i)))
			break
		}
		f := w.failing[id]
		text := fmt.Sprintf("%s  backing off, attempt %d, next %s", columns.Pad(w.name(id), w.column), f.attempts, f.next.In(w.zone()).Format("15:04:05"))
		out = append(out, w.paint(grey, columns.End(text, w.Columns()-1)))
	}
	return out
}

// name returns the id of a server, cut to the width of its column.
func (w *Writer) name(id string) string {
	id = printable.Line(id, 64)
	if w.Columns != nil && !w.Wide {
		id = columns.Middle(id, w.serverColumn())
	}
	return id
}

// serverColumn returns the greatest width of the column of servers.
func (w *Writer) serverColumn() int { return min(maxColumn, max(w.Columns()/5, 8)) }
