package web

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
)

// netAddr is the address of the listener; the zero value before Listen.
type netAddr struct {
	host string // as given to Listen, or the IP address if none was given
	port string
}

// Listen listens on a TCP address such as "127.0.0.1:8722"; port 0 selects a free
// port. A non-loopback address requires a token of at least 128 bits; without one, and
// for an invalid address, the error is an *[OptionError]. Connections are accepted once
// it returns, and wait for Serve.
func (s *Server) Listen(ctx context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, &OptionError{"addr", fmt.Sprintf("invalid address %q; expected HOST:PORT", printable.Line(addr, 128))}
	}
	// Resolve once, so that the address that is checked is the one that is bound.
	var resolver net.Resolver
	ip := netip.IPv6Unspecified()
	if host != "" {
		ips, err := resolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return nil, fmt.Errorf("cannot listen on %s: %w", printable.Line(addr, 128), printable.Unnamed(err))
		}
		ip = ips[0].Unmap()
		for _, other := range ips { // prefer IPv4, as net.Listen does: for localhost 127.0.0.1 rather than ::1
			if other = other.Unmap(); other.Is4() && !ip.Is4() {
				ip = other
			}
		}
	}
	number, err := resolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, &OptionError{"addr", fmt.Sprintf("invalid port %q", printable.Line(port, 64))}
	}
	if !ipscope.LoopbackAddr(ip) {
		if err := s.checkExposed(addr); err != nil {
			return nil, err
		}
	}
	network := "tcp"
	if host == "0.0.0.0" {
		network = "tcp4" // "tcp" would also listen on IPv6
	}
	bind := netip.AddrPortFrom(ip, uint16(number)).String()
	if host == "" {
		bind = net.JoinHostPort("", fmt.Sprint(number)) // both families, or the one there is
	}
	ln, err := new(net.ListenConfig).Listen(ctx, network, bind)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", printable.Line(addr, 128), printable.Unnamed(err))
	}
	boundHost, boundPort, _ := net.SplitHostPort(ln.Addr().String())
	if host == "" {
		host = boundHost
	}
	s.addr = netAddr{host: host, port: boundPort}
	return ln, nil
}

// checkExposed checks the options for an address that other machines can reach.
func (s *Server) checkExposed(addr string) error {
	if !s.opts.Tokens.Set() {
		return &OptionError{"addr", fmt.Sprintf(
			"%s is reachable from other machines: a token is required (--token-file), or listen on 127.0.0.1", printable.Line(addr, 128))}
	}
	if err := s.opts.Tokens.require(minBits); err != nil {
		return err
	}
	if s.opts.TLS == nil && !s.opts.TrustProxy {
		s.opts.Logger.Warn("the token is sent unencrypted; use --tls-cert and --tls-key, or a proxy with TLS and --trust-proxy",
			"addr", printable.Line(addr, 128))
	}
	return nil
}

// URL returns the address of the server, such as "http://127.0.0.1:8722", or "" before
// Listen.
func (s *Server) URL() string {
	if s.addr.port == "" {
		return ""
	}
	scheme := "http://"
	if s.opts.TLS != nil {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(s.addr.host, s.addr.port)
}
