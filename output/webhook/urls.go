package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// URLs is a set of URL globs of the form SCHEME://HOST[:PORT][/PATH]. Each part of a glob is matched
// against the same part of a URL, so a wildcard never matches across parts:
//
//   - The scheme is https, or http for 127.0.0.1 and [::1].
//   - In the host, "*" matches within a label, and a label "**" matches one or more labels.
//   - The port is a number, or "*" for any port; the default is the scheme's default port.
//   - In the path, "*" matches within a segment, and a segment "**" matches any number of segments.
//     A missing path or a path that ends in "**" matches any query; other paths match no query.
type URLs struct{ globs []urlGlob }

type urlGlob struct {
	scheme string
	host   string     // labels separated by slashes; empty if the host is an address
	addr   netip.Addr // address, if the host is one
	port   string     // "*" matches any port
	path   string     // "" matches any path
}

// ParseURLs parses globs. Its error is suitable for users.
func ParseURLs(globs []string) (u URLs, err error) {
	for _, g := range globs {
		parsed, err := parseURLGlob(g)
		if err != nil {
			return URLs{}, fmt.Errorf("invalid glob %q: %w", printable.Line(g, 200), err)
		}
		u.globs = append(u.globs, parsed)
	}
	return u, nil
}

func parseURLGlob(g string) (u urlGlob, err error) {
	scheme, rest, ok := strings.Cut(g, "://")
	u.scheme = strings.ToLower(scheme)
	if !ok || u.scheme != "https" && u.scheme != "http" {
		return u, errors.New("it must start with https://")
	}
	end := strings.IndexByte(rest+"/", '/')
	host, path := strings.ToLower(rest[:end]), rest[end:]
	if strings.ContainsAny(g, "?#@") {
		return u, errors.New("it must not contain a query, fragment or user")
	}
	u.path, u.port = path, defaultPort(u.scheme)
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		host, u.port = host[:colon], host[colon+1:]
		if n, err := strconv.ParseUint(u.port, 10, 16); u.port != "*" && (err != nil || n == 0 || strconv.FormatUint(n, 10) != u.port) {
			return u, errors.New(`the port must be a number or "*"`)
		}
	}
	if u.addr, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")); err != nil {
		labels := strings.Split(host, ".")
		for i, label := range labels {
			if label == "" || strings.ContainsFunc(label, func(r rune) bool {
				return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-_*{,}", r)
			}) {
				return u, errors.New("the host is invalid")
			}
			if label == "**" {
				labels[i] = "*/**" // one or more labels
			}
		}
		u.host = strings.Join(labels, "/")
	}
	if u.scheme == "http" && !isLocal(u.addr) {
		return u, errors.New("http:// is only for 127.0.0.1 and [::1]")
	}
	if u.host != "" && !glob.Valid(u.host) || u.path != "" && !glob.Valid(u.path) {
		return u, errors.New("the wildcards are malformed")
	}
	return u, nil
}

// isLocal reports whether an address belongs to this machine and may be opened for tests.
func isLocal(a netip.Addr) bool {
	return a == netip.AddrFrom4([4]byte{127, 0, 0, 1}) || a == netip.IPv6Loopback()
}

func defaultPort(scheme string) string {
	return map[string]string{"http": "80", "https": "443"}[scheme]
}

// Local returns the addresses and ports of this machine that the globs contain; port 0 means all
// ports.
func (u URLs) Local() (all []netip.AddrPort) {
	for _, g := range u.globs {
		if isLocal(g.addr) {
			port, _ := strconv.ParseUint(g.port, 10, 16) // 0 for "*"
			all = append(all, netip.AddrPortFrom(g.addr, uint16(port)))
		}
	}
	return all
}

// match reports whether at least one glob matches a URL.
func (u URLs) match(raw string) bool {
	is, err := url.Parse(raw)
	if err != nil || is.Opaque != "" || is.User != nil {
		return false
	}
	return slices.ContainsFunc(u.globs, func(g urlGlob) bool { return g.match(is) })
}

func (g urlGlob) match(u *url.URL) bool {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	if u.Scheme != g.scheme || g.port != "*" && g.port != port {
		return false
	}
	if addr, err := netip.ParseAddr(host); g.addr.IsValid() && (err != nil || addr != g.addr) {
		return false
	}
	if !g.addr.IsValid() && (slices.Contains(strings.Split(host, "."), "") || !glob.Match(g.host, strings.ReplaceAll(host, ".", "/"))) {
		return false
	}
	if g.path == "" {
		return true
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return isPlainPath(path) && glob.Match(g.path, path) && (u.RawQuery == "" && !u.ForceQuery || strings.HasSuffix(g.path, "/**"))
}

// isPlainPath reports whether all servers interpret a path as the same segments. Servers remove dot
// segments, and some decode slashes or ignore the text after a semicolon.
func isPlainPath(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		text, err := url.PathUnescape(segment)
		if name, _, _ := strings.Cut(text, ";"); err != nil || name == "." || name == ".." || strings.ContainsAny(text, `/\%`) {
			return false
		}
	}
	return true
}
