package commands

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/suggest"
	"github.com/mcptrack/mcptrack/output/remote"
)

// versionFlags are the flags of history and diff that select a log or a serve-sse.
type versionFlags struct {
	journalFlags
	remoteFlags
	url         string
	timeout     time.Duration
	server, uri string
}

func (o *versionFlags) add(cmd *cobra.Command) {
	o.journalFlags.add(cmd)
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
	return context.WithTimeoutCause(ctx, limit, errTimeout)
}

// versionSource provides the versions of resources: a log or a serve-sse.
type versionSource interface {
	// versions returns those of the resource, oldest first.
	versions(ctx context.Context) ([]history.Version, error)
	// text returns the text of a content; ok is false if it is not stored.
	text(ctx context.Context, digest catalog.Digest) (text string, ok bool, err error)
	close()
}

func (o *versionFlags) open(ctx context.Context, env *Env, log *slog.Logger) (versionSource, error) {
	if o.timeout < 0 {
		return nil, usage("--timeout must not be negative")
	}
	if o.url == "" {
		j, err := o.journalFlags.stored(ctx, env, log)
		if err != nil {
			return nil, err
		}
		return &storedVersions{j, o.server, o.uri}, nil
	}
	if o.dir != "" || o.nats != "" {
		return nil, usage("--url cannot be used with --data-dir or --nats")
	}
	base, err := parseServeURL("--url", o.url)
	if err != nil {
		return nil, err
	}
	token, err := o.token(env, base)
	return &servedVersions{remote.Client{Base: base, Token: token}, o.server, o.uri}, err
}

// noVersions is the error of a resource without versions. known are the resources of
// the server, for a hint.
func noVersions(server, uri string, known []string) error {
	f := &failure{exit: exitFailed, code: "no_versions", err: fmt.Errorf("no change of %s of server %s is stored", printable.Line(uri, 200), printable.Line(server, 64)),
		hint: "only followed resources that changed have a history"}
	if s := suggest.Nearest(uri, known); s != "" && s != uri {
		f.hint = fmt.Sprintf("did you mean %q?", s)
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
