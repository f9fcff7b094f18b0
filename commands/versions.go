package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/suggest"
)

// maxVersions is how many versions history and diff look at, the newest ones.
const maxVersions = 500

// versionFlags are the flags of history and diff: which log, or which serve-sse.
type versionFlags struct {
	journalFlags
	remoteFlags
	url         string
	server, uri string
}

func (o *versionFlags) add(cmd *cobra.Command) {
	o.journalFlags.add(cmd)
	o.remoteFlags.add(cmd)
	cmd.Flags().StringVar(&o.url, "url", "", "ask the serve-sse at this `URL` instead of reading its log")
}

// versionSource is where the versions of resources are: a log or a serve-sse.
type versionSource interface {
	// versions returns those of the resource, oldest first.
	versions(ctx context.Context) ([]history.Version, error)
	// text returns the text of a content; ok is false if it is not stored.
	text(ctx context.Context, digest catalog.Digest) (text string, ok bool, err error)
	close()
}

func (o *versionFlags) open(ctx context.Context, env *Env, log *slog.Logger) (versionSource, error) {
	if o.url == "" {
		j, err := o.journalFlags.open(ctx, env, log, journal.Options{Existing: true})
		if err != nil {
			return nil, err
		}
		return &storedVersions{j, o.server, o.uri}, nil
	}
	if o.dir != "" || o.nats != "" {
		return nil, usage("--url excludes --data-dir and --nats")
	}
	base, err := parseServeURL("--url", o.url)
	if err != nil {
		return nil, err
	}
	token, err := o.token(env, base)
	return &servedVersions{base, token, o.server, o.uri}, err
}

// noVersions is the error of a resource without versions. known are the resources of
// the server, for a hint.
func noVersions(server, uri string, known []string) error {
	f := &failure{exit: exitFailed, code: "no_versions", err: fmt.Errorf("no change of %s of server %s is stored", printable.Line(uri, 200), printable.Line(server, 64)),
		hint: "only followed resources that changed have a history"}
	if s := suggest.Nearest(uri, known); s != "" {
		f.hint = fmt.Sprintf("did you mean %q?", s)
	}
	return f
}

// storedVersions reads a log.
type storedVersions struct {
	journal     *journal.Journal
	server, uri string
}

func (s *storedVersions) close() { _ = s.journal.Close() }

func (s *storedVersions) versions(ctx context.Context) ([]history.Version, error) {
	versions, err := history.Versions(decoded(s.journal.Select(ctx, journal.Selection{ServerID: s.server, URI: s.uri})), maxVersions)
	if err != nil {
		return nil, err
	}
	if len(versions) == 0 {
		states, err := s.journal.States(ctx, s.server)
		if err != nil {
			return nil, err
		}
		var known []string
		for r := range states.Resources {
			known = append(known, r.URI)
		}
		return nil, noVersions(s.server, s.uri, known)
	}
	stored, err := s.journal.Contents.Stored(ctx, history.Digests(versions))
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
	return s.journal.Contents.Get(ctx, digest)
}

// servedVersions asks a serve-sse.
type servedVersions struct {
	base        *url.URL
	token       string
	server, uri string
}

func (s *servedVersions) close() {}

func (s *servedVersions) versions(ctx context.Context) ([]history.Version, error) {
	u := s.base.JoinPath("/api/history")
	u.RawQuery = url.Values{"server": {s.server}, "uri": {s.uri}, "limit": {fmt.Sprint(maxVersions)}}.Encode()
	var found struct {
		Events []json.RawMessage `json:"events"` // newest first
		Texts  []string          `json:"texts"`
	}
	if err := askFor(ctx, u, s.token, &found); err != nil {
		return nil, err
	}
	versions, err := history.Versions(func(yield func(event.Event, error) bool) {
		for _, data := range slices.Backward(found.Events) {
			var e event.Event
			if json.Unmarshal(data, &e) == nil && !yield(e, nil) {
				return
			}
		}
	}, maxVersions)
	if err == nil && len(versions) == 0 {
		err = noVersions(s.server, s.uri, nil)
	}
	for i := range versions {
		versions[i].Text = slices.Contains(found.Texts, versions[i].Digest.String())
	}
	return versions, err
}

func (s *servedVersions) text(ctx context.Context, digest catalog.Digest) (string, bool, error) {
	u := s.base.JoinPath("/api/servers", url.PathEscape(s.server), "content")
	u.RawQuery = url.Values{"uri": {s.uri}, "digest": {digest.String()}}.Encode()
	var found struct {
		Text *string `json:"text"`
	}
	err := askFor(ctx, u, s.token, &found)
	if f, ok := errors.AsType[*failure](err); ok && f.code == "not_found" {
		return "", false, nil
	}
	if err != nil || found.Text == nil {
		return "", false, err
	}
	return *found.Text, true, nil
}
