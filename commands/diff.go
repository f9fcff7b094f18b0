package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
	"github.com/mcptrack/mcptrack/output/diff"
	"github.com/mcptrack/mcptrack/output/document"
)

func newDiff(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts versionFlags
	cmd := &cobra.Command{
		Use:   "diff SERVER URI|ITEM [ID [ID]]",
		Short: "Compare two versions of a resource or a tool",
		Long: `Prints a unified diff of two versions of a text resource: without an ID the last
change, with one ID the changes from that version to the newest, and with two IDs the
changes from the first to the second. history lists the IDs; the number at the end of an
ID is enough.

` + versionsOfItems + `
Their diffs have one line for each member, and mark hidden characters like <U+200B>.

` + versionsFrom + ``,
		Example: `  mcptrack diff docs file:///guide.md
  mcptrack diff docs file:///guide.md 42
  mcptrack diff docs tool/search
  mcptrack diff docs file:///guide.md 42 57 --url http://127.0.0.1:8722
  mcptrack diff docs file:///guide.md --json | jq -r .diff`,
		Args:              cli.Args(2, 4),
		ValidArgsFunction: completeVersioned(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.read(cmd.Context(), env, g, args, func(ctx context.Context, of *versioned) error {
				c := comparison{ServerID: of.server, URI: of.item.Key}
				if !of.item.Content() {
					c.URI, c.Item = "", of.item.Name()
				}
				if err := c.compare(ctx, of, args[2:]); err != nil {
					return err
				}
				return c.write(env, g)
			})
		},
	}
	opts.add(cmd)
	return cmd
}

// comparison is the JSON document that diff prints.
type comparison struct {
	ServerID string          `json:"serverId"`
	URI      string          `json:"uri,omitempty"`
	Item     string          `json:"item,omitempty"` // name of the item, if its definitions are compared
	From     history.Version `json:"from"`
	To       history.Version `json:"to"`
	Diff     string          `json:"diff"` // empty if the texts are equal
}

// compare selects the two versions that ids specify, and computes their diff.
func (c *comparison) compare(ctx context.Context, of *versioned, ids []string) (err error) {
	if c.From, c.To, err = history.Pair(of.versions, ids); err != nil {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "no_version", Err: err, Hint: "mcptrack history lists the versions"}
	}
	var texts [2]string
	// The newer one first: it may be read from the server then, and stored.
	for i, v := range slices.Backward([]history.Version{c.From, c.To}) {
		text, ok, err := of.text(ctx, v.Digest)
		switch {
		case err != nil:
			return err
		case !ok:
			return &cli.Failure{Exit: cli.ExitFailed, Code: "no_text", Err: fmt.Errorf("the text of version %s is not stored", versionName(v)),
				Hint: "binary and very large contents are never stored, nor definitions by older versions of mcptrack, nor files of skills that nobody read; --keep-content of serve-sse limits how many texts are kept"}
		case len(text) > textdiff.MaxText:
			return &cli.Failure{Exit: cli.ExitFailed, Code: "too_large", Err: fmt.Errorf("version %s has %d bytes; at most %d can be compared", versionName(v), len(text), textdiff.MaxText)}
		}
		texts[i] = text
	}
	if of.item.Content() {
		c.Diff = textdiff.Unified(c.URI, texts[0], texts[1])
		return nil
	}
	c.Diff = lock.Drift{Section: of.item.Section, Key: of.item.Key, Old: lock.Item{Definition: json.RawMessage(texts[0])}, New: lock.Item{Definition: json.RawMessage(texts[1])}}.Diff()
	return nil
}

func (c *comparison) write(env *cli.Env, g *cli.Globals) error {
	switch {
	case !g.Format.Table():
		return document.Write(env.Out, g.Format, c)
	case c.Diff == "":
		fmt.Fprintf(env.Err, "versions %s and %s have the same text\n", versionName(c.From), versionName(c.To))
		return nil
	}
	shown := printable.Lines(c.Diff)
	if g.Colours(env, env.OutTTY) {
		shown = diff.Colour(c.Diff)
	}
	_, err := io.WriteString(env.Out, shown)
	return err
}

func versionName(v history.Version) string {
	if v.ID == "" {
		return "before the first change"
	}
	return v.ID
}
