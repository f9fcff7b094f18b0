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
	"github.com/mcptrack/mcptrack/output/table"
)

// A decision approves or rejects changes without a question.
type decision struct {
	approve bool
	targets []string // SERVER or SERVER:ITEM each
	classes []string // ids; if there are any, only changes of no other class are meant
}

// ApproveCommand returns the command approve, the older name of review --approve.
func ApproveCommand(env *cli.Env, g *cli.Globals) *cobra.Command {
	return decideCommand(env, g, "approve", true)
}

// RejectCommand returns the command reject, the older name of review --reject.
func RejectCommand(env *cli.Env, g *cli.Globals) *cobra.Command {
	return decideCommand(env, g, "reject", false)
}

func decideCommand(env *cli.Env, g *cli.Globals, name string, approve bool) *cobra.Command {
	var flags workFlags
	d := decision{approve: approve}
	cmd := &cobra.Command{
		Use:               name + " SERVER[:ITEM]...",
		Short:             "The same as review --" + name,
		Args:              cli.Args(1, -1),
		ValidArgsFunction: cli.CompleteServerArgs(env, g),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			d.targets = args
			if d.classes, err = classIDs("class", d.classes); err != nil {
				return err
			}
			return flags.Run(cmd, func(ctx context.Context) error { return d.run(ctx, env, g, flags) })
		},
	}
	flags.add(cmd)
	addClasses(cmd, &d.classes, "class", "only changes whose classes are all in this list of `CLASS,...`")
	return cmd
}

// target is an argument: a server, or one item of it.
type target struct{ server, item string }

// newTarget returns the target that an argument means. A server's id may contain a colon.
func newTarget(cfg *config.Config, arg string) target {
	if _, known := cfg.Server(arg); known {
		return target{server: arg}
	}
	server, item, _ := strings.Cut(arg, ":")
	for i, c := range arg {
		if _, known := cfg.Server(arg[:i]); c == ':' && known {
			server, item = arg[:i], arg[i+1:]
		}
	}
	return target{server, item}
}

// means reports whether a target means a change. What was rejected must be named.
func (t target) means(c lock.Change) bool {
	if t.item == "" {
		return t.server == c.ServerID && !c.Rejected
	}
	return t.server == c.ServerID && (t.item == c.Item || t.item == printable.Line(c.Item, 0))
}

func (d decision) run(ctx context.Context, env *cli.Env, g *cli.Globals, flags workFlags) error {
	cfg, err := g.Read(env, g.Logger(env))
	if err != nil {
		return err
	}
	var targets []target
	var ids []string
	for _, arg := range d.targets {
		t := newTarget(cfg, arg)
		if _, known := cfg.Server(t.server); !known && t.item == "" && strings.Contains(arg, "/") {
			return cli.UsageHint("write SERVER:"+printable.Line(arg, 128), "%q does not name its server", printable.Line(arg, 128))
		}
		targets, ids = append(targets, t), append(ids, t.server)
	}
	w, err := flags.open(ctx, env, g, ids)
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
	var chosen []lock.Change
	for _, t := range targets {
		these, err := d.choose(t, found)
		if err != nil {
			return err
		}
		chosen = append(chosen, without(these, chosen)...)
	}
	left, err := w.decide(ctx, chosen, d.approve)
	if err != nil {
		return err
	}
	if err := d.write(w, without(chosen, left), left); err != nil {
		return err
	}
	return finish(left, advice(left), nil, 0)
}

// choose returns the changes that a target means.
func (d decision) choose(t target, found []lock.Change) (chosen []lock.Change, err error) {
	var items []string // that have changed of the server
	for _, c := range found {
		if c.ServerID != t.server {
			continue
		}
		if c.Item == "" {
			return nil, &cli.Failure{Exit: cli.ExitRefused, Code: "not_locked", Err: fmt.Errorf("the lock does not have the server %q", printable.Line(t.server, 128)),
				Hint: "mcptrack lock " + printable.Shell(t.server) + " adds it"}
		}
		items = append(items, c.Item)
		if t.means(c) && (len(d.classes) == 0 || !slices.ContainsFunc(c.Drift.Classes, func(id string) bool { return !slices.Contains(d.classes, id) })) {
			chosen = append(chosen, c)
		}
	}
	if t.item != "" && len(chosen) == 0 {
		return nil, &cli.Failure{Exit: cli.ExitRefused, Code: "no_change", Err: fmt.Errorf("%s:%s has no such change", printable.Line(t.server, 128), printable.Line(t.item, 128)),
			Hint: cli.DidYouMean(t.item, items, "mcptrack review "+printable.Shell(t.server)+" shows what has changed")}
	}
	return chosen, nil
}

func (d decision) write(w *work, done, left []lock.Change) error {
	result := "approved"
	if !d.approve {
		result = "rejected"
	}
	doc := struct {
		Result string        `json:"result"` // approved or rejected
		Items  []lock.Change `json:"items"`
		Left   []lock.Change `json:"left"` // that could not be approved
	}{result, append([]lock.Change{}, done...), append([]lock.Change{}, left...)}
	out := table.Output{Document: doc, Names: names(done), Parts: []table.Part{table.Text("no changes")}}
	if len(done) > 0 {
		out.Parts = []table.Part{table.Records(done, func(c lock.Change) []string {
			c.Rejected = false // it was until now, or the result says it
			return []string{c.ServerID, c.Item, result, strings.Join(c.Classes, ", "), what(c)}
		}, "Server", "Item", "Result", "Class", "Change")}
	}
	return w.g.Print(w.env, out)
}
