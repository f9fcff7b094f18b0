package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/suggest"
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/table"
)

func newHistory(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts versionFlags
	var last int
	cmd := &cobra.Command{
		Use:   "history SERVER URI|ITEM",
		Short: "Show the versions of a resource or a tool",
		Long: `Shows the versions of a followed resource, newest first: when and how each was detected,
its size and digest, and whether its text is stored, so that diff can compare it. At most
the newest 500 are shown.

` + versionsOfItems + `
Each version has the classes of its change, as mcptrack help lock explains them.

` + versionsFrom + `

Exit codes: 0 done; 1 failed, or nothing is stored; 2 wrong usage; 4 the --url could not
be reached, or did not answer within --timeout; 5 it refused the request; 6 --timeout
expired while the log was read.`,
		Example: `  mcptrack history docs file:///guide.md
  mcptrack history docs file:///guide.md --url http://127.0.0.1:8722 --last 5
  mcptrack history docs tool:search
  mcptrack history docs file:///guide.md --json | jq -r '.[].id'`,
		Args:              cli.Args(2, 2),
		ValidArgsFunction: completeVersioned(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if last < 1 {
				return cli.Usage("invalid --last %d; expected at least 1", last)
			}
			return opts.read(cmd.Context(), env, g, args, func(_ context.Context, _ versionSource, versions []history.Version) error {
				slices.Reverse(versions)
				return writeHistory(env, g, versions[:min(len(versions), last)])
			})
		},
	}
	opts.add(cmd)
	cmd.Flags().IntVar(&last, "last", 50, "show at most this `NUMBER` of versions")
	return cmd
}

func writeHistory(env *cli.Env, g *cli.Globals, versions []history.Version) error {
	var names []string
	var rows [][]string
	head := []string{"ID", "Noticed", "How", "Size", "Digest", "Text"}
	if len(versions) > 0 && versions[0].Item != "" {
		head[3] = "Change"
	}
	for _, v := range versions {
		if v.ID != "" {
			names = append(names, v.ID)
		}
		rows = append(rows, versionRow(env, v, g.Format.Wide()))
	}
	return g.Write(env.Out, names, versions, func() error {
		return table.Rows(env.Out, head, rows)
	})
}

// shortDigest is the number of digest characters that are shown.
const shortDigest = 12

func versionRow(env *cli.Env, v history.Version, wide bool) []string {
	if v.Removed {
		return []string{v.ID, env.Time(v.Timestamp), v.Cause.Words(), changeWord(v), "removed", ""}
	}
	digest := v.Digest.String()
	if short := strings.TrimPrefix(digest, "sha256:"); !wide && len(short) > shortDigest {
		digest = short[:shortDigest]
	}
	row := []string{"-", cmp.Or(env.Time(v.Timestamp), "before the first change"), "", "", digest, "no"}
	if v.ID != "" {
		row[0], row[2], row[3] = v.ID, v.Cause.Words(), changeWord(v)
	}
	if v.Size != nil {
		row[3] = printable.Size(*v.Size)
	}
	if v.Text {
		row[5] = "yes"
	}
	return row
}

// changeWord says what changed with a version of a definition; empty for the content of a resource, and
// for the first known instructions.
func changeWord(v history.Version) string {
	var names []string
	for _, c := range v.Classes {
		names = append(names, c.Name)
	}
	switch {
	case len(names) > 0:
		return strings.Join(names, ", ")
	case v.Item != "" && v.Cause != "":
		return "changed"
	}
	return ""
}

// versionsOfItems is the part of the help of history and diff about definitions.
const versionsOfItems = `tool:NAME, prompt:NAME, template:URITEMPLATE, resource:URI and instructions are the
definitions that the server sent, if it is followed with these lists. tool/NAME is the
same. A URI that begins like one of them is written content:URI, unless :// follows.
skill:URI is the entry of a skill with its list of files. The URI of a file of a skill
has the versions that these lists had; the text of a version is stored when a client
of the daemon, the gateway or the dashboard reads the file.`

// versionsFrom is the part of the help of history and diff that says where versions come from.
const versionsFrom = `Versions come from a running daemon that follows the same config, else from the log
that a serve-sse writes on this machine, else from the serve-sse at
http://127.0.0.1:8722, else from the log that the last one left; -v says which. --url
asks another serve-sse, and --data-dir and --nats read another log.`

// versionFlags contains the flags of history and diff that select a log or a serve-sse.
type versionFlags struct {
	cli.JournalFlags
	cli.RemoteFlags
	timeout time.Duration
	verbose bool
}

func (o *versionFlags) add(cmd *cobra.Command) {
	o.JournalFlags.Add(cmd)
	o.RemoteFlags.Add(cmd)
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "print where the versions come from to stderr")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "`DURATION` that the whole command may take (default 30s with --url, else no limit)")
}

// askTime is the default --timeout with --url.
const askTime = 30 * time.Second

// bound returns a context that ends when --timeout expires.
func (o *versionFlags) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := o.timeout
	if limit == 0 && o.URL != "" {
		limit = askTime
	}
	if limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, cli.ErrTimeout)
}

// read calls show with the versions of a resource or definition, oldest first, and their source. args
// starts with the server and the item.
func (o *versionFlags) read(ctx context.Context, env *cli.Env, g *cli.Globals, args []string, show func(context.Context, versionSource, []history.Version) error) error {
	if o.timeout < 0 {
		return cli.Usage("--timeout must not be negative")
	}
	if o.URL != "" && (o.Dir != "" || o.NATS != "") {
		return cli.Usage("--url cannot be used with --data-dir or --nats")
	}
	it, ok := history.ParseItem(args[1])
	if !ok {
		return cli.UsageHint("choose tool:NAME, prompt:NAME, template:URITEMPLATE, resource:URI or instructions", "no history is stored of the %s of a server", printable.Line(args[1], 40))
	}
	ctx, cancel := o.bound(ctx)
	defer cancel()
	log := g.Logger(env)
	from := func(ctx context.Context, place string, source versionSource) error {
		versions, err := source.versions(ctx)
		if err != nil {
			return err
		}
		if log.Info("reading versions", "from", place); o.verbose {
			fmt.Fprintln(env.Err, "versions from "+place)
		}
		return show(ctx, source, versions)
	}
	stored := func(ctx context.Context) error {
		l, err := o.Stored(ctx, env, log)
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		return from(ctx, "the log in "+o.Place(env), storedVersions{l, args[0], it})
	}
	served := func(ctx context.Context, at cli.RemoteFlags) error {
		client, err := at.Client(env)
		if err != nil {
			return err
		}
		return from(ctx, client.Base.Host, servedVersions{client, args[0], it})
	}
	switch {
	case o.URL != "":
		return served(ctx, o.RemoteFlags)
	case o.Dir != "" || o.NATS != "":
		return stored(ctx)
	}
	nearby := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, nearbyTime, cli.ErrTimeout)
		defer cancel()
		at := o.RemoteFlags
		at.URL = cli.DefaultServeURL
		return served(ctx, at)
	}
	places := []func(context.Context) error{nearby, stored}
	if o.Written(env) {
		slices.Reverse(places)
	}
	asking, daemon := g.OpenDaemon(ctx, env, log, cli.DaemonUse{Verbose: o.verbose})
	if daemon != nil {
		defer daemon.Close()
		places = slices.Insert(places, 0, func(context.Context) error {
			ctx, cancel := context.WithTimeoutCause(asking, nearbyTime, cli.ErrTimeout)
			defer cancel()
			return from(ctx, "the daemon", servedVersions{daemon.Client(), args[0], it})
		})
	}
	return firstPlace(ctx, log, places)
}

// nearbyTime limits the request to the serve-sse at the default address, which may be another program.
const nearbyTime = 5 * time.Second

// firstPlace calls the functions until one finds versions. If none does, it returns the error that
// says most.
func firstPlace(ctx context.Context, log *slog.Logger, places []func(context.Context) error) error {
	var most *cli.Failure
	for _, place := range places {
		err := place(ctx)
		f, ok := errors.AsType[*cli.Failure](err)
		if !ok || ctx.Err() != nil || says(f) == 0 {
			return err
		}
		log.Info("no versions", "err", err)
		if most == nil || says(f) > says(most) {
			most = f
		}
	}
	if most.Code == "nothing_stored" {
		most.Hint = "run mcptrack serve-sse to store events; if it runs elsewhere, use --url, --data-dir or --nats"
	}
	return most
}

// says returns how much a failure to find versions in one place tells the user, or 0 for a failure
// of another kind.
func says(f *cli.Failure) int {
	switch f.Code {
	case "unreachable", "refused":
		if status, ok := errors.AsType[*remote.StatusError](f.Err); ok && status.Code == http.StatusUnauthorized {
			return 3
		}
		return 1
	case "nothing_stored":
		return 2
	case "no_versions":
		return 4
	}
	return 0
}

// versionSource provides the versions of one item.
type versionSource interface {
	// versions returns the versions, oldest first. It returns an error if there are none.
	versions(ctx context.Context) ([]history.Version, error)
	// text returns the text with the given digest. ok is false if it is not stored.
	text(ctx context.Context, digest catalog.Digest) (text string, ok bool, err error)
}

// noVersions returns the error for an item without stored versions. known lists the server's items of
// the same kind, for a hint.
func noVersions(server string, it history.Item, known []string) error {
	name, hint := it.Key, "only followed resources that changed have a history"
	if !it.Content() {
		name, hint = it.Name(), "only items of followed servers have a history; a resource whose URI begins like this is written content:URI"
	}
	f := &cli.Failure{Exit: cli.ExitFailed, Code: "no_versions", Err: fmt.Errorf("no change to %s on server %s is stored", printable.Line(name, 200), printable.Line(server, 64)), Hint: hint}
	if s := suggest.Nearest(it.Key, known); s != "" && s != it.Key {
		if !it.Content() {
			s = history.Item{Section: it.Section, Key: s}.Name()
		}
		f.Hint = fmt.Sprintf("did you mean %q?", s)
	}
	return f
}

// storedVersions reads versions from a log.
type storedVersions struct {
	log    journal.Log
	server string
	item   history.Item
}

func (s storedVersions) versions(ctx context.Context) ([]history.Version, error) {
	if !s.item.Content() {
		return s.definitions(ctx)
	}
	versions, err := history.Versions(journal.Decoded(s.log.Select(ctx, journal.Selection{ServerID: s.server, URI: s.item.Key})), remote.MaxVersions)
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		states, err := s.log.States(ctx, s.server)
		if err != nil {
			return nil, err
		}
		current := func(it history.Item) catalog.Digest { return history.Current(states, s.server, it) }
		versions, err = s.stored().SkillFile(ctx, s.server, s.item.Key, current, remote.MaxVersions)
		if err != nil || len(versions) > 0 {
			return versions, err
		}
		var known []string
		for r := range states.Resources {
			known = append(known, r.URI)
		}
		return nil, noVersions(s.server, s.item, known)
	}
	if versions[0].ID == "" {
		versions[0].Timestamp, err = history.FirstSeen(journal.Decoded(s.log.Select(ctx, journal.Selection{ServerID: s.server})), s.item.Key)
		if err != nil {
			return nil, err
		}
	}
	stored, err := s.log.Contents().Stored(ctx, history.Digests(versions))
	if err != nil {
		return nil, err
	}
	for i := range versions {
		versions[i].Text = stored[versions[i].Digest]
	}
	return versions, nil
}

func (s storedVersions) stored() history.Log {
	return history.Log{Select: s.log.Select, Contents: s.log.Contents()}
}

func (s storedVersions) definitions(ctx context.Context) ([]history.Version, error) {
	states, err := s.log.States(ctx, s.server)
	if err != nil {
		return nil, err
	}
	current := history.Current(states, s.server, s.item)
	versions, err := s.stored().Definition(ctx, s.server, s.item, current, remote.MaxVersions)
	if err == nil && len(versions) == 0 {
		known := states.Lists[journal.ListName{ServerID: s.server, Kind: catalog.Kind(s.item.Section)}].Keys()
		err = noVersions(s.server, s.item, known)
	}
	return versions, err
}

func (s storedVersions) text(ctx context.Context, digest catalog.Digest) (string, bool, error) {
	return s.log.Contents().Get(ctx, digest)
}

// servedVersions requests versions from a serve-sse.
type servedVersions struct {
	client remote.Client
	server string
	item   history.Item
}

func (s servedVersions) versions(ctx context.Context) ([]history.Version, error) {
	var versions []history.Version
	var err error
	if s.item.Content() {
		versions, err = s.client.Versions(ctx, s.server, s.item.Key)
	} else {
		versions, err = s.client.Definitions(ctx, s.server, s.item.Name())
	}
	if err != nil {
		return nil, askFailure(ctx, err)
	}
	if len(versions) == 0 {
		return nil, noVersions(s.server, s.item, nil)
	}
	return versions, nil
}

func (s servedVersions) text(ctx context.Context, digest catalog.Digest) (string, bool, error) {
	var text string
	var ok bool
	var err error
	if s.item.Content() {
		text, ok, err = s.client.Text(ctx, s.server, s.item.Key, digest)
	} else {
		text, ok, err = s.client.Definition(ctx, s.server, s.item.Name(), digest)
	}
	return text, ok, askFailure(ctx, err)
}
