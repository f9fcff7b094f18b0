package doctor

import (
	"cmp"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/printable"
)

// redactor removes from the report what must not be in a bug report. Errors of servers are already
// without the secrets of their own server (see package session); a redactor also removes the secrets of
// all others, and what looks like a credential.
type redactor struct{ secrets, home *strings.Replacer }

func newRedactor(env *cli.Env, cfg *config.Config) redactor {
	var secrets []string
	for i := range cfg.Servers {
		srv := &cfg.Servers[i]
		secrets = append(secrets, srv.Confidential()...)
		secrets = append(secrets, partsOf(srv.URL.Reveal(), false)...)
	}
	for _, w := range cfg.Webhooks {
		secrets = append(append(secrets, w.Secret.Reveal()), partsOf(w.URL.Reveal(), true)...)
	}
	secrets = append(secrets, strings.TrimSpace(env.Getenv("MCPTRACK_TOKEN")))
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) // a prefix of a longer one is last
	var pairs []string
	for _, s := range slices.Compact(secrets) {
		if s != "" {
			pairs = append(pairs, s, "[secret]")
		}
	}
	r := redactor{secrets: strings.NewReplacer(pairs...)}
	home := cmp.Or(env.Getenv("HOME"), env.Getenv("USERPROFILE"))
	var tilde []string
	for _, dir := range []string{home, resolved(home)} {
		if dir = filepath.Clean(dir); len(dir) > 1 {
			tilde = append(tilde, dir, "~")
		}
	}
	r.home = strings.NewReplacer(tilde...)
	return r
}

// minPart is the minimum length of a part of a URL that is redacted; shorter ones may be in ordinary words.
const minPart = 6

// partsOf returns the parts of a URL that are not shown: users, passwords, the values of the query, and,
// because the path of a webhook is as secret as a token, the path.
func partsOf(address string, path bool) (parts []string) {
	u, err := url.Parse(address)
	if err != nil {
		return []string{address}
	}
	password, _ := u.User.Password()
	parts = append(parts, u.User.Username(), password)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	if path {
		parts = append(parts, strings.Split(u.Path, "/")...)
	}
	return slices.DeleteFunc(parts, func(s string) bool { return len(s) < minPart })
}

// resolved returns a path without symbolic links, or the path itself if it does not exist.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// text returns one printable line of at most limit runes.
func (r redactor) text(s string, limit int) string {
	s = r.secrets.Replace(s)
	s = credential.Mask(s, credential.Find("", s))
	return printable.Line(printable.Flat(r.home.Replace(s)), limit)
}
