package commands

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/suggest"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/lines"
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/table"
)

type historyOptions struct {
	versionFlags
	last int
}

func newHistory(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts historyOptions
	cmd := &cobra.Command{
		Use:   "history SERVER URI",
		Short: "Show the versions of a resource",
		Long: `Shows the contents that a followed resource had, newest first: when each was noticed
and how, its size and digest, and whether its text is stored, so that diff can compare
it. The versions come from the log of serve-sse, which may be running meanwhile, or with
--url from a running serve-sse. At most the newest 500 are known.

Exit codes: 0 done; 1 failed, or nothing is stored; 2 wrong usage; 4 the --url could not
be reached, or did not answer within --timeout; 5 it refused the request; 6 --timeout
expired while the log was read.`,
		Example: `  mcptrack history docs file:///guide.md
  mcptrack history docs file:///guide.md --url http://127.0.0.1:8722 --last 5
  mcptrack history docs file:///guide.md --json | jq -r '.[].id'`,
		Args:              cli.Args(2, 2),
		ValidArgsFunction: completeItems(env, g, catalog.Resources),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.server, opts.uri = args[0], args[1]
			if opts.last < 1 {
				return cli.Usage("invalid --last %d; expected at least 1", opts.last)
			}
			return runHistory(cmd.Context(), env, g, opts)
		},
	}
	opts.add(cmd)
	cmd.Flags().IntVar(&opts.last, "last", 50, "show at most this `NUMBER` of versions")
	return cmd
}

func runHistory(ctx context.Context, env *cli.Env, g *cli.Globals, opts historyOptions) error {
	ctx, cancel := opts.within(ctx)
	defer cancel()
	source, err := opts.open(ctx, env, g.Logger(env))
	if err != nil {
		return err
	}
	defer source.close()
	versions, err := source.versions(ctx)
	if err != nil {
		return err
	}
	slices.Reverse(versions)
	versions = versions[:min(len(versions), opts.last)]
	switch {
	case g.Format.Name == "name":
		for _, v := range versions {
			if v.ID != "" {
				fmt.Fprintln(env.Out, v.ID)
			}
		}
		return nil
	case !g.Format.Table():
		return document.Write(env.Out, g.Format, versions)
	}
	rows := make([][]string, 0, len(versions))
	for _, v := range versions {
		rows = append(rows, versionRow(v, g.Format.Wide()))
	}
	return table.Rows(env.Out, []string{"ID", "Noticed", "How", "Size", "Digest", "Text"}, rows)
}

// shortDigest is the number of characters of a digest that is shown.
const shortDigest = 12

func versionRow(v history.Version, wide bool) []string {
	if v.Removed {
		return []string{v.ID, localTime(v.Timestamp), lines.Found(v.Cause), "", "removed", ""}
	}
	digest := v.Digest.String()
	if !wide {
		digest = strings.TrimPrefix(digest, "sha256:")[:shortDigest]
	}
	row := []string{"-", "before the first change", "", "", digest, "no"}
	if v.ID != "" {
		row[0], row[1], row[2] = v.ID, localTime(v.Timestamp), lines.Found(v.Cause)
	}
	if v.Size != nil {
		row[3] = lines.Size(*v.Size)
	}
	if v.Text {
		row[5] = "yes"
	}
	return row
}

// localTime is a time for people, in their time zone.
func localTime(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000") }

// versionFlags are the flags of history and diff that select a log or a serve-sse.
type versionFlags struct {
	cli.JournalFlags
	remoteFlags
	url         string
	timeout     time.Duration
	server, uri string
}

func (o *versionFlags) add(cmd *cobra.Command) {
	o.JournalFlags.Add(cmd)
	o.remoteFlags.add(cmd)
	cmd.Flags().StringVar(&o.url, "url", "", "ask the serve-sse at this `URL` instead of reading its log")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "`DURATION` that the command may take (default 30s with --url, else no limit)")
}

// askTime is how long a serve-sse may take for all answers unless --timeout says otherwise.
const askTime = 30 * time.Second

// within returns a context that ends when the time is over.
func (o *versionFlags) within(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := o.timeout
	if limit == 0 && o.url != "" {
		limit = askTime
	}
	if limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, cli.ErrTimeout)
}

// versionSource provides the versions of resources: a log or a serve-sse.
type versionSource interface {
	// versions returns those of the resource, oldest first.
	versions(ctx context.Context) ([]history.Version, error)
	// text returns the text of a content; ok is false if it is not stored.
	text(ctx context.Context, digest catalog.Digest) (text string, ok bool, err error)
	close()
}

func (o *versionFlags) open(ctx context.Context, env *cli.Env, log *slog.Logger) (versionSource, error) {
	if o.timeout < 0 {
		return nil, cli.Usage("--timeout must not be negative")
	}
	if o.url == "" {
		j, err := o.JournalFlags.Stored(ctx, env, log)
		if err != nil {
			return nil, err
		}
		return &storedVersions{j, o.server, o.uri}, nil
	}
	if o.Dir != "" || o.NATS != "" {
		return nil, cli.Usage("--url cannot be used with --data-dir or --nats")
	}
	base, err := cli.ParseServeURL("--url", o.url)
	if err != nil {
		return nil, err
	}
	token, err := o.token(env, base)
	return &servedVersions{remote.Client{Base: base, Token: token}, o.server, o.uri}, err
}

// noVersions is the error of a resource without versions. known are the resources of
// the server, for a hint.
func noVersions(server, uri string, known []string) error {
	f := &cli.Failure{Exit: cli.ExitFailed, Code: "no_versions", Err: fmt.Errorf("no change of %s of server %s is stored", printable.Line(uri, 200), printable.Line(server, 64)),
		Hint: "only followed resources that changed have a history"}
	if s := suggest.Nearest(uri, known); s != "" && s != uri {
		f.Hint = fmt.Sprintf("did you mean %q?", s)
	}
	return f
}

// storedVersions reads a log.
type storedVersions struct {
	log         journal.Log
	server, uri string
}

func (s *storedVersions) close() { _ = s.log.Close() }

func (s *storedVersions) versions(ctx context.Context) ([]history.Version, error) {
	versions, err := history.Versions(decoded(s.log.Select(ctx, journal.Selection{ServerID: s.server, URI: s.uri})), remote.MaxVersions)
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		states, err := s.log.States(ctx, s.server)
		if err != nil {
			return nil, err
		}
		var known []string
		for r := range states.Resources {
			known = append(known, r.URI)
		}
		return nil, noVersions(s.server, s.uri, known)
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

// decoded yields the events of entries. Others can store anything on a cluster: what is
// not an event is skipped.
func decoded(entries iter.Seq2[journal.Entry, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for entry, err := range entries {
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			if e, err := entry.Event(); err == nil && !yield(e, nil) {
				return
			}
		}
	}
}

func (s *storedVersions) text(ctx context.Context, digest catalog.Digest) (string, bool, error) {
	return s.log.Contents().Get(ctx, digest)
}

// servedVersions asks a serve-sse.
type servedVersions struct {
	client      remote.Client
	server, uri string
}

func (s *servedVersions) close() {}

func (s *servedVersions) versions(ctx context.Context) ([]history.Version, error) {
	versions, err := s.client.Versions(ctx, s.server, s.uri)
	if err != nil {
		return nil, askFailure(ctx, err)
	}
	if len(versions) == 0 {
		return nil, noVersions(s.server, s.uri, nil)
	}
	return versions, nil
}

func (s *servedVersions) text(ctx context.Context, digest catalog.Digest) (string, bool, error) {
	text, ok, err := s.client.Text(ctx, s.server, s.uri, digest)
	return text, ok, askFailure(ctx, err)
}
