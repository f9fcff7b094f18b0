package config

import (
	"net/url"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/glob"
)

// A Summary is what validate --json prints of one server.
type Summary struct {
	ID             string    `json:"id"`
	Transport      Transport `json:"transport"`
	Enabled        bool      `json:"enabled"`
	TrackResources bool      `json:"trackResources"`
}

// Summaries returns the servers in the order of the file, never nil. A nil
// Config has none.
func (c *Config) Summaries() []Summary {
	if c == nil {
		return []Summary{}
	}
	out := make([]Summary, len(c.Servers))
	for i := range c.Servers {
		s := &c.Servers[i]
		out[i] = Summary{ID: s.ID, Transport: s.Transport, Enabled: s.Enabled, TrackResources: s.TrackResources}
	}
	return out
}

// Tracked counts the servers of which anything is followed.
func (c *Config) Tracked() int {
	n := 0
	if c != nil {
		for i := range c.Servers {
			if c.Servers[i].Tracked() {
				n++
			}
		}
	}
	return n
}

// Server returns the server with the ID.
func (c *Config) Server(id string) (Server, bool) {
	if c != nil {
		for i := range c.Servers {
			if c.Servers[i].ID == id {
				return c.Servers[i], true
			}
		}
	}
	return Server{}, false
}

// With returns the config with other servers and everything else as it is.
func (c *Config) With(servers []Server) *Config {
	out := *c
	out.Servers = servers
	return &out
}

// Only returns the config with the servers for which keep returns true, and everything else as it
// is.
func (c *Config) Only(keep func(Server) bool) *Config {
	return c.With(slices.DeleteFunc(slices.Clone(c.Servers), func(s Server) bool { return !keep(s) }))
}

// Endpoint returns the URL for messages and logs: without user info, query and fragment, which
// may contain credentials, and with "[secret]" for values of Secrets in its path. It is "" for
// stdio.
func (s Server) Endpoint() string {
	u, err := url.Parse(s.URL.Reveal())
	if err != nil || u.Host == "" {
		return ""
	}
	path := u.EscapedPath()
	for _, secret := range s.Secrets {
		value := secret.Reveal()
		if own, err := url.Parse(value); err == nil && own.Host != "" {
			value = own.Path // the variable is the URL, or its beginning
		}
		if value = strings.Trim(value, "/"); len(value) >= 6 { // shorter ones match by chance
			whole := (&url.URL{Path: value}).EscapedPath()
			path = strings.NewReplacer(value, redacted, url.PathEscape(value), redacted, whole, redacted).Replace(path)
		}
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() + path
}

// Selects reports whether the resource URI passes Include and Exclude: no
// include glob, or one that matches, and no exclude glob that matches. It does
// not look at TrackResources.
//
// Globs are those of core/glob: "*" stays within one path segment, "**" as a
// whole segment crosses them, {a,b} and [a-z] as usual.
func (s Server) Selects(uri string) bool {
	matches := func(globs []string) bool {
		return slices.ContainsFunc(globs, func(g string) bool { return glob.Match(g, uri) })
	}
	return (len(s.Include) == 0 || matches(s.Include)) && !matches(s.Exclude)
}
