package lock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/observe"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/table"
)

type lockOptions struct {
	workFlags
	servers []string
	update  bool
	classes []string // names of --class, then ids
}

// Command returns the command lock.
func Command(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts lockOptions
	cmd := &cobra.Command{
		Use:         "lock [SERVER...]",
		Short:       "Write what servers offer into mcptrack.lock",
		Annotations: cli.ManualPage("lock"),
		Example: `  mcptrack lock
  mcptrack lock docs
  mcptrack lock --update --class wording,title`,
		ValidArgsFunction: cli.CompleteServerArgs(env, g),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			opts.servers = args
			if len(opts.classes) > 0 && !opts.update {
				return cli.UsageHint("add --update", "--class needs --update")
			}
			if opts.classes, err = classIDs("class", opts.classes); err != nil {
				return err
			}
			return opts.Run(cmd, func(ctx context.Context) error { return runLock(ctx, env, g, opts) })
		},
	}
	opts.add(cmd)
	f := cmd.Flags()
	f.BoolVar(&opts.update, "update", false, "approve all changes except rejected ones")
	addClasses(cmd, &opts.classes, "class", "only changes whose classes are all in this list of `CLASS,...`")
	cli.MainFlags(cmd, "update", "class", "lock", "timeout", "json")
	return cmd
}

// outcome is what lock did for one server, as JSON.
type outcome struct {
	ID     string        `json:"id"`
	Result string        `json:"result"` // added, same, updated, changed, failed or removed
	Items  int           `json:"items"`  // in the lock now
	Taken  []lock.Change `json:"taken"`  // changes that were taken over
	Left   []lock.Change `json:"left"`   // changes that were not
	// Unstable names the items of a server that was added which a second session did not offer alike.
	Unstable []string `json:"unstable,omitempty"`
	Error    string   `json:"error,omitempty"`
}

func runLock(ctx context.Context, env *cli.Env, g *cli.Globals, opts lockOptions) error {
	w, err := opts.open(ctx, env, g, opts.servers)
	if err != nil {
		return err
	}
	results, was, err := w.observe(ctx, true)
	if err != nil {
		return err
	}
	unstable := w.unstable(ctx, results, was)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var outcomes []outcome
	err = lock.Update(ctx, w.path, func(l *lock.Lock) error {
		if !slices.Equal(l.Hashing.Exclude, was.Hashing.Exclude) {
			return fmt.Errorf("%s was changed meanwhile; try again", printable.Line(w.path, 200))
		}
		outcomes = nil
		for _, r := range results {
			out := opts.take(l, r)
			out.Unstable = unstable[out.ID]
			outcomes = append(outcomes, out)
		}
		if opts.update && len(opts.servers) == 0 && len(opts.classes) == 0 {
			outcomes = append(outcomes, w.removeUnknown(l)...)
		}
		return nil
	})
	if err != nil {
		return invalid(err)
	}
	if err := writeOutcomes(w, outcomes); err != nil {
		return err
	}
	var left []lock.Change
	for _, o := range outcomes {
		left = append(left, o.Left...)
	}
	return finish(left, advice(left), failed(results), len(results))
}

// unstable lists the servers that are not in the lock once more, and returns by server the items that
// differ from what it offered before. The user should know of them before the lock is in use, because they
// are changes whenever the server starts.
func (w *work) unstable(ctx context.Context, results []observe.Result, l *lock.Lock) map[string][]string {
	var added []config.Server
	before := map[string]*lock.Server{}
	for _, r := range results {
		if r.Err == nil && l.Servers[r.Server.ID] == nil {
			added = append(added, r.Server)
			before[r.Server.ID] = lock.NewServer(r.Offered)
		}
	}
	unstable := map[string][]string{}
	for _, r := range w.list(ctx, added, l) {
		id := r.Server.ID // if it does not answer now, there is nothing to compare
		for _, d := range lock.Compare(before[id], r.Offered) {
			if d.New.Problem == "" { // otherwise, it is not in the lock
				unstable[id] = append(unstable[id], d.Name())
			}
		}
		unstable[id] = slices.Compact(unstable[id])
	}
	return unstable
}

// take brings one server of the lock up to date.
func (o lockOptions) take(l *lock.Lock, r observe.Result) outcome {
	id := r.Server.ID
	out := outcome{ID: id, Result: "same", Taken: []lock.Change{}, Left: []lock.Change{}}
	s := l.Servers[id]
	if r.Err != nil {
		out.Result, out.Error = "failed", r.Err.Error()
		if s != nil {
			out.Items = items(s)
		}
		return out
	}
	if s == nil {
		out.Result = "added"
		s = lock.NewServer(r.Offered)
		out.Left = changesOf(id, lock.Compare(s, r.Offered))
		s.Policy = r.Server.Lock.Weaker()
		l.Servers[id] = s
	} else if found := drifts(s, r); !o.update {
		out.Left = changesOf(id, found)
	} else {
		chosen := slices.DeleteFunc(slices.Clone(found), func(d lock.Drift) bool { return d.Rejected })
		refused := changesOf(id, s.Take(chosen, o.classes...))
		out.Taken = without(changesOf(id, chosen), refused)
		out.Left = without(changesOf(id, found), out.Taken)
		if len(out.Left) == 0 {
			maps.Copy(s.Items, lock.NewServer(r.Offered).Items) // without other definitions of the same items
		}
	}
	s.Policy = r.Server.Lock.Within(s.Policy).Weaker() // what became stricter needs no approval
	out.Items = items(s)
	switch {
	case len(out.Taken) > 0:
		out.Result = "updated"
	case len(out.Left) > 0 && out.Result == "same":
		out.Result = "changed"
	}
	return out
}

// removeUnknown removes the servers that the config does not have.
func (w *work) removeUnknown(l *lock.Lock) (removed []outcome) {
	for _, id := range slices.Sorted(maps.Keys(l.Servers)) {
		if _, known := w.cfg.Server(id); !known {
			delete(l.Servers, id)
			removed = append(removed, outcome{ID: id, Result: "removed", Taken: []lock.Change{}, Left: []lock.Change{}})
		}
	}
	return removed
}

func writeOutcomes(w *work, outcomes []outcome) error {
	doc := struct {
		File    string    `json:"file"`
		Servers []outcome `json:"servers"`
	}{w.path, append([]outcome{}, outcomes...)}
	return w.g.Print(w.env, table.Output{Document: doc, Parts: []table.Part{table.Records(doc.Servers, func(o outcome) []string {
		var parts []string
		if len(o.Taken) > 0 {
			parts = append(parts, "taken over: "+counted(o.Taken))
		}
		if len(o.Left) > 0 {
			parts = append(parts, "not approved: "+counted(o.Left))
		}
		if why := unapprovable(o.Left); why != "" {
			parts = append(parts, why)
		}
		if len(o.Unstable) > 0 {
			parts = append(parts, "differs from session to session: "+printable.Line(cli.Join(o.Unstable, 5), 300))
		}
		return []string{o.ID, o.Result, strconv.Itoa(o.Items), strings.Join(parts, "; "), o.Error}
	}, "Server", "Lock", "Items", "Changes", "Error").Or("%s", cli.NoServers(w.cfg))}})
}
