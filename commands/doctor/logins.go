package doctor

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
)

// checkLogins returns a check of each login that is stored, and a check of the keyring.
func (d *doctor) checkLogins(servers []config.Server) []check {
	logins := d.env.Logins(d.g, "", d.log)
	if logins == nil {
		return []check{newCheck("logins", "", warning, "there is no home folder to store logins in", "set HOME or XDG_CONFIG_HOME")}
	}
	type result struct {
		login *login.Login
		err   error
	}
	results := make([]result, len(servers))
	var reading sync.WaitGroup // concurrently, because a locked keyring takes its time for each
	for i, srv := range servers {
		if target := login.TargetOf(srv); target.URL != "" && srv.Unapproved == "" {
			reading.Go(func() { results[i].login, results[i].err = logins.Get(target) })
		}
	}
	reading.Wait()
	var checks []check
	uses, readable := 0, error(nil)
	for i, r := range results {
		if r.login == nil && r.err == nil || errors.Is(r.err, login.ErrNone) {
			continue
		}
		fix := d.g.LoginCommand(servers[i])
		c := newCheck("login", printable.Line(servers[i].ID, 128), failed, "", fix)
		switch l := r.login; {
		case l != nil && l.Kind == login.KindKeyring && r.err != nil:
			uses++
			readable = r.err
			c.Detail, c.Fix = printable.Reason(r.err, 300), "unlock the keyring, or log in again: "+fix
		case r.err != nil:
			c.Detail = printable.Reason(r.err, 300)
		case l.Refused != "":
			c.Detail = "the authorization server refused to renew it: " + printable.Line(l.Refused, 300)
		case l.Expired(time.Now()) && !l.Renewable:
			c.Detail = "expired since " + d.env.Time(l.Expires)
		default:
			c.Status, c.Fix, c.Detail = ok, "", "valid"
			switch {
			case l.Renewable:
				c.Detail = "valid; renewed when needed"
			case !l.Expires.IsZero():
				c.Detail = "valid until " + d.env.Time(l.Expires)
			}
		}
		if r.err == nil && r.login.Kind == login.KindKeyring {
			uses++
		}
		checks = append(checks, c)
	}
	return append(checks, d.checkKeyring(uses, readable))
}

// checkKeyring reports whether the keyring could be read by those who use it: logins, and ${keyring:…} in
// the config. It does not access the keyring itself, which could ask the user to unlock it.
func (d *doctor) checkKeyring(logins int, unreadable error) check {
	const kind = "keyring"
	inConfig := slices.ContainsFunc(cli.Entries(d.Config), func(e cli.Entry) bool {
		return slices.ContainsFunc(e.Intent.Uses, func(u config.Use) bool { return u.Kind == config.UseKeyring })
	})
	problem := slices.IndexFunc(d.Problems, func(p config.Problem) bool { return p.Code == config.CodeKeyring })
	switch {
	case unreadable != nil:
		return newCheck(kind, "", failed, printable.Reason(unreadable, 300), "unlock the keyring")
	case inConfig && len(d.Unapproved) > 0:
		return newCheck(kind, "", skipped, "not read until the config is approved", "")
	case problem >= 0:
		return newCheck(kind, "", failed, d.Problems[problem].Message, d.Problems[problem].Hint)
	case inConfig || logins > 0:
		return newCheck(kind, "", ok, "can be read", "")
	}
	return newCheck(kind, "", skipped, "neither the config nor a login uses it", "")
}
