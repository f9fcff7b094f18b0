package cli

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Filter selects events by --type, --server and --changed-only.
type Filter struct {
	Types, Servers []string // globs; an empty list matches everything
	ChangedOnly    bool
}

// AddCount adds the flag --count. what names the things that are counted.
func AddCount(cmd *cobra.Command, count *int, what string) {
	cmd.Flags().IntVarP(count, "count", "n", 0, "exit after this `NUMBER` of "+what)
}

// AddSince adds the flag --since.
func AddSince(cmd *cobra.Command, since *string) {
	cmd.Flags().StringVarP(since, "since", "s", "", "begin after this event `ID`, at this time, or this long ago (2h, 7d)")
}

// AddTypes adds the flag --type.
func (f *Filter) AddTypes(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&f.Types, "type", "t", nil, "only events of these `TYPES` (globs)")
	_ = cmd.RegisterFlagCompletionFunc("type", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		var out []string
		for _, name := range typeNames() {
			out = append(out, before+name)
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// AddServers adds the flag --server.
func (f *Filter) AddServers(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.Servers, "server", nil, "only these server `IDS` (globs)")
}

// AddChangedOnly adds the flag --changed-only.
func (f *Filter) AddChangedOnly(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.ChangedOnly, "changed-only", false, "omit updates that did not change the content")
}

// Parse splits comma-separated values and validates the globs.
func (f *Filter) Parse() error {
	f.Types, f.Servers = SplitList(f.Types), SplitList(f.Servers)
	if err := cmp.Or(Globs("--type", f.Types), Globs("--server", f.Servers)); err != nil {
		return err
	}
	for _, pattern := range f.Types {
		if !slices.ContainsFunc(typeNames(), func(name string) bool { return matchesAny([]string{pattern}, name) }) {
			return UsageHint(DidYouMean(pattern, typeNames(), "mcptrack help events lists them"), "unknown event type %q", printable.Line(pattern, 100))
		}
	}
	return nil
}

// Globs returns a usage failure for the first invalid glob. what is the flag or argument that has them.
func Globs(what string, globs []string) error {
	for _, g := range globs {
		if g == "" {
			return Usage("%s is empty: it would match nothing", what) // probably an unset shell variable
		}
		if !glob.Valid(g) {
			return UsageHint(`close each [ and {, or write \[ and \{ for the characters themselves`, "invalid glob %q in %s", printable.Line(g, 200), what)
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

// All reports whether every event passes the filter.
func (f *Filter) All() bool { return len(f.Types)+len(f.Servers) == 0 && !f.ChangedOnly }

// Keep reports whether an event passes the filter.
func (f *Filter) Keep(e *event.Event) bool {
	if u, ok := e.Payload.(event.ResourceUpdated); ok && f.ChangedOnly && u.Changed != nil && !*u.Changed {
		return false
	}
	return (len(f.Types) == 0 || matchesAny(f.Types, string(e.Type()))) && (len(f.Servers) == 0 || e.ServerID == "" || matchesAny(f.Servers, e.ServerID))
}

func matchesAny(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return p == s || glob.Match(p, s) })
}
