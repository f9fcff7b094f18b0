// Package serverlog keeps each server's newest log and stderr lines, for pages that show a single
// server.
//
// A [Log] is a slog handler that is used in addition to the handler that writes to stderr. Lines
// are printable and contain no secrets from the config, because sessions remove secrets before they
// log. Memory is limited: 500 lines and 96 KiB per server, of which the oldest lines are dropped, and 8 MiB in
// total, of which those of the server that logged least recently are.
package serverlog

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/status"
)

const (
	maxLines = 500 // lines per server
	maxBytes = 96 << 10
	maxLine  = 2000    // runes per line
	maxTotal = 8 << 20 // bytes, for all servers
)

// Stderr is the level of lines that a server's process wrote to stderr.
const Stderr = "stderr"

// Line is one log line.
type Line struct {
	Time  time.Time `json:"timestamp"`
	Level string    `json:"level"` // a slog level such as "INFO", or Stderr
	Text  string    `json:"text"`  // one printable line
}

// size returns about how many bytes a line needs in memory.
func (l Line) size() int { return len(l.Text) + 64 }

// MarshalJSON encodes the line with its time in [event.TimeFormat].
func (l Line) MarshalJSON() ([]byte, error) {
	return printable.Marshal(struct {
		Time  string `json:"timestamp"`
		Level string `json:"level"`
		Text  string `json:"text"`
	}{l.Time.UTC().Format(event.TimeFormat), l.Level, l.Text})
}

// Log is a slog handler that keeps the newest records for each value of the attribute "server". It
// ignores records without that attribute.
type Log struct {
	*store
	attrs  []slog.Attr
	server string // the attribute "server", if set with WithAttrs
}

type store struct {
	mu    sync.Mutex
	of    map[string]*lines
	bytes int // of all lines
}

type lines struct {
	all   []Line // oldest first, at least one
	bytes int
}

// New returns an empty log.
func New() *Log { return &Log{store: &store{of: map[string]*lines{}}} }

// Lines returns the newest lines for a server, oldest first.
func (s *store) Lines(server string) []Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.of[key(server)]; l != nil {
		return slices.Clone(l.all)
	}
	return nil
}

// key returns the name of a server in the form in which the tracker logs it.
func key(server string) string { return printable.Line(server, 128) }

// Enabled implements slog.Handler. It enables all levels, because stderr lines are debug records.
func (l *Log) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *Log) Handle(_ context.Context, r slog.Record) error {
	server := l.server
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "server" {
			server = a.Value.String()
		}
		return true
	})
	if server == "" {
		return nil
	}
	stderr := ""
	var b strings.Builder
	if r.Message != status.StateMessage {
		b.WriteString(r.Message)
	}
	add := func(a slog.Attr) bool {
		switch {
		case a.Key == "server":
		case a.Key == "line" && r.Message == Stderr:
			stderr = a.Value.String()
		default:
			b.WriteString(" " + a.Key + "=" + a.Value.Resolve().String())
		}
		return true
	}
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	line := Line{Time: r.Time, Level: r.Level.String(), Text: printable.Line(strings.TrimSpace(b.String()), maxLine)}
	if stderr != "" {
		line.Level, line.Text = Stderr, printable.Line(stderr, maxLine)
	}
	l.store.add(server, line)
	return nil
}

func (s *store) add(server string, line Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.of[server]
	if of == nil {
		of = new(lines)
		s.of[server] = of
	}
	of.all = append(of.all, line)
	of.bytes += line.size()
	s.bytes += line.size()
	n := 0
	for ; len(of.all)-n > maxLines || of.bytes > maxBytes; n++ {
		of.bytes -= of.all[n].size()
		s.bytes -= of.all[n].size()
	}
	of.all = slices.Delete(of.all, 0, n)
	for s.bytes > maxTotal {
		s.forget()
	}
}

// forget removes the lines of the server that logged least recently.
func (s *store) forget() {
	var oldest string
	for id, l := range s.of {
		if o := s.of[oldest]; o == nil || l.last().Before(o.last()) {
			oldest = id
		}
	}
	s.bytes -= s.of[oldest].bytes
	delete(s.of, oldest)
}

func (l *lines) last() time.Time { return l.all[len(l.all)-1].Time }

// WithAttrs implements slog.Handler.
func (l *Log) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *l
	next.attrs = slices.Clip(next.attrs)
	for _, a := range attrs {
		if a.Key == "server" {
			next.server = a.Value.String()
		} else {
			next.attrs = append(next.attrs, a)
		}
	}
	return &next
}

// WithGroup implements slog.Handler.
func (l *Log) WithGroup(string) slog.Handler { return l }
