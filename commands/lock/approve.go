package lock

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
)

type decideOptions struct {
	workFlags
	targets []string
	approve bool
	classes []string // names of --class, then ids
}

// ApproveCommand returns the command approve.
func ApproveCommand(env *cli.Env, g *cli.Globals) *cobra.Command {
	return decideCommand(env, g, true, &cobra.Command{
		Use:   "approve SERVER[:ITEM]...",
		Short: "Approve what has changed of a server",
		Example: `  mcptrack approve docs:tool/search
  mcptrack approve docs --class wording,title
  mcptrack approve docs:instructions mail`,
	})
}

// RejectCommand returns the command reject.
func RejectCommand(env *cli.Env, g *cli.Globals) *cobra.Command {
	return decideCommand(env, g, false, &cobra.Command{
		Use:   "reject SERVER[:ITEM]...",
		Short: "Mark what has changed of a server as rejected",
		Example: `  mcptrack reject docs:tool/search
  mcptrack reject docs --class suspicious`,
	})
}

func decideCommand(env *cli.Env, g *cli.Globals, approve bool, cmd *cobra.Command) *cobra.Command {
	opts := decideOptions{approve: approve}
	cmd.Annotations = cli.ManualPage("lock")
	cmd.Args = cli.Args(1, -1)
	cmd.ValidArgsFunction = cli.CompleteServerArgs(env, g)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		opts.targets = args
		if opts.classes, err = classIDs("class", opts.classes); err != nil {
			return err
		}
		return opts.Run(cmd, func(ctx context.Context) error { return runDecide(ctx, env, g, opts) })
	}
	opts.add(cmd)
	addClasses(cmd, &opts.classes, "class", "only changes whose classes are all in this list of `CLASS,...`")
	return cmd
}

// target is an argument: a server, or one item of it.
type target struct{ server, item string }

// targets returns the targets that arguments mean. A server's id may contain a colon.
func targets(cfg *config.Config, args []string) (all []target) {
	for _, arg := range args {
		t := target{server: arg}
		if _, known := cfg.Server(arg); !known {
			t.server, t.item, _ = strings.Cut(arg, ":") // for the error
			for i, c := range arg {
				if _, known := cfg.Server(arg[:i]); c == ':' && known {
					t = target{arg[:i], arg[i+1:]}
				}
			}
		}
		all = append(all, t)
	}
	return all
}

// matches reports whether a target means a change. An item may be given by its name, such as
// tool/search or tool:search, or by its key alone.
func (t target) matches(c change) bool {
	section, key, named := lock.ParseName(t.item)
	return t.server == c.ServerID && (t.item == "" || named && section == c.Drift.Section && key == c.Drift.Key || t.item == printable.Line(c.Item, 0) || t.item == c.Drift.Key)
}

func runDecide(ctx context.Context, env *cli.Env, g *cli.Globals, opts decideOptions) error {
	cfg, err := g.Read(env, g.Logger(env))
	if err != nil {
		return err
	}
	wanted := targets(cfg, opts.targets)
	var ids []string
	for _, t := range wanted {
		ids = append(ids, t.server)
	}
	w, err := opts.open(ctx, env, g, ids)
	if err != nil {
		return err
	}
	found, missed, err := w.changes(ctx)
	if err != nil {
		return err
	}
	if err := cli.NotReached(missed, len(w.servers), false); err != nil {
		return err
	}
	var chosen []change
	for _, t := range wanted {
		these, err := opts.choose(t, found)
		if err != nil {
			return err
		}
		for _, c := range these {
			if !slices.ContainsFunc(chosen, func(other change) bool { return other.name() == c.name() && other.Now == c.Now && other.Was == c.Was }) {
				chosen = append(chosen, c)
			}
		}
	}
	left, err := w.decide(ctx, chosen, opts.approve)
	if err != nil {
		return err
	}
	if err := opts.write(w, chosen, left); err != nil {
		return err
	}
	return finish(left, advice(left, "mcptrack review shows them"), nil, 0)
}

// choose returns the changes that a target means.
func (o decideOptions) choose(t target, found []change) (chosen []change, err error) {
	var names []string // of the server's changes
	var sections []string
	for _, c := range found {
		if c.ServerID != t.server {
			continue
		}
		if c.Item == "" {
			return nil, &cli.Failure{Exit: cli.ExitRefused, Code: "not_locked", Err: fmt.Errorf("the lock does not have the server %q", printable.Line(t.server, 128)),
				Hint: "mcptrack lock " + printable.Shell(t.server) + " adds it"}
		}
		names = append(names, c.Item)
		if !t.matches(c) || !o.selects(c) {
			continue
		}
		if t.item == "" && c.Rejected {
			continue // named items can be approved all the same
		}
		chosen, sections = append(chosen, c), append(sections, string(c.Drift.Section))
	}
	slices.Sort(sections)
	switch {
	case t.item != "" && len(slices.Compact(sections)) > 1:
		return nil, cli.UsageHint("write "+printable.Line(chosen[0].name(), 200)+" or "+printable.Line(chosen[1].name(), 200), "%q may be one of several items", printable.Line(t.item, 128))
	case t.item != "" && len(chosen) == 0:
		hint := "mcptrack review " + printable.Shell(t.server) + " shows what has changed"
		if kind, _, ok := strings.Cut(t.item, "/"); ok && !strings.HasSuffix(kind, ":") && !slices.Contains(lock.Kinds(), kind) {
			hint = fmt.Sprintf("%q is not a kind of item; the kinds are %s", printable.Line(kind, 64), strings.Join(lock.Kinds(), ", "))
		}
		return nil, &cli.Failure{Exit: cli.ExitRefused, Code: "no_change", Err: fmt.Errorf("%s: %s has no such change", printable.Line(t.server, 128), printable.Line(t.item, 128)),
			Hint: cli.DidYouMean(t.item, names, hint)}
	}
	return chosen, nil
}

// selects reports whether --class selects a change.
func (o decideOptions) selects(c change) bool {
	return len(o.classes) == 0 || !slices.ContainsFunc(c.Drift.Classes, func(id string) bool { return !slices.Contains(o.classes, id) })
}

func (o decideOptions) write(w *work, chosen, left []change) error {
	word := "approved"
	if !o.approve {
		word = "rejected"
	}
	done := []change{}
	var names []string
	var table [][]string
	for _, c := range chosen {
		if slices.ContainsFunc(left, func(l change) bool { return l.name() == c.name() && l.Now == c.Now && l.Was == c.Was }) {
			continue
		}
		done, names = append(done, c), append(names, c.name())
		what := c
		what.Rejected = false // it was until now, or the result says it
		table = append(table, []string{c.ServerID, c.Item, word, strings.Join(c.Classes, ", "), what.what()})
	}
	doc := struct {
		Result string   `json:"result"` // approved or rejected
		Items  []change `json:"items"`
		Left   []change `json:"left"` // that could not be approved
	}{word, done, append([]change{}, left...)}
	return w.g.Write(w.env.Out, names, doc, func() error {
		if len(table) == 0 {
			_, err := fmt.Fprintln(w.env.Out, "no changes")
			return err
		}
		return w.g.Tables(w.env).Rows(w.env.Out, []string{"Server", "Item", "Result", "Class", "Change"}, table)
	})
}
