package login

import (
	"net/url"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Target is a server that may require a login.
type Target struct {
	ID    string // as in the config; used in messages
	URL   string // without user info, query and fragment, which may be secret
	OAuth config.OAuth

	flags string // of the command line that logs in; see [Options]
}

// TargetOf returns the target for a server of the config. Its URL is "" unless the server is
// reached over HTTP.
func TargetOf(srv config.Server) Target {
	t := Target{ID: srv.ID, OAuth: srv.OAuth}
	if srv.Transport != config.TransportHTTP && srv.Transport != config.TransportSSE {
		return t
	}
	if u, err := url.Parse(srv.URL.Reveal()); err == nil && u.Host != "" {
		u.User, u.RawQuery, u.ForceQuery, u.Fragment, u.RawFragment = nil, "", false, "", ""
		u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
		t.URL = u.String()
	}
	return t
}

// Command returns the command line that logs in to the server.
func (t Target) Command() string {
	id := printable.Line(t.ID, 128)
	if strings.ContainsFunc(id, func(r rune) bool { return !strings.ContainsRune("-_./@", r) && !isWord(r) }) || strings.HasPrefix(id, "-") {
		id = "'" + strings.ReplaceAll(id, "'", `'\''`) + "'"
	}
	return strings.TrimSpace("mcptrack login " + id + " " + t.flags)
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r > 0x7f
}

// matches reports whether a login fits the target's config: its grant, and its client ID if
// the config has one.
func (t Target) matches(l *Login) bool {
	if id := t.OAuth.ClientID; id != "" && l.Client.ID != id {
		return false
	}
	return (t.OAuth.Grant == config.GrantClient) == (l.Grant == config.GrantClient)
}

// origin returns scheme and host of a URL, "" if the URL is invalid.
func origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Host)
}

// binds reports whether a resource identifier includes the URL: they have the same origin, and
// the identifier's path is a prefix of the URL's in whole segments.
func binds(resource, address string) bool {
	r, err := url.Parse(resource)
	if err != nil || r.User != nil || r.Fragment != "" || r.RawQuery != "" || origin(resource) == "" || origin(resource) != origin(address) {
		return false
	}
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	have, want := segments(u), segments(r)
	return len(want) <= len(have) && slices.Equal(want, have[:len(want)])
}

func segments(u *url.URL) []string {
	path := strings.Trim(u.EscapedPath(), "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}
