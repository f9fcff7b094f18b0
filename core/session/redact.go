package session

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/process"
)

// redactor removes one server's secrets from texts written by the server, its child process or a
// library.
type redactor struct {
	secrets *strings.Replacer
	live    func() []string // returns secrets that change, such as tokens; may be nil
}

// minSecret is the minimum length of a value that is redacted, because replacing every "1" or
// "true" would only garble messages.
const minSecret = 6

func newRedactor(values []string) redactor {
	var secrets, pairs []string
	for _, v := range values {
		secrets = append(append(secrets, strings.Fields(v)...), v)
	}
	// Sort the longest first: replacing a prefix of a longer secret would leave the rest of it
	// visible.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		if len(s) >= minSecret {
			pairs = append(pairs, s, "[redacted]")
		}
	}
	return redactor{secrets: strings.NewReplacer(pairs...)}
}

// text makes s safe to show: one printable line of bounded length without secrets.
func (r redactor) text(s string) string {
	if plain := printable.Plain(s); plain != s {
		if hidden := r.hide(plain); hidden != plain {
			s = hidden // a colour or an invisible character was within a secret
		}
	}
	return printable.Line(printable.Flat(r.hide(s)), 1024)
}

func (r redactor) hide(s string) string {
	s = r.secrets.Replace(s)
	if r.live != nil {
		for _, secret := range r.live() {
			s = strings.ReplaceAll(s, secret, "[redacted]")
		}
	}
	return s
}

// secretsOf returns the values in a server's entry that must not be displayed.
func secretsOf(srv config.Server) []string {
	var values []string
	for name, v := range srv.Env {
		if !ordinary(name) {
			values = append(values, v.Reveal())
		}
	}
	for _, v := range srv.Headers {
		values = append(values, v.Reveal())
	}
	for _, v := range srv.Secrets {
		values = append(values, variableSecrets(v.Reveal(), srv.URL.Reveal())...)
	}
	return append(values, urlSecrets(srv.URL.Reveal())...)
}

// ordinary reports whether a variable contains folders, names or a language, which errors mention. The
// URL of a proxy may contain a password.
func ordinary(name string) bool {
	return !strings.HasSuffix(strings.ToLower(name), "_proxy") &&
		slices.ContainsFunc(process.Inherited(), func(n string) bool { return strings.EqualFold(n, name) })
}

// variableSecrets returns the parts of a variable's value that must not be displayed. The server's
// host is excluded, because errors must mention it.
func variableSecrets(value, address string) []string {
	if u, err := url.Parse(address); err == nil && strings.Contains(u.Host, value) {
		return nil
	}
	if u, err := url.Parse(value); err == nil && u.Host != "" {
		path := strings.Trim(u.Path, "/")
		return append(urlSecrets(value), path, strings.Trim(u.EscapedPath(), "/"), u.Fragment)
	}
	return []string{value, url.QueryEscape(value), url.PathEscape(value), (&url.URL{Path: value}).EscapedPath()}
}

// urlSecrets returns the parts of a URL that must not be displayed.
func urlSecrets(raw string) []string {
	u, err := url.Parse(raw)
	if err != nil {
		return []string{raw}
	}
	var secrets []string
	if u.User != nil {
		password, _ := u.User.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		secrets = append(secrets, u.User.Username(), password, url.QueryEscape(password), basic, strings.TrimRight(basic, "="))
	}
	for _, values := range u.Query() {
		for _, v := range values {
			secrets = append(secrets, v, url.QueryEscape(v))
		}
	}
	return secrets
}
