package changetools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Bounds of diffs, in bytes.
const (
	maxDiff  = 4 << 10  // of one change
	maxDiffs = 24 << 10 // of a result
)

// addDiffs adds a diff to every change of a resource whose texts are stored, as far as
// maxDiffs leaves room.
func (g *reportBuilder) addDiffs(ctx context.Context, opts Options) {
	if opts.Text == nil || opts.Diff == nil {
		return
	}
	room := maxDiffs
	for _, c := range g.Changes {
		if c.from.IsZero() || c.to.IsZero() || c.from == c.to {
			continue
		}
		if room < maxDiff/4 {
			c.DiffCut = true
			continue
		}
		from, ok, err := opts.Text(ctx, c.from)
		if !ok || err != nil {
			continue
		}
		to, ok, err := opts.Text(ctx, c.to)
		if !ok || err != nil {
			continue
		}
		c.Diff = printable.Lines(opts.Diff(c.URI, from, to))
		c.Diff, c.DiffCut = cut(c.Diff, min(maxDiff, room))
		room -= len(c.Diff)
	}
}

// cut returns the whole lines of a text that fit into limit bytes.
func cut(text string, limit int) (string, bool) {
	if len(text) <= limit {
		return text, false
	}
	text = text[:limit]
	if end := strings.LastIndexByte(text, '\n'); end >= 0 {
		return text[:end+1], true
	}
	return strings.ToValidUTF8(text, ""), true
}

// result returns the MCP tool result: the report as structured content, and as text.
func (g *reportBuilder) result() json.RawMessage {
	g.Cursor = g.at.Cursor()
	return encode(toolResult{Content: []textContent{{"text", g.text()}}, Structured: &g.report})
}

// text says in words what the report says as JSON.
func (g *reportBuilder) text() string {
	var b strings.Builder
	if g.Truncated {
		b.WriteString("Earlier changes are no longer known: read again what matters.\n")
	}
	if len(g.Changes) == 0 {
		b.WriteString("Nothing changed.\n")
	}
	for _, c := range g.Changes {
		c.write(&b)
	}
	if g.HasMore {
		b.WriteString("There are more changes: call " + SinceName + " with the cursor.\n")
	}
	b.WriteString("Cursor: " + g.Cursor)
	return b.String()
}

func (c *change) write(b *strings.Builder) {
	times := ""
	if c.Times > 1 {
		times = fmt.Sprintf(" %d times", c.Times)
	}
	if c.Kind == "resource" {
		fmt.Fprintf(b, "%s: resource %q changed%s\n", line(c.Server), line(c.URI), times)
		for l := range strings.Lines(c.Diff) {
			b.WriteString("    " + strings.TrimSuffix(l, "\n") + "\n")
		}
		if c.DiffCut {
			b.WriteString("    … read the resource for the rest\n")
		}
		return
	}
	fmt.Fprintf(b, "%s: list of %s changed%s", line(c.Server), c.Kind, times)
	for _, part := range []struct {
		what  string
		names []string
	}{{"added", c.Added}, {"removed", c.Removed}, {"changed", c.Changed}} {
		for i, name := range part.names {
			if i == 0 {
				b.WriteString("; " + part.what)
			}
			fmt.Fprintf(b, " %q", line(name))
		}
	}
	if c.More > 0 {
		fmt.Fprintf(b, "; %d more", c.More)
	}
	b.WriteByte('\n')
}
