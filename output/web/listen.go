package web

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/mcptrack/mcptrack/core/printable"
)

// netAddr is what the server listens on.
type netAddr struct {
	host string // as asked for, or the IP
	port string
}

// Listen listens on a TCP address such as "127.0.0.1:8722"; port 0 picks one. An
// address that others can reach needs a token: without one, and for an address
// that is none, the error is an *[OptionError]. From its return on connections are
// taken, and wait for Serve.
func (s *Server) Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &OptionError{"addr", fmt.Sprintf("%q is no HOST:PORT", printable.Line(addr, 128))}
	}
	// Resolved once: what is checked is what is bound.
	var resolver net.Resolver
	ip := netip.IPv6Unspecified()
	if host != "" {
		ips, err := resolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, fmt.Errorf("listen on %s: %w", printable.Line(addr, 128), err)
		}
		ip = ips[0].Unmap()
		for _, other := range ips { // of localhost, 127.0.0.1 rather than ::1, as net.Listen does
			if other = other.Unmap(); other.Is4() && !ip.Is4() {
				ip = other
			}
		}
	}
	number, err := resolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, &OptionError{"addr", fmt.Sprintf("%q is no port", printable.Line(port, 64))}
	}
	if !ip.IsLoopback() && !s.opts.Token.Set() {
		return nil, &OptionError{"addr", fmt.Sprintf(
			"%s can be reached by others, so it needs a token (--token-file), or listen on 127.0.0.1", printable.Line(addr, 128))}
	}
	network := "tcp"
	if host == "0.0.0.0" {
		network = "tcp4" // as who wrote that expects
	}
	bind := netip.AddrPortFrom(ip, uint16(number)).String()
	if host == "" {
		bind = net.JoinHostPort("", fmt.Sprint(number)) // both families, or the one there is
	}
	ln, err := new(net.ListenConfig).Listen(ctx, network, bind)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", printable.Line(addr, 128), err)
	}
	boundHost, boundPort, _ := net.SplitHostPort(ln.Addr().String())
	if host == "" {
		host = boundHost
	}
	s.addr = netAddr{host: host, port: boundPort}
	return ln, nil
}

// URL is where the server is: "http://127.0.0.1:8722". It is known after Listen,
// and "" before that.
func (s *Server) URL() string {
	if s.addr.port == "" {
		return ""
	}
	return "http://" + net.JoinHostPort(s.addr.host, s.addr.port)
}
