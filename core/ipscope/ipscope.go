// Package ipscope decides which addresses are on the public internet, and which hosts are this
// machine. All code that keeps requests away from private networks uses it, so that there is a
// single definition.
//
// # Source
//
// The definition of a public address follows IANA's registries of special-purpose addresses (RFC 6890;
// iana.org, iana-ipv4-special-registry and iana-ipv6-special-registry, as of 2025-10). An
// address is not public if its block is not globally reachable or is deprecated (6to4 and its
// relays, ORCHID, Teredo). Multicast, which the registries omit, is not public. In IPv6 only
// 2000::/3 is public, because nothing else is allocated to hosts.
//
// The registries call a few anycast services and identifiers inside such blocks reachable, for
// example 192.0.0.9 and 2001:20::/28. This package treats them as not public, because they are
// served by the local network or do not belong to hosts.
//
// # Addresses within addresses
//
// An IPv4 address that is written as IPv6 (::ffff:0:0/96), or that is reached through the NAT64
// of an IPv6 network (64:ff9b::/96), is treated as the IPv4 address. Such a network has no
// other access to IPv4, so NAT64 addresses are not refused. 6to4, Teredo, NAT64 with a local prefix
// (64:ff9b:1::/48) and IPv4-compatible addresses (::/96) are never public, whatever they embed.
package ipscope

import (
	"net/netip"
	"strings"
)

// special returns the address blocks that are not public, although netip classifies them as global
// unicast and the IPv6 blocks are within 2000::/3.
func special() [13]netip.Prefix {
	v4 := func(a, b, c byte, bits int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c}), bits)
	}
	v6 := func(a, b, c, d byte, bits int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{a, b, c, d}), bits)
	}
	return [...]netip.Prefix{
		v4(0, 0, 0, 8),                 // "this network"
		v4(100, 64, 0, 10),             // carrier-grade NAT
		v4(192, 0, 0, 24),              // IETF protocol assignments
		v4(192, 0, 2, 24),              // documentation
		v4(192, 88, 99, 24),            // 6to4 relays
		v4(198, 18, 0, 15),             // benchmarking
		v4(198, 51, 100, 24),           // documentation
		v4(203, 0, 113, 24),            // documentation
		v4(240, 0, 0, 4),               // reserved
		v6(0x20, 0x01, 0, 0, 23),       // IETF protocol assignments: Teredo, benchmarking, ORCHID and others
		v6(0x20, 0x01, 0x0d, 0xb8, 32), // documentation
		v6(0x20, 0x02, 0, 0, 16),       // 6to4
		v6(0x3f, 0xff, 0, 0, 20),       // documentation
	}
}

// Public reports whether an address is reachable on the public internet.
func Public(addr netip.Addr) bool {
	addr = embedded(addr)
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Is6() && addr.As16()[0]>>5 != 1 { // IPv6 outside 2000::/3 is not public
		return false
	}
	for _, p := range special() {
		if p.Contains(addr) {
			return false
		}
	}
	return true
}

// embedded returns the IPv4 address embedded in an IPv6 address, unless the embedding depends on a
// router's prefix. Otherwise it returns addr itself.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() {
		return addr
	}
	b := addr.As16()
	if [12]byte(b[:12]) == [12]byte{0, 0x64, 0xff, 0x9b} {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}

// Private reports whether a host is known not to be on the public internet: it is this machine or a
// non-public address. A host is a name or an address without brackets. Names are not resolved: any
// name that does not identify this machine is reported as not private.
func Private(host string) bool {
	addr, err := netip.ParseAddr(host)
	return Loopback(host) || err == nil && !Public(addr)
}

// Loopback reports whether a host is this machine. RFC 6761 reserves localhost and all names under
// it for that purpose.
func Loopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return strings.HasSuffix(host, ".localhost") || ThisMachine(host)
}

// ThisMachine is like Loopback, but excludes names under localhost, such as a.localhost. Some
// resolvers query a name server for those names, so a secret sent to them could leave this machine.
func ThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && LoopbackAddr(addr) || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

// LoopbackAddr reports whether an address is a loopback address, including an IPv4 loopback address
// mapped to IPv6.
func LoopbackAddr(addr netip.Addr) bool { return addr.Unmap().IsLoopback() }

// Network returns an IPv4 address, or the /64 network of an IPv6 address: what one client may have.
func Network(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, _ := ip.Prefix(bits) // never fails: the length is valid
	return p
}
