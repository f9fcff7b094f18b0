package tui

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

const (
	maxLogLines   = 500 // for each server
	maxLogServers = 1000
)

// Log is a handler that keeps the newest records about each server, and those about none
// under "": on a full screen there is no other place for them.
type Log struct {
	lines *logLines
	attrs []slog.Attr
	id    string // the attribute "server"
}

type logLines struct {
	mu sync.Mutex
	of map[string][]string
}

// NewLog makes an empty log.
func NewLog() *Log { return &Log{lines: &logLines{of: map[string][]string{}}} }

// Lines returns the newest lines about a server, oldest first.
func (l *Log) Lines(server string) []string {
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	return slices.Clone(l.lines.of[server])
}

// Enabled implements slog.Handler: lines of stderr are records of level debug.
func (l *Log) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Time.Local().Format("15:04:05.000 ") + r.Level.String() + " " + r.Message)
	id := l.id
	add := func(a slog.Attr) bool {
		if a.Key == "server" {
			id = a.Value.String()
			return true
		}
		b.WriteString(" " + a.Key + "=" + a.Value.Resolve().String())
		return true
	}
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	text := line(b.String())
	l.lines.mu.Lock()
	defer l.lines.mu.Unlock()
	if _, known := l.lines.of[id]; !known && len(l.lines.of) >= maxLogServers {
		return nil
	}
	lines := append(l.lines.of[id], text)
	l.lines.of[id] = slices.Delete(lines, 0, max(0, len(lines)-maxLogLines))
	return nil
}

// WithAttrs implements slog.Handler.
func (l *Log) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *l
	next.attrs = slices.Clip(next.attrs)
	for _, a := range attrs {
		if a.Key == "server" {
			next.id = a.Value.String()
		} else {
			next.attrs = append(next.attrs, a)
		}
	}
	return &next
}

// WithGroup implements slog.Handler.
func (l *Log) WithGroup(string) slog.Handler { return l }
