package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
	"github.com/mcptrack/mcptrack/output/diff"
	"github.com/mcptrack/mcptrack/output/table"
)

// comparison is the JSON document of history --diff.
type comparison struct {
	ServerID string          `json:"serverId"`
	URI      string          `json:"uri,omitempty"`
	Item     string          `json:"item,omitempty"` // name of the item, if its definitions are compared
	From     history.Version `json:"from"`
	To       history.Version `json:"to"`
	Diff     string          `json:"diff"` // empty if the texts are equal
}

// compare prints the difference of the two versions that ids specify; see [history.Pair].
func (v *versioned) compare(ctx context.Context, env *cli.Env, g *cli.Globals, ids []string) (err error) {
	c := comparison{ServerID: v.server, URI: v.item.Key}
	if !v.item.Content() {
		c.URI, c.Item = "", v.item.Name()
	}
	if c.From, c.To, err = history.Pair(v.versions, ids); err != nil {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "no_version", Err: err, Hint: "mcptrack history lists the versions"}
	}
	var texts [2]string
	// The newer one first: it may be read from the server then, and stored.
	for i, version := range slices.Backward([]history.Version{c.From, c.To}) {
		text, ok, err := v.text(ctx, version.Digest)
		switch {
		case err != nil:
			return err
		case !ok:
			return &cli.Failure{Exit: cli.ExitFailed, Code: "no_text", Err: fmt.Errorf("the text of version %s is not stored", versionName(version)),
				Hint: "binary and very large contents are not stored, nor files of skills that nobody read; --keep-content of serve-sse limits how many texts are kept"}
		case len(text) > textdiff.MaxText:
			return &cli.Failure{Exit: cli.ExitFailed, Code: "too_large", Err: fmt.Errorf("version %s has %d bytes; at most %d can be compared", versionName(version), len(text), textdiff.MaxText)}
		}
		texts[i] = text
	}
	if v.item.Content() {
		c.Diff = textdiff.Unified(c.URI, texts[0], texts[1])
	} else {
		c.Diff = lock.Drift{Section: v.item.Section, Key: v.item.Key, Old: lock.Item{Definition: json.RawMessage(texts[0])}, New: lock.Item{Definition: json.RawMessage(texts[1])}}.Diff()
	}
	if c.Diff == "" && g.Format.Table() {
		fmt.Fprintf(env.Err, "versions %s and %s have the same text\n", versionName(c.From), versionName(c.To))
		return nil
	}
	shown := printable.Lines(c.Diff)
	if g.Colours(env, env.OutTTY) {
		shown = diff.Colour(c.Diff)
	}
	return g.Print(env, table.Output{Document: c, Names: []string{versionName(c.From) + "\t" + versionName(c.To)}, Parts: []table.Part{table.Text("%s", strings.TrimSuffix(shown, "\n"))}})
}

func versionName(v history.Version) string {
	if v.ID == "" {
		return "before the first change"
	}
	return v.ID
}
