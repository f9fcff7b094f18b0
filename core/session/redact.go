package session

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// redactor removes the secrets of one server from texts that come from the server, its child or
// a library.
type redactor struct {
	secrets *strings.Replacer
	live    func() []string // returns the secrets that change, such as tokens; nil: there are none
}

// minSecret is the least length of a value that is redacted: replacing every "1" or "true"
// would only garble messages.
const minSecret = 6

func newRedactor(values []string) redactor {
	var secrets, pairs []string
	for _, v := range values {
		secrets = append(append(secrets, strings.Fields(v)...), v)
	}
	// Longest first: if one value is a prefix of another, replacing it first would leave the
	// rest of the longer one visible.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, s := range secrets {
		if len(s) >= minSecret {
			pairs = append(pairs, s, "[redacted]")
		}
	}
	return redactor{secrets: strings.NewReplacer(pairs...)}
}

// text makes s safe to show: one line, printable, bounded, without secrets.
func (r redactor) text(s string) string {
	s = r.secrets.Replace(s)
	if r.live != nil {
		for _, secret := range r.live() {
			s = strings.ReplaceAll(s, secret, "[redacted]")
		}
	}
	return printable.Line(s, 1024)
}

// secretsOf returns the values in a server's entry that must not be shown.
func secretsOf(srv config.Server) []string {
	var values []string
	for _, v := range srv.Env {
		values = append(values, v.Reveal())
	}
	for _, v := range srv.Headers {
		values = append(values, v.Reveal())
	}
	for _, v := range srv.Secrets {
		values = append(values, variableSecrets(v.Reveal(), srv.URL.Reveal())...)
	}
	return append(values, urlSecrets(srv.URL.Reveal())...)
}

// variableSecrets returns the parts of a variable's value that must not be shown. The host that
// is connected to may be shown: errors have to name it.
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

// urlSecrets are the parts of a URL that must not be shown.
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
