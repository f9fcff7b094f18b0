package vault

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/mcptrack/mcptrack/core/filewatch"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Options configure a vault. Only Dir is required; zero fields mean the documented
// default.
type Options struct {
	// Dir is the folder of notes. Its path may contain symbolic links; links below it are
	// not followed.
	Dir string
	// Ignore lists globs of paths to exclude, relative to Dir and with slashes: *
	// matches within a segment, ** across segments, {a,b} either. A glob without a
	// slash also matches entries of that name in any folder.
	Ignore []string
	// MaxNoteBytes is the size of the largest note that is read; 4 MiB by default.
	MaxNoteBytes int64
	// MaxEntries limits the number of files and folders; 200,000 by default. Entries
	// beyond it, in path order, are skipped.
	MaxEntries int
	// Quiet is how long a file must be unchanged before it is read; 200 ms by default.
	Quiet time.Duration
	// Spacing is the least time between two updates of one resource that are published;
	// 250 ms by default.
	Spacing time.Duration
	// ListSpacing is the least time between two calls of Listener.Listed; 500 ms by
	// default.
	ListSpacing time.Duration
	// Logger gets warnings about skipped entries and about missing file events; nil
	// discards them.
	Logger *slog.Logger
}

// OptionError is an invalid option: a usage error.
type OptionError struct {
	Option string // "dir" or "ignore"
	Reason string // one line
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Reason }

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, &OptionError{"dir", "no folder given"}
	}
	for _, g := range o.Ignore {
		if !glob.Valid(g) {
			return o, &OptionError{"ignore", fmt.Sprintf("invalid glob %q", printable.Line(g, 200))}
		}
	}
	if o.MaxNoteBytes <= 0 {
		o.MaxNoteBytes = 4 << 20
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = 200_000
	}
	if o.Quiet <= 0 {
		o.Quiet = 200 * time.Millisecond
	}
	if o.Spacing <= 0 {
		o.Spacing = 250 * time.Millisecond
	}
	if o.ListSpacing <= 0 {
		o.ListSpacing = 500 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// tree returns the options of the vault's file watcher.
func (o Options) tree() filewatch.TreeOptions {
	r := rules{globs: o.Ignore}
	return filewatch.TreeOptions{
		Quiet: o.Quiet, Ignore: r.ignored, MaxDirs: o.MaxEntries, Logger: o.Logger,
	}
}
