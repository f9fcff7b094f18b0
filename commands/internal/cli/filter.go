package cli

import (
	"slices"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Filter selects events by --type, --server and --changed-only.
type Filter struct {
	Types, Servers []string
	ChangedOnly    bool
}

func (f Filter) Check() error {
	for _, pattern := range slices.Concat(f.Types, f.Servers) {
		if !glob.Valid(pattern) {
			return Usage("invalid glob %q", printable.Line(pattern, 100))
		}
	}
	for _, pattern := range f.Types {
		if !slices.ContainsFunc(event.Types(), func(t event.Type) bool { return matches(pattern, string(t)) }) {
			return UsageHint(DidYouMean(pattern, typeNames(), "mcptrack help events lists them"), "unknown event type %q", printable.Line(pattern, 100))
		}
	}
	return nil
}

func typeNames() []string {
	var names []string
	for _, t := range event.Types() {
		names = append(names, string(t))
	}
	return names
}

// All reports whether the filter keeps every event.
func (f Filter) All() bool { return len(f.Types)+len(f.Servers) == 0 && !f.ChangedOnly }

// Keep reports whether the filter keeps the event.
func (f Filter) Keep(e *event.Event) bool {
	if u, ok := e.Payload.(event.ResourceUpdated); ok && f.ChangedOnly && u.Changed != nil && !*u.Changed {
		return false
	}
	return f.keepsType(e) && (len(f.Servers) == 0 || e.ServerID == "" || matchesAny(f.Servers, e.ServerID))
}

func (f Filter) keepsType(e *event.Event) bool {
	return len(f.Types) == 0 || matchesAny(f.Types, string(e.Type()))
}

// IsChange reports whether an event is about a change at a server, of the config or of
// the feed.
func IsChange(e *event.Event) bool {
	d, ok := event.Define(e.Type())
	return ok && d.Change
}

// Counts reports whether --count counts the event: a change, or any event if --type
// selects them.
func (f Filter) Counts(e *event.Event) bool { return len(f.Types) > 0 || IsChange(e) }

func matchesAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, s) })
}

func matches(pattern, s string) bool { return pattern == s || glob.Match(pattern, s) }
