package vault

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/mcptrack/mcptrack/core/filewatch"
)

// Options are how a vault is read. Only Dir is needed; other zero fields mean the
// default named beside them.
type Options struct {
	// Dir is the folder. It may be reached through symbolic links; none below it is
	// followed.
	Dir string
	// Ignore are globs of paths that are no part of the vault, relative to Dir and
	// with slashes: * within a segment, ** across, {a,b}. One without a slash also
	// means entries of that name in any folder.
	Ignore []string
	// MaxNoteBytes is the largest note that is read; 4 MiB.
	MaxNoteBytes int64
	// MaxEntries bounds files and folders together; 200,000. What comes after, in
	// the order of paths, is left out.
	MaxEntries int
	// Quiet is how long a file must be left alone before it is read; 200 ms.
	Quiet time.Duration
	// Spacing is the least time between two updates of one resource; 250 ms.
	Spacing time.Duration
	// ListSpacing is the least time between two changes of the list; 500 ms.
	ListSpacing time.Duration
	// Logger gets what was left out and how changes are found; nil discards.
	Logger *slog.Logger
}

// OptionError is an option that is refused: wrong usage, not a failure.
type OptionError struct {
	Option string // "dir" or "ignore"
	Reason string // one line
}

func (e *OptionError) Error() string { return e.Option + ": " + e.Reason }

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, &OptionError{"dir", "no folder was given"}
	}
	for _, glob := range o.Ignore {
		if glob == "" || !doublestar.ValidatePattern(glob) {
			return o, &OptionError{"ignore", fmt.Sprintf("%q is no valid glob", glob)}
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

// tree are the options of what watches the vault.
func (o Options) tree() filewatch.TreeOptions {
	r := rules{globs: o.Ignore}
	return filewatch.TreeOptions{
		Quiet: o.Quiet, Ignore: r.ignored, MaxDirs: o.MaxEntries, Logger: o.Logger,
	}
}
