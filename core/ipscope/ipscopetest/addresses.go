// Package ipscopetest lists non-public addresses, and resolves names without a network, for tests of
// code that must refuse connections to private networks.
package ipscopetest

// NotPublic returns at least one address from every non-public block, in every form in which such
// an address can be written.
func NotPublic() []string {
	return []string{
		"127.0.0.1", "127.255.255.254", "::1", // loopback
		"0.0.0.0", "0.1.2.3", "::", // unspecified, "this network"
		"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", // private
		"fc00::1", "fd00::1", "fd00:ec2::254", // unique local, including a cloud's metadata service
		"169.254.169.254", "fe80::1", "fec0::1", // link-local, site-local
		"100.64.0.1", "100.127.255.255", // carrier-grade NAT
		"198.18.0.1", "198.19.255.255", "2001:2::1", // benchmarking
		"240.0.0.1", "255.255.255.255", "4000::1", // reserved, broadcast
		"224.0.0.1", "ff02::1", // multicast
		"192.0.0.1", "192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1", // IETF protocol assignments, documentation
		"192.88.99.1", "2002:7f00:1::1", "2002:808:808::1", // 6to4
		"2001::1", "2001:20::1", // Teredo, ORCHID
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:100.64.0.1", // IPv4-mapped
		"::127.0.0.1", "::8.8.8.8", // IPv4-compatible
		"64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::198.18.0.1", // NAT64
		"64:ff9b:1::8.8.8.8", // NAT64 with a local prefix
	}
}
