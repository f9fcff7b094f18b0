package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/observe"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	core "github.com/mcptrack/mcptrack/core/status"
)

// checkServers returns a check of each server, and a check of the lock. It connects to the servers that may be
// used, apart from those that a daemon knows more about.
func (d *doctor) checkServers(ctx context.Context, servers []config.Server, answered func(id string)) []check {
	known := d.followed(ctx)
	approved, unreadable := lock.Read(d.lockPath())
	if unreadable == nil {
		unreadable = cli.CheckLock(d.g, d.lockPath())
	}
	var ask []config.Server
	for _, srv := range servers {
		if srv.Unusable() == nil && !settled(known[srv.ID].State) && !d.offline {
			ask = append(ask, srv)
		} else {
			answered(srv.ID)
		}
	}
	hashing := lock.DefaultHashing()
	if approved != nil {
		hashing = approved.Hashing
	}
	results := map[string]observe.Result{}
	for _, r := range observe.Servers(ctx, ask, observe.Options{Machine: d.env.Machine(), Progress: answered, Hashing: func() lock.Hashing { return hashing },
		Probe: session.ProbeOptions{Dial: d.env.Dial, Session: d.SessionOptions(d.env, d.g)}}) {
		results[r.Server.ID] = r
	}
	var checks []check
	for _, srv := range d.Config.Servers {
		r, asked := results[srv.ID]
		row, followed := known[srv.ID]
		id := printable.Line(srv.ID, 128)
		c := newCheck("server", id, skipped, event.Disabled.Words(), "")
		switch {
		case !srv.Enabled:
		case srv.Unusable() != nil:
			c.Status, c.Detail, c.Fix = d.unusable(srv)
		case followed && settled(row.State):
			c.Status, c.Detail, c.Fix = d.reported(srv, row)
		case asked && r.Err == nil:
			c.Status, c.Detail = ok, event.Ready.Words()+offers(r)
		case asked:
			c.Status, c.Detail, c.Fix = failed, printable.Reason(r.Err, 800), d.g.Fix(d.env, d.Config, srv, (session.Report{Server: srv, Err: r.Err}).State())
			if ctx.Err() != nil {
				c.Detail, c.Fix = "--timeout expired before it answered", "allow more time with --timeout"
			}
		default:
			c.Detail = "not asked, because --offline is set"
		}
		checks = append(checks, c)
	}
	return append(checks, d.checkLock(approved, unreadable, servers, results))
}

// settled reports whether what a daemon says about a server is worth more than a connection of its own: it
// is connected, so that a second process could disturb it, or has failed repeatedly.
func settled(state event.State) bool {
	return slices.Contains([]event.State{event.Ready, event.Unsupported, event.Backoff, event.Failed, event.NeedsAuth}, state)
}

// followed returns what a daemon that follows the same config knows about its servers, by id. It is empty
// without a daemon.
func (d *doctor) followed(ctx context.Context) map[string]core.Summary {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	ctx, daemon := d.g.OpenDaemon(ctx, d.env, d.log, cli.DaemonUse{Quiet: true})
	if daemon == nil {
		return nil
	}
	defer daemon.Close()
	client := daemon.Client()
	all, err := client.Servers(ctx)
	if err != nil {
		return nil
	}
	known := map[string]core.Summary{}
	for _, s := range all {
		known[s.ID] = s
	}
	return known
}

// askTime limits how long a daemon may take to answer.
const askTime = 10 * time.Second

// since says since when a server has its state, if that is known.
func (d *doctor) since(row core.Summary) string {
	at, err := time.Parse(event.TimeFormat, row.Since)
	if err != nil {
		return ""
	}
	return " since " + d.env.Time(at)
}

// unusable describes a server that is not approved or not configured.
func (d *doctor) unusable(srv config.Server) (s status, detail, fix string) {
	if _, unapproved := errors.AsType[*config.UnapprovedError](srv.Unusable()); unapproved {
		return skipped, event.Unapproved.Words() + ": it was not started or contacted", ""
	}
	return failed, event.Unconfigured.Words() + ": " + srv.Unusable().Error(), d.g.Fix(d.env, d.Config, srv, event.Unconfigured)
}

// reported describes a server by what a daemon says.
func (d *doctor) reported(srv config.Server, row core.Summary) (s status, detail, fix string) {
	since := d.since(row) + " in the daemon"
	if row.State == event.Ready || row.State == event.Unsupported {
		return ok, row.State.Words() + since + counted(row.Tools, row.Prompts, row.Templates, row.Resources), ""
	}
	return failed, row.State.Words() + since + ": " + row.Error, d.g.Fix(d.env, d.Config, srv, row.State)
}

// offers counts what a server offers.
func offers(r observe.Result) string {
	if r.Offered == nil {
		return ""
	}
	n := func(k catalog.Kind) int { return len(r.Offered[lock.Section(k)]) }
	return counted(n(catalog.Tools), n(catalog.Prompts), n(catalog.Templates), n(catalog.Resources))
}

func counted(tools, prompts, templates, resources int) string {
	var parts []string
	for _, p := range []struct {
		n    int
		noun string
	}{{tools, "tool"}, {prompts, "prompt"}, {templates, "template"}, {resources, "resource"}} {
		if p.n > 0 {
			parts = append(parts, cli.Plural(p.n, p.noun))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// lockPath returns the path of the lock, or an empty string if there cannot be one.
func (d *doctor) lockPath() string { return d.LockFlags.Path(d.g, d.Config) }

// checkLock compares the servers that have answered with the lock. unreadable is why there is none.
func (d *doctor) checkLock(approved *lock.Lock, unreadable error, servers []config.Server, results map[string]observe.Result) check {
	const kind = "lock"
	path := d.lockPath()
	var unsafe *cli.Failure
	switch {
	case path == "", errors.Is(unreadable, fs.ErrNotExist) && d.LockFlags.File == "":
		return newCheck(kind, "", skipped, "there is none: changes of what servers offer are served without your approval", "mcptrack lock writes one")
	case errors.Is(unreadable, fs.ErrNotExist):
		return newCheck(kind, "", failed, path+" does not exist", "mcptrack lock --lock "+printable.Shell(path)+" writes it")
	case errors.As(unreadable, &unsafe):
		return newCheck(kind, "", failed, unsafe.Error(), unsafe.Hint)
	case unreadable != nil:
		return newCheck(kind, "", failed, printable.Reason(unreadable, 600), "restore it from version control, or delete it and run mcptrack lock")
	}
	var missing, drifted []string
	compared := 0
	for _, srv := range servers {
		id := printable.Line(srv.ID, 64)
		s := approved.Servers[srv.ID]
		r, asked := results[srv.ID]
		switch {
		case s == nil:
			missing = append(missing, id)
		case asked && r.Err == nil:
			compared++
			if n := len(lock.Compare(s, r.Offered)); n > 0 {
				drifted = append(drifted, fmt.Sprintf("%s (%d)", id, n))
			}
		}
	}
	switch {
	case len(drifted) > 0:
		return newCheck(kind, "", warning, "what servers offer differs from "+path+": "+cli.Join(drifted, 10), "mcptrack review shows the changes and asks")
	case len(missing) > 0:
		return newCheck(kind, "", warning, fmt.Sprintf("%s does not have %s; a gateway blocks them", path, cli.Join(missing, 10)), "mcptrack lock adds them")
	case compared < len(servers):
		return newCheck(kind, "", ok, fmt.Sprintf("%s; %d of %s compared", path, compared, cli.Plural(len(servers), "server")), "")
	}
	return newCheck(kind, "", ok, path+": nothing has changed", "")
}
