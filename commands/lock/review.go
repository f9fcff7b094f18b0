package lock

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/diff"
)

// ReviewCommand returns the command review.
func ReviewCommand(env *cli.Env, g *cli.Globals) *cobra.Command {
	var flags workFlags
	var approve, reject, classes []string
	cmd := &cobra.Command{
		Use:         "review [SERVER]",
		Short:       "Show unapproved changes, and ask about each",
		Annotations: cli.ManualPage("review"),
		Example: `  mcptrack review
  mcptrack review docs --json
  mcptrack review --approve docs:tool/search
  mcptrack review --approve docs --class wording,title`,
		Args:              cli.Args(0, 1),
		ValidArgsFunction: cli.CompleteServerArgs(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			ids, err := classIDs("class", classes)
			decides := len(approve)+len(reject) > 0
			switch {
			case err != nil:
				return err
			case len(approve) > 0 && len(reject) > 0:
				return cli.Usage("--approve and --reject cannot be used together")
			case decides && len(args) > 0:
				return cli.UsageHint("write SERVER or SERVER:ITEM after --approve or --reject", "unexpected argument %q", printable.Line(args[0], 60))
			case len(ids) > 0 && !decides:
				return cli.Usage("--class needs --approve or --reject")
			}
			return flags.Run(cmd, func(ctx context.Context) error {
				if decides {
					return decision{len(approve) > 0, append(approve, reject...), ids}.run(ctx, env, g, flags)
				}
				return runReview(ctx, env, g, flags, args)
			})
		},
	}
	flags.add(cmd)
	for flag, value := range map[string]*[]string{"approve": &approve, "reject": &reject} {
		cmd.Flags().StringArrayVar(value, flag, nil, flag+" `ITEM`: SERVER:tool/NAME, SERVER:launch, or SERVER for all its changes (repeatable)")
		_ = cmd.RegisterFlagCompletionFunc(flag, cli.CompleteServerArgs(env, g))
	}
	addClasses(cmd, &classes, "class", "only changes whose classes are all in this list of `CLASS,...`")
	cli.MainFlags(cmd, "approve", "reject", "class", "lock", "json")
	return cmd
}

// shown is a change with everything that a reviewer needs, as JSON.
type shown struct {
	lock.Change
	Diff string `json:"diff,omitempty"`
	// Unshown says what Diff does not have of the definition. Only review --approve with the name of the
	// item approves such a change.
	Unshown string `json:"unshown,omitempty"`
}

func runReview(ctx context.Context, env *cli.Env, g *cli.Globals, flags workFlags, servers []string) error {
	w, err := flags.open(ctx, env, g, servers)
	if err != nil {
		return err
	}
	left, missed, err := w.changes(ctx)
	if err != nil {
		return err
	}
	sort.SliceStable(left, func(i, j int) bool { return left[i].Severity.Rank() < left[j].Severity.Rank() })
	all := []shown{}
	for _, c := range left {
		all = append(all, shown{c, c.Drift.Diff(), c.Drift.Unshown()})
	}
	if g.Format.Table() && env.OutTTY && env.Terminal != nil && len(all) > 0 {
		left, err = w.ask(ctx, all)
	} else {
		err = w.writeReview(all, names(left))
	}
	if err != nil {
		return err
	}
	hint := "mcptrack review --approve SERVER:ITEM approves one of them"
	approvable := slices.DeleteFunc(slices.Clone(left), func(c lock.Change) bool { return c.Problem != "" || c.Item == "" })
	switch len(approvable) {
	case 0:
		hint = advice(left)
	case 1:
		hint = approval(approvable[0]) + " approves it"
	}
	return finish(left, hint, missed, len(w.servers))
}

// changes asks the selected servers, and returns the changes of those that are in the lock. missed has
// "server: reason" for each server that could not be listed.
func (w *work) changes(ctx context.Context) (all []lock.Change, missed []string, err error) {
	results, l, err := w.observe(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range results {
		switch s := l.Servers[r.Server.ID]; {
		case s != nil:
			all = append(all, changesOf(r.Server.ID, drifts(s, r))...)
		case r.Err == nil:
			all = append(all, lock.NotLocked(r.Server.ID))
		}
	}
	return all, failed(results), nil
}

// text returns the change for people: a title, the reasons, and the difference.
func (s shown) text() string {
	var b strings.Builder
	statement := notLocked
	if s.Item != "" {
		statement = s.Item + " changed: " + strings.Join(s.Classes, ", ") // as in the event lock.drift
	}
	b.WriteString(printable.Line(s.ServerID+": "+statement, 0) + "\n")
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
		b.WriteString("  only " + approval(s.Change) + " approves it\n")
	case s.Diff == "":
		b.WriteString("  the definitions differ only in their form\n")
	}
	return b.String()
}

// writeReview prints the changes without asking.
func (w *work) writeReview(all []shown, lines []string) error {
	doc := struct {
		Items []shown `json:"items"`
	}{all}
	colours := w.g.Colours(w.env, w.env.OutTTY)
	return w.g.Write(w.env.Out, lines, doc, func() error {
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
func (w *work) ask(ctx context.Context, all []shown) (left []lock.Change, err error) {
	for i, s := range all {
		if s.Item == "" || s.Problem != "" {
			if _, err := fmt.Fprintln(w.env.Out, s.text()+s.Diff); err != nil {
				return nil, err
			}
			left = append(left, s.Change)
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
		decided := []lock.Change{s.Change}
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
				left = append(left, rest.Change)
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
func (w *work) decide(ctx context.Context, changes []lock.Change, approve bool) ([]lock.Change, error) {
	left, _, err := lock.Decide(ctx, w.path, approve, changes)
	return left, invalid(err)
}
