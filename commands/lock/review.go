package lock

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/diff"
)

type reviewOptions struct {
	workFlags
	cli.JournalFlags
	servers []string
}

// ReviewCommand returns the command review.
func ReviewCommand(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts reviewOptions
	cmd := &cobra.Command{
		Use:         "review [SERVER]",
		Short:       "Show what has changed since it was approved, and ask",
		Annotations: cli.ManualPage("lock"),
		Example: `  mcptrack review
  mcptrack review docs
  mcptrack review docs --json`,
		Args:              cli.Args(0, 1),
		ValidArgsFunction: cli.CompleteServerArgs(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.servers = args
			return opts.Run(cmd, func(ctx context.Context) error { return runReview(ctx, env, g, opts) })
		},
	}
	opts.workFlags.add(cmd)
	opts.JournalFlags.Add(cmd)
	return cmd
}

// shown is a change with everything that a reviewer needs, as JSON.
type shown struct {
	change
	Seen string `json:"seen,omitempty"` // when it changed, by the log
	Diff string `json:"diff,omitempty"`
	// Unshown says what Diff does not have of the definition. Only approve with the name of the item
	// approves such a change.
	Unshown string `json:"unshown,omitempty"`
	seen    time.Time
}

func runReview(ctx context.Context, env *cli.Env, g *cli.Globals, opts reviewOptions) error {
	w, err := opts.open(ctx, env, g, opts.servers)
	if err != nil {
		return err
	}
	changes, missed, err := w.changes(ctx)
	if err != nil {
		return err
	}
	all, err := opts.newestFirst(ctx, w, changes)
	if err != nil {
		return err
	}
	var left []change
	if g.Format.Table() && env.OutTTY && env.Terminal != nil && len(all) > 0 {
		left, err = w.ask(ctx, all)
	} else {
		left, err = changes, w.writeReview(all)
	}
	if err != nil {
		return err
	}
	hint := "mcptrack approve SERVER:ITEM approves one of them"
	approvable := slices.DeleteFunc(slices.Clone(left), func(c change) bool { return c.Problem != "" })
	switch {
	case len(approvable) == 0:
		hint = beyondApproval
	case len(approvable) == 1 && approvable[0].Item != "":
		hint = approvable[0].approval() + " approves it"
		if len(left) > 1 {
			hint = approvable[0].approval() + " approves the only one that can be approved"
		}
	}
	return finish(left, hint, missed, len(w.servers))
}

// changes asks the selected servers, and returns the changes of those that are in the lock. missed has
// "server: reason" for each server that could not be listed.
func (w *work) changes(ctx context.Context) (all []change, missed []string, err error) {
	results, l, err := w.observe(ctx, func() (*lock.Lock, error) { return read(w.path) })
	if err != nil {
		return nil, nil, err
	}
	for _, r := range results {
		switch s := l.Servers[r.Server.ID]; {
		case s != nil:
			all = append(all, changesOf(r.Server.ID, drifts(s, r))...)
		case r.Err == nil:
			all = append(all, change{lock.NotLocked(r.Server.ID)})
		}
	}
	return all, failed(results), nil
}

// newestFirst sorts changes by the time at which the log shows what the servers offer now for the first
// time. Changes of what the log knows differently come first: they happened after its last event. Those
// from before its first event come last, as do all if there is no log. Equals are sorted by severity.
func (o reviewOptions) newestFirst(ctx context.Context, w *work, changes []change) ([]shown, error) {
	log, err := o.Existing(ctx, w.env, w.g.Logger(w.env))
	if err != nil {
		return nil, err
	}
	all := make([]shown, len(changes))
	for i, c := range changes {
		all[i] = shown{change: c, Diff: c.Drift.Diff(), Unshown: c.Drift.Unshown()}
	}
	if log != nil {
		defer func() { _ = log.Close() }()
		now := time.Now()
		for _, srv := range w.servers {
			if err := setSeen(ctx, log, srv.ID, all, now); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(all, func(a, b shown) int {
		return cmp.Or(b.seen.Compare(a.seen), a.Severity.Rank()-b.Severity.Rank())
	})
	return all, nil
}

// setSeen sets when the changes of a server happened, by the log; to now if the log has another
// definition. The zero time stays where the log does not tell.
func setSeen(ctx context.Context, log journal.Log, server string, all []shown, now time.Time) error {
	var items []history.Item
	for _, s := range all {
		if s.ServerID == server && s.Item != "" && s.Drift.Section != lock.SectionPolicy {
			items = append(items, history.Item{Section: s.Drift.Section, Key: s.Drift.Key})
		}
	}
	if len(items) == 0 {
		return nil
	}
	states, err := log.States(ctx, server)
	if err != nil {
		return err
	}
	versions, err := history.Definitions(journal.Decoded(log.Select(ctx, journal.Selection{ServerID: server, Own: true})), items,
		func(it history.Item) catalog.Digest { return history.Current(states, server, it) }, maxVersions)
	if err != nil {
		return err
	}
	for i := range all {
		s := &all[i]
		known := versions[history.Item{Section: s.Drift.Section, Key: s.Drift.Key}]
		if s.ServerID != server || len(known) == 0 {
			continue
		}
		last := known[len(known)-1]
		s.seen = last.Timestamp
		if last.Removed != s.Drift.Removed() || !last.Digest.IsZero() && last.Digest != fingerprint(s.Drift.New.Definition) {
			s.seen = now
		}
		s.Seen = cli.Stamp(s.seen)
	}
	return nil
}

// maxVersions limits how many versions of one item are held.
const maxVersions = 10

// fingerprint returns the digest by which the log knows a definition.
func fingerprint(definition json.RawMessage) catalog.Digest {
	d, _ := catalog.Fingerprint(definition) // zero if it is not valid
	return d
}

// text returns the change for people: a title, the reasons, and the difference.
func (s shown) text() string {
	var b strings.Builder
	statement := notLocked
	if s.Item != "" {
		statement = s.Item + " changed: " + strings.Join(s.Classes, ", ") // as in the event lock.drift
	}
	b.WriteString(printable.Line(s.ServerID+": "+statement, 0))
	if s.Seen != "" {
		b.WriteString(", seen " + s.Seen)
	}
	b.WriteString("\n")
	for _, note := range s.Notes() {
		b.WriteString("  " + printable.Line(note, 0) + "\n")
	}
	for _, r := range s.Reasons {
		fmt.Fprintf(&b, "  %s: %s\n", r.Kind, printable.Line(r.Excerpt, 0))
	}
	switch {
	case s.Item == "":
		b.WriteString("  add it with: mcptrack lock " + printable.Shell(s.ServerID) + "\n")
	case s.Unshown != "":
		b.WriteString("  only " + s.approval() + " approves it\n")
	case s.Diff == "":
		b.WriteString("  the definitions differ only in their form\n")
	}
	return b.String()
}

// writeReview prints the changes without asking.
func (w *work) writeReview(all []shown) error {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = s.name()
	}
	doc := struct {
		Items []shown `json:"items"`
	}{append([]shown{}, all...)}
	colours := w.g.Colours(w.env, w.env.OutTTY)
	return w.g.Write(w.env.Out, names, doc, func() error {
		if len(all) == 0 {
			_, err := fmt.Fprintln(w.env.Out, "nothing to review")
			return err
		}
		for i, s := range all {
			text := s.Diff
			if colours {
				text = diff.Colour(text)
			}
			if i > 0 {
				text += "\n"
			}
			if _, err := fmt.Fprint(w.env.Out, s.text()+text); err != nil {
				return err
			}
		}
		return nil
	})
}

// ask asks about each change, and returns those that are not approved. What was answered is stored
// immediately.
func (w *work) ask(ctx context.Context, all []shown) (left []change, err error) {
	for i, s := range all {
		if s.Item == "" || s.Problem != "" {
			if _, err := fmt.Fprintln(w.env.Out, s.text()+s.Diff); err != nil {
				return nil, err
			}
			left = append(left, s.change)
			continue
		}
		question, letters := "approve, reject, skip or quit?", "arsq"
		if s.Unshown != "" { // nobody has seen what would be approved
			question, letters = "reject, skip or quit?", "rsq"
		}
		answer, err := w.env.Choose(ctx, s.text()+s.Diff, fmt.Sprintf("%d of %d: %s", i+1, len(all), question), letters, "rsq")
		if err != nil {
			return nil, err
		}
		decided := []change{s.change}
		result := "skipped"
		switch answer {
		case 'a':
			result = "approved"
			if decided, err = w.decide(ctx, decided, true); len(decided) > 0 {
				result = "not approved, because the lock has changed meanwhile:"
			}
		case 'r':
			result = "rejected"
			_, err = w.decide(ctx, decided, false)
		case 'q':
			for _, rest := range all[i:] {
				left = append(left, rest.change)
			}
			return left, nil
		}
		if err != nil {
			return nil, err
		}
		if _, err := fmt.Fprintf(w.env.Out, "%s %s\n\n", result, printable.Line(s.ServerID+" "+s.Item, 0)); err != nil {
			return nil, err
		}
		left = append(left, decided...)
	}
	return left, nil
}

// decide approves or rejects changes that the user has seen, and returns those that could not be
// approved.
func (w *work) decide(ctx context.Context, changes []change, approve bool) (left []change, err error) {
	chosen := make([]lock.Change, len(changes))
	for i, c := range changes {
		chosen[i] = c.Change
	}
	refused, err := lock.Decide(ctx, w.path, approve, chosen)
	for _, c := range refused {
		left = append(left, change{c})
	}
	return left, invalid(err)
}
