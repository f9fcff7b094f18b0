// Package lock implements the commands that keep what servers offer as it was approved: lock (lock.go),
// verify (verify.go) and review (review.go; decide.go without a question). work.go asks the servers and
// opens the lock for all of them, and changes.go says what has changed in all output formats. The lock
// itself is in core/lock.
package lock

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/lock/observe"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// Manual contains the help pages of this package, as Markdown.
//
//go:embed *.md
var Manual embed.FS

// ClassTable returns a Markdown table with a row for every class of changes.
func ClassTable() string {
	var b strings.Builder
	b.WriteString("| class | severity | meaning |\n|---|---|---|\n")
	for _, c := range lock.Classes() {
		fmt.Fprintf(&b, "| %s `%s` | %s | %s |\n", c.ID, c.Name, c.Severity, c.Text)
	}
	return b.String()
}

// workFlags contains the flags of commands that compare servers with the lock.
type workFlags struct {
	cli.ConnectFlags
	cli.LockFlags
}

func (f *workFlags) add(cmd *cobra.Command) {
	f.ConnectFlags.Add(cmd)
	f.LockFlags.Add(cmd)
}

// work is one run of a command.
type work struct {
	workFlags
	env     *cli.Env
	g       *cli.Globals
	cfg     *config.Config
	path    string          // of the lock
	servers []config.Server // that the user selected
}

// open loads the config and selects servers in it, as SelectServersAndCatalogs does. Of an entry that runs mcptrack
// attach, the server behind it is locked.
func (f workFlags) open(ctx context.Context, env *cli.Env, g *cli.Globals, ids []string) (*work, error) {
	cfg, err := g.Load(ctx, env, g.Logger(env))
	if err != nil {
		return nil, err
	}
	cfg = g.Through(ctx, env, cfg)
	path := f.path(g, cfg)
	if err := cli.CheckLock(g, path); err != nil {
		return nil, err
	}
	servers, err := cli.SelectServersAndCatalogs(cfg, ids)
	return &work{f, env, g, cfg, path, servers}, err
}

// path returns the path of the lock: in the working directory if there is no config file.
func (f workFlags) path(g *cli.Globals, cfg *config.Config) string {
	return cmp.Or(f.LockFlags.Path(g, cfg), guard.FileName)
}

// observe reads the lock (see read) and asks the selected servers what they offer.
func (w *work) observe(ctx context.Context, create bool) ([]observe.Result, *lock.Lock, error) {
	l, err := read(w.path, create)
	if err != nil {
		return nil, nil, err
	}
	results := w.list(ctx, w.servers, l)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	log := w.g.Logger(w.env)
	for _, r := range results {
		for _, problem := range r.Unknown {
			log.Info(problem, "server", r.Server.ID)
		}
	}
	return results, l, nil
}

// list asks servers what they offer, in the form that a lock has.
func (w *work) list(ctx context.Context, servers []config.Server, l *lock.Lock) []observe.Result {
	beside, answered, stop := cli.Asking(w.env, w.g, servers)
	defer stop()
	return observe.Servers(ctx, servers, observe.Options{
		Probe:    session.ProbeOptions{Dial: w.env.Dial, Session: w.SessionOptions(beside, w.g)},
		Progress: answered, Machine: w.env.Machine(),
		Hashing: func() lock.Hashing { return l.Hashing },
		Pinned: func(server string) (uris []string) {
			if s := l.Servers[server]; s != nil {
				for _, it := range s.Items[lock.SectionContents] {
					uris = append(uris, it.Key)
				}
			}
			return uris
		}})
}

// drifts returns what differs from the lock of a server: what it offers, unless it could not be listed,
// and its settings in the config.
func drifts(s *lock.Server, r observe.Result) []lock.Drift {
	return append(lock.Compare(s, r.Offered), s.Weakened(r.Server.Lock.Weaker())...)
}

// read returns the lock in a file. If there is none, it returns an empty lock or, unless create is true, an
// error.
func read(path string, create bool) (*lock.Lock, error) {
	l, err := lock.Read(path)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && create:
		return lock.New(), nil
	case missing:
		return nil, cli.LockMissing(path)
	}
	return l, invalid(err)
}

// invalid returns the failure for a lock that cannot be used.
func invalid(err error) error {
	if _, damaged := errors.AsType[*lock.FileError](err); damaged {
		return &cli.Failure{Exit: cli.ExitConfig, Code: "lock_invalid", Err: err}
	}
	return err
}

// classIDs returns the ids of classes that a flag names.
func classIDs(flag string, names []string) ([]string, error) {
	var ids []string
	for _, name := range cli.SplitList(names) {
		c, ok := lock.FindClass(name)
		if !ok {
			known := classNames()
			return nil, cli.UsageHint(cli.DidYouMean(name, known, "choose from "+cli.Join(known, len(known))), "unknown class %q in --%s", printable.Line(name, 40), flag)
		}
		ids = append(ids, c.ID)
	}
	return ids, nil
}

func classNames() (names []string) {
	for _, c := range lock.Classes() {
		names = append(names, c.Name)
	}
	return names
}

// addClasses adds a flag whose value is a list of classes.
func addClasses(cmd *cobra.Command, value *[]string, flag, usage string) {
	cmd.Flags().StringSliceVar(value, flag, nil, usage)
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(classNames(), cobra.ShellCompDirectiveNoFileComp))
}

// items returns how many items a server has in the lock.
func items(s *lock.Server) (n int) {
	for _, list := range s.Items {
		n += len(list)
	}
	return n
}

// failed returns "server: reason" for each server that could not be listed.
func failed(results []observe.Result) (all []string) {
	for _, r := range results {
		if r.Err != nil {
			all = append(all, fmt.Sprintf("%s: %v", r.Server.ID, r.Err))
		}
	}
	return all
}
