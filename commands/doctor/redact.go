package doctor

import (
	"cmp"
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
		secrets = append(append(secrets, cfg.Servers[i].Credentials()...), cfg.Servers[i].Confidential()...)
	}
	for _, w := range cfg.Webhooks {
		secrets = append(secrets, w.URL.Reveal(), w.Secret.Reveal())
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
