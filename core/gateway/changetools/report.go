package changetools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	// MaxChanges is the maximum number of changes in a result.
	MaxChanges = 50

	maxEntries = 10_000         // maximum number of log entries read per call
	batchSize  = 1000           // number of log entries read per step
	maxNames   = 50             // maximum number of names in each of added, removed and changed
	firstSpan  = 24 * time.Hour // how far back a call without a cursor starts
	// settle is how long a wait continues after the first change, so that related changes are
	// returned in the same result.
	settle = 250 * time.Millisecond
)

// report is the structured content of a tool result.
type report struct {
	Changes   []*change `json:"changes"`
	Cursor    string    `json:"cursor"`
	HasMore   bool      `json:"hasMore"`
	Truncated bool      `json:"truncated"`
}

// change describes how a resource or a list changed, merged from all its events.
type change struct {
	Kind    string   `json:"kind"`
	Server  string   `json:"server"`
	URI     string   `json:"uri,omitempty"`
	Times   int      `json:"times"`
	At      string   `json:"at"`
	Diff    string   `json:"diff,omitempty"`
	DiffCut bool     `json:"diffCut,omitempty"`
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
	More    int      `json:"more,omitempty"`

	server, uri string // at which the log has it

	from, to catalog.Digest // content before the first and after the last event; zero if unknown
}

// reportBuilder builds the result for one call.
type reportBuilder struct {
	report
	reader *mcpevents.Reader
	match  func(*mcpevents.Occurrence) bool // reports whether an event is included
	at     mcpevents.Position               // position of the last log entry that was read
	byKey  map[[3]string]*change            // changes by event type, server, and URI or list
}

// begin returns an empty result at the log position where the call starts to read.
func (t *Tools) begin(ctx context.Context, args arguments) (*reportBuilder, error) {
	g := &reportBuilder{reader: t.opts.Reader, match: matcher(args), byKey: map[[3]string]*change{}}
	g.Changes = []*change{}
	var err error
	if args.Cursor == nil {
		g.at, err = t.opts.Reader.Since(ctx, time.Now().Add(-firstSpan))
		return g, err
	}
	g.at, g.Truncated, err = t.opts.Reader.Start(ctx, args.Cursor, 0, 0)
	return g, err
}

// matcher returns a function that selects the events to report: new contents and changed lists.
func matcher(args arguments) func(*mcpevents.Occurrence) bool {
	filter := func(name string, members map[string]string) func(*mcpevents.Occurrence) bool {
		for member, glob := range members {
			if glob == "" {
				delete(members, member)
			}
		}
		raw, _ := json.Marshal(members)
		f, _, err := mcpevents.ParseFilter(name, raw)
		if err != nil { // the globs have already been validated
			return func(*mcpevents.Occurrence) bool { return false }
		}
		return f.Matches
	}
	updated := filter(mcpevents.ResourceUpdated, map[string]string{"server": args.Server, "uri": args.URI})
	if args.URI != "" {
		return updated
	}
	listed := filter(mcpevents.ListChanged, map[string]string{"server": args.Server})
	return func(o *mcpevents.Occurrence) bool { return updated(o) || listed(o) }
}

// read reads the log from g.at to its end, or until the result is full. At the end of the log, it
// returns a channel that is closed when there may be more entries; otherwise it returns nil.
func (g *reportBuilder) read(ctx context.Context) (moved <-chan struct{}, err error) {
	for looked := 0; ; {
		if looked >= maxEntries {
			g.HasMore = true
			return nil, nil
		}
		before := g.at.Seq
		b, moved, err := g.reader.Look(ctx, g.at, g.match, batchSize)
		if err != nil {
			if len(g.Changes) > 0 {
				g.HasMore = true // return the changes read so far
				return nil, nil
			}
			return nil, err
		}
		if b.At == g.at && !b.Truncated {
			return moved, nil
		}
		g.Truncated = g.Truncated || b.Truncated
		for _, o := range b.Occurrences {
			if !g.add(o) {
				g.at.Seq, g.HasMore = o.Seq-1, true
				return nil, nil
			}
			g.at.Seq = o.Seq
		}
		looked += int(b.At.Seq - min(before, b.At.Seq))
		g.at = b.At
	}
}

// await reads the log until there are changes to return, the wait times out or ctx ends.
func (g *reportBuilder) await(ctx context.Context, r *mcpserver.Request, wait time.Duration) error {
	began := time.Now()
	over := time.NewTimer(wait)
	defer over.Stop()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	var settled <-chan time.Time // nil until the first change
	for {
		moved, err := g.read(ctx)
		switch {
		case err != nil:
			return err
		case g.HasMore && len(g.Changes) == 0 && ctx.Err() == nil && time.Since(began) < wait: // maxEntries entries contained no change
			g.HasMore = false
			continue
		case g.HasMore || g.Truncated:
			return nil
		case len(g.Changes) > 0 && settled == nil:
			settled = time.After(settle)
		}
		select {
		case <-moved:
		case <-settled:
			return nil
		case <-over.C:
			return nil
		case <-tick.C:
			r.Progress(float64(time.Since(began).Milliseconds()), float64(wait.Milliseconds()), "nothing changed yet")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// add merges an event into the changes. It returns false if that would exceed MaxChanges.
func (g *reportBuilder) add(o *mcpevents.Occurrence) bool {
	var data struct {
		Server, URI, List      string
		Digest, PreviousDigest catalog.Digest
	}
	var names struct {
		Added, Removed, Changed []string
		More                    map[string]int
	}
	err := json.Unmarshal(o.Data(), &data)
	if o.Name == mcpevents.ListChanged {
		err = errors.Join(err, json.Unmarshal(o.Data(), &names))
	}
	if err != nil {
		return true // cannot happen, because mcptrack itself encoded the event
	}
	key := [3]string{o.Name, data.Server, data.URI + data.List}
	c := g.byKey[key]
	if c == nil {
		if len(g.Changes) == MaxChanges {
			return false
		}
		c = &change{Kind: "resource", Server: data.Server, URI: data.URI, server: o.Server, uri: o.URI(), from: data.PreviousDigest}
		if o.Name == mcpevents.ListChanged {
			c.Kind = data.List
		}
		g.byKey[key] = c
		g.Changes = append(g.Changes, c)
	}
	c.Times++
	c.At = o.Time.UTC().Format(event.TimeFormat)
	c.to = data.Digest
	now := event.ListChanged{Added: c.Added, Removed: c.Removed, Changed: c.Changed}.Then(event.ListChanged{Added: names.Added, Removed: names.Removed, Changed: names.Changed})
	c.Added, c.Removed, c.Changed = now.Added, now.Removed, now.Changed
	for _, n := range names.More {
		c.More += n
	}
	for _, names := range []*[]string{&c.Added, &c.Removed, &c.Changed} {
		if extra := len(*names) - maxNames; extra > 0 {
			c.More += extra
			*names = (*names)[:maxNames]
		}
	}
	return true
}

// line returns a name or URI in the form used in [reportBuilder.text]: printable and truncated.
func line(s string) string { return printable.Line(s, 300) }

// Maximum sizes of diffs, in bytes.
const (
	maxDiff  = 4 << 10  // for one change
	maxDiffs = 24 << 10 // for one result
)

// addDiffs adds diffs to the changes of resources whose texts are stored, until maxDiffs is
// reached. r is the call.
func (g *reportBuilder) addDiffs(ctx context.Context, opts Options, r *mcpserver.Request) {
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
		if opts.Readable != nil && !opts.Readable(ctx, r, c.server, c.uri) {
			continue
		}
		c.Diff = printable.Lines(opts.Diff(c.URI, from, to))
		c.Diff, c.DiffCut = cut(c.Diff, min(maxDiff, room))
		room -= len(c.Diff)
	}
}

// cut returns as many complete lines of a text as fit into limit bytes.
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

// result returns the MCP tool result: the report as structured content and as text.
func (g *reportBuilder) result() json.RawMessage {
	g.Cursor = g.at.Cursor()
	return encode(toolResult{Content: []textContent{{"text", g.text()}}, Structured: &g.report})
}

// text returns the report in human-readable form.
func (g *reportBuilder) text() string {
	var b strings.Builder
	if g.Truncated {
		b.WriteString("Earlier changes are no longer stored: read important resources again.\n")
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
