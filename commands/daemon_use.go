package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sort"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/api"
)

// noKind, alone, makes askDaemon return no lists.
const noKind catalog.Kind = "none"

// askDaemon returns what a running daemon knows about servers, sorted by id. Without kinds it returns
// all lists. ok is false if the command must connect to the servers itself.
func askDaemon(ctx context.Context, env *cli.Env, g *cli.Globals, use cli.DaemonUse, servers []config.Server, kinds []catalog.Kind) (reports []session.Report, ok bool) {
	log := g.Logger(env)
	query := url.Values{}
	for _, srv := range servers {
		if srv.Unusable() == nil {
			query.Add("server", srv.ID)
		}
	}
	if len(query) == 0 {
		return nil, false
	}
	for _, k := range kinds {
		query.Add("kind", string(k))
	}
	ctx, daemon := g.OpenDaemon(ctx, env, log, use)
	if daemon == nil {
		return nil, false
	}
	defer daemon.Close()
	var offers []api.Offer
	client := daemon.Client()
	err := client.Get(ctx, []string{"api", "offers"}, query, &offers)
	for _, srv := range servers {
		if err == nil {
			var r session.Report
			r, err = offered(srv, offers, kinds)
			reports = append(reports, r)
		}
	}
	if err != nil {
		log.Info("not using the daemon", "err", err)
		return nil, false
	}
	sort.Slice(reports, func(i, j int) bool { return reports[i].Server.ID < reports[j].Server.ID })
	return reports, true
}

// offered returns the report for a server of a daemon. An error means that the daemon has another
// view of the server than the command.
func offered(srv config.Server, offers []api.Offer, kinds []catalog.Kind) (session.Report, error) {
	r := session.Report{Server: srv, Lists: map[catalog.Kind]catalog.List{}, Err: srv.Unusable()}
	if r.Err != nil {
		return r, nil
	}
	i := slices.IndexFunc(offers, func(o api.Offer) bool { return o.ID == srv.ID })
	if i < 0 {
		return r, fmt.Errorf("it has no server %s", printable.Line(srv.ID, 128))
	}
	o := offers[i]
	r.Info = session.Info{Transport: config.Transport(o.Transport), Era: session.Era(o.Era), ProtocolVersion: o.ProtocolVersion,
		ServerName: o.ServerName, ServerVersion: o.ServerVersion, RawCapabilities: o.Capabilities}
	switch o.State {
	case event.Ready, event.Unsupported:
	case event.NeedsAuth:
		r.Err = loginError(o.Error)
	case event.Disabled, event.Unconfigured, event.Unapproved, event.Stopping:
		return r, fmt.Errorf("%s is %s there", printable.Line(srv.ID, 128), o.State.Words())
	case event.Pending, event.Connecting:
		if o.ProtocolVersion == "" {
			r.Err = errors.New(cmp.Or(o.Error, "not connected yet")) // the failure of the attempt before this one
		}
	default:
		r.Err = errors.New(o.Error)
	}
	if r.Err != nil {
		r.Info = session.Info{}
		return r, nil
	}
	switch len(kinds) {
	case 0:
		kinds = catalog.Kinds()
	case 1:
		if kinds[0] == noKind {
			return r, nil
		}
	}
	for _, kind := range kinds {
		raws, ok := o.Offered[kind]
		if !ok {
			r.Err = fmt.Errorf("it did not list its %s", kind)
			continue
		}
		items := make(catalog.List, len(raws))
		for i, raw := range raws {
			var err error
			if items[i], err = catalog.NewItem(kind, raw); err != nil {
				return r, err
			}
		}
		r.Lists[kind] = items
	}
	r.Invalid = session.InvalidTools(r.Info, r.Lists[catalog.Tools])
	return r, nil
}

// loginError is the error of a server that requires a login, as a daemon reports it.
type loginError string

func (e loginError) Error() string        { return string(e) }
func (e loginError) Is(target error) bool { return target == session.ErrAuth }
