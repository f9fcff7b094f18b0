package agent

import (
	"fmt"
	"io"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
)

const (
	// MaxLine bounds the length of a line in bytes, with its newline.
	MaxLine = 400
	// Every is the shortest time between two lines.
	Every = time.Second
	// gather is the time between a change and the line that reports it: changes come in
	// groups.
	gather = 300 * time.Millisecond
)

// lines gathers changes and writes them as lines. It is not safe for concurrent use.
type lines struct {
	w      io.Writer
	tracks func(server, uri string) bool

	changes
	first time.Time // when the first pending change was added; zero: there is none
	last  time.Time // when the last line was written
	lines int       // lines written
}

func newLines(w io.Writer, tracks func(server, uri string) bool) *lines {
	if tracks == nil {
		tracks = func(string, string) bool { return true }
	}
	return &lines{w: w, tracks: tracks}
}

func (l *lines) take(e *event.Event) {
	l.event(e, l.tracks)
	l.noted()
}

func (l *lines) note(k changeKey, verb string) {
	l.add(k, verb, nil, nil)
	l.noted()
}

func (l *lines) noted() {
	if l.first.IsZero() && !l.empty() {
		l.first = time.Now()
	}
}

// due returns how long to wait before the next line may be written, and whether there is
// anything to report. With hurry it does not wait for further changes.
func (l *lines) due(hurry bool) (wait time.Duration, any bool) {
	if l.empty() {
		return 0, false
	}
	if !l.last.IsZero() {
		wait = Every - time.Since(l.last)
	}
	if !hurry {
		wait = max(wait, gather-time.Since(l.first))
	}
	return wait, true
}

// print writes all changes as one line.
func (l *lines) print() error {
	text := l.line(MaxLine-1) + "\n"
	l.changes, l.first, l.last = changes{}, time.Time{}, time.Now()
	if _, err := io.WriteString(l.w, text); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	l.lines++
	return nil
}
