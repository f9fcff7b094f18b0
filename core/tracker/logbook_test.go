package tracker

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// logbook is a slog.Handler that keeps every line, and can hold up whoever writes
// one: the way to stop a worker's goroutine, as a suspension of the process does.
type logbook struct {
	*lines
	attrs []slog.Attr
}

type lines struct {
	mu    sync.Mutex
	all   []line
	stall map[string]time.Duration // by message, for the next line with it
	held  int                      // goroutines that are held up
}

type line struct {
	level slog.Level
	text  string
}

func newLogbook() logbook { return logbook{lines: &lines{stall: map[string]time.Duration{}}} }

// Enabled implements [slog.Handler].
func (l logbook) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (l logbook) Handle(_ context.Context, r slog.Record) error {
	var text strings.Builder
	text.WriteString(r.Message)
	add := func(a slog.Attr) bool { text.WriteString(" " + a.String()); return true }
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	l.mu.Lock()
	l.all = append(l.all, line{r.Level, text.String()})
	d := l.stall[r.Message]
	delete(l.stall, r.Message)
	l.held++
	l.mu.Unlock()
	time.Sleep(d) // bubble time: nothing waits for real
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held--
	return nil
}

// holds reports whether a goroutine is held up.
func (l *lines) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held > 0
}

// WithAttrs implements [slog.Handler].
func (l logbook) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.attrs = slices.Concat(l.attrs, attrs)
	return l
}

// WithGroup implements [slog.Handler].
func (l logbook) WithGroup(string) slog.Handler { return l }

// stallAt holds up the goroutine that writes the message next.
func (l *lines) stallAt(message string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stall[message] = d
}

// warnings are the lines at warn and above.
func (l *lines) warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, n := range l.all {
		if n.level >= slog.LevelWarn {
			out = append(out, n.text)
		}
	}
	return out
}
