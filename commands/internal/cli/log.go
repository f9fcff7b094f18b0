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
		return slog.New(messages{console: g.console(env), level: g.level})
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

// console writes messages for people to stderr. On a terminal it wraps them at words.
type console struct {
	w       io.Writer  // safe for concurrent use
	width   func() int // returns 0 if unknown
	colours bool
}

func (g *Globals) console(env *Env) console {
	return console{env.Err, env.errWidth, g.Colours(env, env.ErrTTY)}
}

// write writes a message, the places to which it refers, and a hint, with one call of Write. All text
// must be printable. The message begins with prefix, which has the given colour.
func (c console) write(colour termtext.Colour, prefix, message string, places []string, hint string) error {
	var b strings.Builder
	c.wrap(&b, colour, prefix, message)
	for _, place := range places {
		b.WriteString("  " + place + "\n")
	}
	if hint != "" {
		c.wrap(&b, termtext.Cyan, "hint:", hint)
	}
	_, err := io.WriteString(c.w, b.String())
	return err
}

// wrap writes a prefix and a text as lines that fit the terminal.
func (c console) wrap(b *strings.Builder, colour termtext.Colour, prefix, text string) {
	text = prefix + " " + text
	if width := c.width(); width > 0 {
		text = strings.Join(termtext.Wrap(text, width), "\n")
	}
	if rest, whole := strings.CutPrefix(text, prefix); whole && c.colours {
		text = colour.Paint(prefix) + rest
	}
	b.WriteString(text + "\n")
}

// messages is a log handler for people. It writes each record as
// "mcptrack: warning: SERVER: MESSAGE: ERROR (KEY VALUE, ...)", and then a hint.
type messages struct {
	console
	level slog.Level
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
	var state event.State
	add := func(a slog.Attr) bool {
		text := valueOf(a.Value)
		switch {
		case text == "":
		case a.Key == "server":
			server = text + ": "
		case a.Key == "err" || a.Key == "error":
			cause = ": " + text
		case a.Key == "state" && r.Message == status.StateMessage:
			state = event.State(text)
			message = state.Words()
		case a.Key == "reason" && state.Dormant(text):
			message, _ = state.Said(text)
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
	level, colour := strings.ToLower(r.Level.String()), termtext.Grey
	switch {
	case r.Level >= slog.LevelError:
		colour = termtext.Red
	case r.Level >= slog.LevelWarn:
		level, colour = "warning", termtext.Yellow
	}
	text := server + message + cause
	if len(details) > 0 {
		text += " (" + strings.Join(details, ", ") + ")"
	}
	return h.write(colour, "mcptrack: "+level+":", text, nil, hint)
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
