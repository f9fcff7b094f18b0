package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/lines"
	"github.com/mcptrack/mcptrack/output/table"
)

type historyOptions struct {
	versionFlags
	last int
}

func newHistory(env *Env, g *globals) *cobra.Command {
	var opts historyOptions
	cmd := &cobra.Command{
		Use:   "history SERVER URI",
		Short: "Show the versions of a resource",
		Long: `Shows the contents that a followed resource had, newest first: when each was noticed
and how, its size and digest, and whether its text is stored, so that diff can compare
it. The versions come from the log of serve-sse, which may be running meanwhile, or with
--url from a running serve-sse. At most the newest 500 are known.

Exit codes: 0 done; 1 failed, or nothing is stored; 2 wrong usage; 4 the --url could not
be reached, or did not answer within --timeout; 5 it refused the request; 6 --timeout
expired while the log was read.`,
		Example: `  mcptrack history docs file:///guide.md
  mcptrack history docs file:///guide.md --url http://127.0.0.1:8722 --last 5
  mcptrack history docs file:///guide.md --json | jq -r '.[].id'`,
		Args:              arguments(2, 2),
		ValidArgsFunction: completeItems(env, g, catalog.Resources),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.server, opts.uri = args[0], args[1]
			if opts.last < 1 {
				return usage("invalid --last %d; expected at least 1", opts.last)
			}
			return runHistory(cmd.Context(), env, g, opts)
		},
	}
	opts.add(cmd)
	cmd.Flags().IntVar(&opts.last, "last", 50, "show at most this `NUMBER` of versions")
	return cmd
}

func runHistory(ctx context.Context, env *Env, g *globals, opts historyOptions) error {
	ctx, cancel := opts.within(ctx)
	defer cancel()
	source, err := opts.open(ctx, env, g.logger(env))
	if err != nil {
		return err
	}
	defer source.close()
	versions, err := source.versions(ctx)
	if err != nil {
		return err
	}
	slices.Reverse(versions)
	versions = versions[:min(len(versions), opts.last)]
	switch {
	case g.format.Name == "name":
		for _, v := range versions {
			if v.ID != "" {
				fmt.Fprintln(env.Out, v.ID)
			}
		}
		return nil
	case !g.format.Table():
		return document.Write(env.Out, g.format, versions)
	}
	rows := make([][]string, 0, len(versions))
	for _, v := range versions {
		rows = append(rows, versionRow(v, g.format.Wide()))
	}
	return table.Rows(env.Out, []string{"ID", "Noticed", "How", "Size", "Digest", "Text"}, rows)
}

// shortDigest is the number of characters of a digest that is shown.
const shortDigest = 12

func versionRow(v history.Version, wide bool) []string {
	if v.Removed {
		return []string{v.ID, localTime(v.Timestamp), lines.Found(v.Cause), "", "removed", ""}
	}
	digest := v.Digest.String()
	if !wide {
		digest = strings.TrimPrefix(digest, "sha256:")[:shortDigest]
	}
	row := []string{"-", "before the first change", "", "", digest, "no"}
	if v.ID != "" {
		row[0], row[1], row[2] = v.ID, localTime(v.Timestamp), lines.Found(v.Cause)
	}
	if v.Size != nil {
		row[3] = lines.Size(*v.Size)
	}
	if v.Text {
		row[5] = "yes"
	}
	return row
}

// localTime is a time for people, in their time zone.
func localTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }
