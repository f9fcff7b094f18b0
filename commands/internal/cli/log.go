package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// Logger returns the logger for stderr. On a terminal, unless --log-format is set, it writes
// messages that look like errors. It escapes unprintable characters in all values, because servers
// choose some of the values.
func (g *Globals) Logger(env *Env) *slog.Logger {
	if g.logFormat == "" && env.ErrTTY {
		return slog.New(messages{w: env.Err, level: g.level, width: env.Width})
	}
	opts := &slog.HandlerOptions{Level: g.level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(printable.Line(v, 2000))
		case error:
			a.Value = slog.StringValue(printable.Reason(v, 2000))
		case time.Time:
			if a.Key == slog.TimeKey {
				a.Value = slog.StringValue(v.UTC().Format("2006-01-02T15:04:05.000Z"))
			}
		}
		return a
	}}
	if g.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(env.Err, opts))
	}
	return slog.New(slog.NewTextHandler(env.Err, opts))
}

// messages is a log handler for people. It writes each record with one call of Write, as complete
// lines: "mcptrack: warning: SERVER: MESSAGE: ERROR (KEY VALUE, ...)", and then a hint.
type messages struct {
	w     io.Writer // safe for concurrent use
	level slog.Level
	width func() int // returns 0 if unknown
	attrs []slog.Attr
}

func (h messages) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level }

func (h messages) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = slices.Concat(h.attrs, attrs)
	return h
}

// WithGroup returns h, because the names of the attributes of all our records are distinct.
func (h messages) WithGroup(string) slog.Handler { return h }

func (h messages) Handle(_ context.Context, r slog.Record) error {
	var server, cause, hint string
	message := printable.Line(r.Message, 2000)
	var details []string
	add := func(a slog.Attr) bool {
		text := valueOf(a.Value)
		switch {
		case text == "":
		case a.Key == "server":
			server = text + ": "
		case a.Key == "err" || a.Key == "error":
			cause = ": " + text
		case a.Key == "state" && r.Message == status.StateMessage:
			message = event.State(text).Words()
		case a.Key == "retryIn":
			details = append(details, "next attempt in "+text)
		case a.Key == "hint":
			hint = text
		case !slices.Contains(details, a.Key+" "+text): // for example, set by both the logger and the record
			details = append(details, a.Key+" "+text)
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	level := strings.ToLower(r.Level.String())
	if r.Level == slog.LevelWarn {
		level = "warning"
	}
	text := "mcptrack: " + level + ": " + server + message + cause
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	lines := h.wrap(text)
	if hint != "" {
		lines = append(lines, h.wrap("hint: "+hint)...)
	}
	_, err := io.WriteString(h.w, strings.Join(lines, "\n")+"\n")
	return err
}

// wrap splits a message at words into lines that fit the terminal.
func (h messages) wrap(text string) []string {
	if width := h.width(); width > 0 {
		return termtext.Wrap(text, width)
	}
	return []string{text}
}

// valueOf returns the value of an attribute as printable text.
func valueOf(v slog.Value) string {
	switch v := v.Resolve().Any().(type) {
	case error:
		return printable.Reason(v, 2000)
	case []string:
		return printable.Line(Join(v, 10), 2000)
	case time.Time:
		return v.Local().Format(time.TimeOnly)
	case time.Duration:
		return v.Round(time.Millisecond).String()
	default:
		return printable.Line(fmt.Sprint(v), 2000)
	}
}
