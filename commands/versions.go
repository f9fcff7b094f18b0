package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/suggest"
	"github.com/mcptrack/mcptrack/output/api"
	"github.com/mcptrack/mcptrack/output/dashboard"
	"github.com/mcptrack/mcptrack/output/remote"
)

// versionFlags contains the flags that select a log or a serve-sse.
type versionFlags struct {
	cli.JournalFlags
	cli.RemoteFlags
	timeout time.Duration
	verbose bool
}

func (o *versionFlags) add(cmd *cobra.Command) {
	o.JournalFlags.Add(cmd)
	o.RemoteFlags.Add(cmd)
	cmd.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "print on stderr where the versions come from")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "exit after this `DURATION` (default 30s with --url)")
}

// askTime is the default --timeout with --url.
const askTime = 30 * time.Second

// versionedArgs accepts the arguments of a command for versions. If only a server is given that the config does
// not have, it suggests another one.
func versionedArgs(env *cli.Env, g *cli.Globals) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := cli.Args(2, 4)(cmd, args)
		if f, ok := errors.AsType[*cli.Failure](err); ok && len(args) == 1 {
			if known := cli.ServerNames(cli.ConfigForCompletion(env, g)); !slices.Contains(known, args[0]) {
				f.Hint = cli.DidYouMean(args[0], known, f.Hint)
			}
		}
		return err
	}
}

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

// nearbyTime limits a request to a process that no flag names.
const nearbyTime = 5 * time.Second

// read calls show with a resource or definition that has versions. args starts with the server and the item.
func (o *versionFlags) read(ctx context.Context, env *cli.Env, g *cli.Globals, args []string, show func(context.Context, *versioned) error) error {
	if o.timeout < 0 {
		return cli.Usage("--timeout must not be negative")
	}
	if o.URL != "" && (o.Dir != "" || o.NATS != "") {
		return cli.Usage("--url cannot be used with --data-dir or --nats")
	}
	it, ok := history.ParseItem(args[1])
	if !ok {
		return cli.UsageHint("choose tool/NAME, prompt/NAME, template/URITEMPLATE, resource/URI or instructions", "the %s of a server has no history", printable.Line(args[1], 40))
	}
	ctx, cancel := o.bound(ctx)
	defer cancel()
	log := g.Logger(env)
	of := &versioned{server: args[0], item: it}
	return of.findIn(ctx, o.places(env, g, log), func(place string) error {
		if log.Info("reading versions", "from", place); o.verbose {
			fmt.Fprintln(env.Err, "versions from "+place)
		}
		return show(ctx, of)
	})
}

// place is where versions may be found.
type place struct {
	name string
	// open returns a client that is used until release is called.
	open func(context.Context) (client remote.Client, release func(), err error)
	// limit bounds the request for the versions, because the place may be another program; 0 does not.
	limit time.Duration
}

// places returns where to look for versions, in this order.
func (o *versionFlags) places(env *cli.Env, g *cli.Globals, log *slog.Logger) []place {
	switch at := o.RemoteFlags; {
	case o.URL != "":
		return []place{served(env, at, 0)}
	case o.Dir != "" || o.NATS != "":
		return []place{o.stored(env, log)}
	default:
		at.URL = cli.DefaultServeURL
		return []place{o.daemon(env, g, log), served(env, at, nearbyTime), o.stored(env, log)}
	}
}

func (o *versionFlags) daemon(env *cli.Env, g *cli.Globals, log *slog.Logger) place {
	return place{"the daemon", func(ctx context.Context) (remote.Client, func(), error) {
		_, d := g.OpenDaemon(ctx, env, log, cli.DaemonUse{Verbose: o.verbose})
		if d == nil {
			return remote.Client{}, nil, cli.Unreachable("", "no daemon is used")
		}
		return d.Client(), d.Close, nil
	}, nearbyTime}
}

func served(env *cli.Env, at cli.RemoteFlags, limit time.Duration) place {
	return place{at.URL, func(context.Context) (remote.Client, func(), error) {
		client, err := at.Client(env)
		return client, func() {}, err
	}, limit}
}

func (o *versionFlags) stored(env *cli.Env, log *slog.Logger) place {
	return place{"the log in " + o.Place(env), func(ctx context.Context) (remote.Client, func(), error) {
		l, err := o.Stored(ctx, env, log)
		if f, ok := errors.AsType[*cli.Failure](err); ok && f.Code == "nothing_stored" && o.Dir == "" && o.NATS == "" {
			f.Hint = "run mcptrack serve-sse to store events; if it runs elsewhere, use --url, --data-dir or --nats"
		}
		if err != nil {
			return remote.Client{}, nil, err
		}
		return api.Local(l, dashboard.Options{}), func() { _ = l.Close() }, nil
	}, 0}
}

// versioned is an item with its versions, and where they were found.
type versioned struct {
	remote.Client
	server   string
	item     history.Item
	versions []history.Version // oldest first, at least one
}

// findIn calls show with the name of the first place that has versions. Without any, the error is of the
// first place that answered, or else of the last one.
func (v *versioned) findIn(ctx context.Context, places []place, show func(place string) error) (failed error) {
	for _, p := range places {
		client, release, err := p.open(ctx)
		if err == nil {
			defer release()
			v.Client = client
			if err = v.find(ctx, p.limit); err == nil {
				return show(p.name)
			}
		}
		if _, is := errors.AsType[*cli.Failure](err); !is || ctx.Err() != nil {
			return err
		}
		if failed == nil || !answered(failed) {
			failed = err
		}
	}
	return failed
}

// answered reports whether a place without versions is a log or a serve-sse.
func answered(err error) bool {
	f, failed := errors.AsType[*cli.Failure](err)
	status, refused := errors.AsType[*remote.RefusedError](err)
	return failed && f.Code == "no_versions" || refused && status.Status == http.StatusUnauthorized
}

// find requests the versions. It returns an error if there are none.
func (v *versioned) find(ctx context.Context, limit time.Duration) (err error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, cli.ErrTimeout)
		defer cancel()
	}
	if v.item.Content() {
		v.versions, err = v.Versions(ctx, v.server, v.item.Key)
	} else {
		v.versions, err = v.Definitions(ctx, v.server, v.item.Name())
	}
	if err != nil {
		return cli.RemoteFailure(ctx, err, "token-file")
	}
	if len(v.versions) == 0 {
		known, _ := v.Known(ctx, v.server, v.item.Section) // for a hint only
		return noVersions(v.server, v.item, known, v.ServerIDs(ctx))
	}
	return nil
}

// text returns the text with the given digest. ok is false if it is not stored.
func (v *versioned) text(ctx context.Context, digest catalog.Digest) (text string, ok bool, err error) {
	if v.item.Content() {
		text, ok, err = v.Text(ctx, v.server, v.item.Key, digest)
	} else {
		text, ok, err = v.Definition(ctx, v.server, v.item.Name(), digest)
	}
	return text, ok, cli.RemoteFailure(ctx, err, "token-file")
}

// noVersions returns the error for an item without stored versions. known lists the server's items of
// the same kind, and servers the known servers, for a hint.
func noVersions(server string, it history.Item, known, servers []string) error {
	name, hint := it.Key, "only followed resources that changed have a history"
	if !it.Content() {
		name, hint = it.Name(), "only items of followed servers have a history"
	}
	f := &cli.Failure{Exit: cli.ExitFailed, Code: "no_versions", Err: fmt.Errorf("no change to %s on server %s is stored", printable.Line(name, 200), printable.Line(server, 64)), Hint: hint}
	if !slices.Contains(servers, server) {
		f.Hint = cli.DidYouMean(server, servers, f.Hint)
	} else if s := suggest.Nearest(it.Key, known); s != "" && s != it.Key {
		if !it.Content() {
			s = history.Item{Section: it.Section, Key: s}.Name()
		}
		f.Hint = fmt.Sprintf("did you mean %q?", s)
	}
	return f
}
