package web

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
)

// hostAllowed reports whether Host is a name of this server. An IP address must be
// the local address of the connection; names other than localhost must be configured,
// since anybody can make a name resolve to this address.
func (s *Server) hostAllowed(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	for _, o := range s.origins {
		if host == o.host || host == o.host+o.defaultPort() {
			return true
		}
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	at, ok := local.(*net.TCPAddr)
	if !ok {
		return false
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil { // without a port
		name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), "80"
		if r.TLS != nil {
			port = "443"
		}
	}
	if port != fmt.Sprint(at.Port) {
		return false
	}
	here := at.AddrPort().Addr().Unmap()
	if name == "localhost" {
		return ipscope.LoopbackAddr(here)
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (ip.Unmap() == here || ipscope.LoopbackAddr(ip) && ipscope.LoopbackAddr(here))
}

// originAllowed reports whether the request may be served: it comes from no web page, from a page
// of this server, or from one of Options.Origins, which other then is.
func (s *Server) originAllowed(r *http.Request) (other string, ok bool) {
	switch values := r.Header.Values("Origin"); len(values) {
	case 0:
	case 1:
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		text := strings.ToLower(values[0])
		if slices.ContainsFunc(s.origins, func(o origin) bool { return o.String() == text }) {
			return values[0], true
		}
		if text != scheme+strings.ToLower(r.Host) {
			return "", false
		}
	default:
		return "", false
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return "", false
		}
	}
	return "", true
}

// origin is scheme, host and port of a site, in lower case and without a default
// port, as in the Origin header.
type origin struct{ scheme, host string }

func (o origin) String() string { return o.scheme + "://" + o.host }

// defaultPort is the suffix that a Host header may have although the origin has no port.
func (o origin) defaultPort() string {
	if o.scheme == "https" {
		return ":443"
	}
	return ":80"
}

func parseOrigin(text string) (origin, error) {
	refuse := func(why string) (origin, error) {
		return origin{}, &OptionError{"allow-origin", fmt.Sprintf("%q %s", printable.Line(text, 128), why)}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return refuse(`is not an origin; expected "https://HOST[:PORT]"`)
	case u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return refuse("must have only scheme, host and port")
	case strings.ContainsAny(u.Host, "*") || strings.HasSuffix(u.Hostname(), "."):
		return refuse("must have an exact host name")
	}
	o := origin{u.Scheme, strings.ToLower(u.Host)}
	o.host = strings.TrimSuffix(o.host, o.defaultPort())
	return o, nil
}
