package commands

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/table"
)

func newHistory(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts versionFlags
	var last int
	var compare bool
	cmd := &cobra.Command{
		Use:   "history SERVER URI|ITEM [ID [ID]]",
		Short: "Show the versions of a resource or a tool",
		Long: `Shows the versions of a followed resource, newest first: the time, the cause, the size and
the digest, and whether the text is stored. For an item, such as tool/search, it shows the
versions of the definition, and what changed in each. The versions come from a running
daemon, from a running serve-sse, or from the log that serve-sse left.

ITEM is tool/NAME, prompt/NAME, template/URITEMPLATE, resource/URI, skill/URI or
instructions.

--diff compares the last two texts. With one ID it compares this version with the newest,
and with two IDs these two. The number at the end of an ID is enough.

If no daemon has them, history asks the serve-sse at http://127.0.0.1:8722; if that one
has none, history reads the log of serve-sse on this machine. -v shows which source was
used.`,
		Example: `  mcptrack history docs file:///guide.md
  mcptrack history docs file:///guide.md --diff
  mcptrack history docs tool/search --diff
  mcptrack history docs file:///guide.md --diff 42 57
  mcptrack history docs tool/search --url http://127.0.0.1:8722 --last 5`,
		Args:              versionedArgs(env, g),
		ValidArgsFunction: completeVersioned(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case last < 1:
				return cli.Usage("invalid --last %d; expected at least 1", last)
			case len(args) > 2 && !compare:
				return cli.UsageHint("add --diff to compare versions", "history takes an ID only with --diff, got %q", printable.Line(args[2], 100))
			}
			return opts.read(cmd.Context(), env, g, args, func(ctx context.Context, of *versioned) error {
				if compare {
					return of.compare(ctx, env, g, args[2:])
				}
				slices.Reverse(of.versions)
				return writeHistory(env, g, of.versions[:min(len(of.versions), last)])
			})
		},
	}
	opts.add(cmd)
	cmd.Flags().IntVar(&last, "last", 50, "show at most this `NUMBER` of versions")
	cmd.Flags().BoolVar(&compare, "diff", false, "print the difference of two versions")
	cli.MainFlags(cmd, "diff", "last", "url", "verbose", "json")
	return cmd
}

// newDiff returns the command with the former name of history --diff.
func newDiff(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts versionFlags
	cmd := &cobra.Command{
		Use:               "diff SERVER URI|ITEM [ID [ID]]",
		Short:             "Compare two versions of a resource or a tool",
		Long:              "Does what mcptrack history --diff does.",
		Args:              versionedArgs(env, g),
		ValidArgsFunction: completeVersioned(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.read(cmd.Context(), env, g, args, func(ctx context.Context, of *versioned) error {
				return of.compare(ctx, env, g, args[2:])
			})
		},
	}
	opts.add(cmd)
	return cmd
}

func writeHistory(env *cli.Env, g *cli.Globals, versions []history.Version) error {
	names := []string{}
	for _, v := range versions {
		if v.ID != "" {
			names = append(names, v.ID)
		}
	}
	what := "Size"
	if len(versions) > 0 && versions[0].Item != "" {
		what = "Change"
	}
	row := func(v history.Version) []string { return versionRow(env, v, g.Format.Wide()) }
	return g.Print(env, table.Output{Names: names, Parts: []table.Part{table.Records(versions, row, "ID", "Noticed", "How", what, "Digest", "Text")}})
}

// shortDigest is the number of digest characters that are shown.
const shortDigest = 12

func versionRow(env *cli.Env, v history.Version, wide bool) []string {
	if v.Removed {
		return []string{v.ID, env.Time(v.Timestamp), v.Cause.Words(), changeWord(v), "removed", ""}
	}
	digest := v.Digest.String()
	if short := strings.TrimPrefix(digest, "sha256:"); !wide && len(short) > shortDigest {
		digest = short[:shortDigest]
	}
	row := []string{"-", cmp.Or(env.Time(v.Timestamp), "before the first change"), "", "", digest, "no"}
	if v.ID != "" {
		row[0], row[2], row[3] = v.ID, v.Cause.Words(), changeWord(v)
	}
	if v.Size != nil {
		row[3] = printable.Size(*v.Size)
	}
	if v.Text {
		row[5] = "yes"
	}
	return row
}

// changeWord says what changed with a version of a definition; empty for the content of a resource, and
// for the first known instructions.
func changeWord(v history.Version) string {
	var names []string
	for _, c := range v.Classes {
		names = append(names, c.Name)
	}
	switch {
	case len(names) > 0:
		return strings.Join(names, ", ")
	case v.Item != "" && v.Cause != "":
		return "changed"
	}
	return ""
}
