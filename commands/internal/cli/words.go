package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Pairs parses NAME=VALUE arguments of a flag such as --arg.
func Pairs(flag string, values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, Usage("invalid --%s %q; expected NAME=VALUE", flag, printable.Line(v, 60))
		}
		if _, twice := out[name]; twice {
			return nil, Usage("--%s %s is given twice", flag, printable.Line(name, 60))
		}
		out[name] = value
	}
	return out, nil
}

// Join joins at most limit names, and appends the number of omitted names.
func Join(names []string, limit int) string {
	out := ""
	for i, n := range names {
		if i == limit {
			return out + fmt.Sprintf(" and %d more", len(names)-i)
		}
		if i > 0 {
			out += ", "
		}
		out += n
	}
	return out
}

// Plural returns a number followed by its noun: "1 server", "2 servers".
func Plural(n int, noun string) string { return printable.Plural(n, noun) }

// Stamp formats a time in the format that all output uses. It returns "" for the zero time.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(event.TimeFormat)
}

// Time formats a time for tables and texts on stdout: in the local time zone on a terminal, otherwise
// as [Stamp] does. It returns "" for the zero time.
func (e *Env) Time(t time.Time) string {
	if e.OutTTY && !t.IsZero() {
		return t.Local().Format("2006-01-02 15:04:05")
	}
	return Stamp(t)
}

// TimeOf is Time for a time as [Stamp] formats it. It returns "" for other texts.
func (e *Env) TimeOf(stamp string) string {
	t, _ := time.Parse(time.RFC3339, stamp)
	return e.Time(t)
}

// SplitList splits the values of a flag that accepts comma-separated lists.
func SplitList(values []string) []string {
	var out []string
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}
