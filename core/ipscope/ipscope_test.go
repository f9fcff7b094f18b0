package ipscope_test

import (
	"net/netip"
	"testing"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/ipscope/ipscopetest"
)

// The first and last address of every block of the registries, and the neighbours of the block.
func TestPublic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, last   string
		before, after string // neighbours that are public; "": they are in another block
	}{
		// IPv4
		{"0.0.0.0", "0.255.255.255", "", "1.0.0.0"},
		{"10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"},
		{"100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"},
		{"127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"},
		{"169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"},
		{"172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"},
		{"192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"},
		{"192.0.0.9", "192.0.0.10", "", ""},
		{"192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"},
		{"192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"},
		{"192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"},
		{"198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"},
		{"198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"},
		{"203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"},
		{"224.0.0.0", "239.255.255.255", "223.255.255.255", ""},
		{"240.0.0.0", "255.255.255.255", "", ""},
		// IPv6
		{"::", "::1", "", ""},
		{"::2", "::ffff:ffff", "", ""},                                // IPv4-compatible
		{"::808:808", "::808:808", "", ""},                            // 8.8.8.8 as such
		{"64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "", ""}, // NAT64 with a prefix of its own
		{"64:ff9b:1::808:808", "64:ff9b:1::808:808", "", ""},
		{"64:ff9b:0:0:0:1::", "64:ff9b:0:ffff:ffff:ffff:ffff:ffff", "", ""},
		{"100::", "100::ffff:ffff:ffff:ffff", "", ""},            // discard
		{"100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff", "", ""}, // dummy
		{"1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", "2000::"},
		{"2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::"},
		{"2001:0:808:808::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "", ""},                                             // Teredo
		{"2001:1::1", "2001:1::3", "", ""},                                                                               // anycast
		{"2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff", "", ""},                                                        // benchmarks
		{"2001:10::", "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff", "", ""},                                                   // ORCHID, DRIP
		{"2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::"}, // documentation
		{"2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::"},       // 6to4
		{"2002:808:808::1", "2002:808:808::1", "", ""},
		{"3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::"}, // documentation
		{"4000::", "4000::1", "3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},                                           // not allocated
		{"5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", ""},                                                  // SRv6
		{"fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", ""},
		{"fd00:ec2::254", "fd00:ec2::254", "", ""}, // metadata of a cloud
		{"fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", ""},
		{"fe80::1%eth0", "fe80::1%eth0", "", ""},
		{"fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", ""}, // site-local
		{"ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "", ""},
	} {
		for _, s := range []string{c.first, c.last} {
			if ipscope.Public(netip.MustParseAddr(s)) {
				t.Errorf("%s is public", s)
			}
		}
		for _, s := range []string{c.before, c.after} {
			if s != "" && !ipscope.Public(netip.MustParseAddr(s)) {
				t.Errorf("%s is not public", s)
			}
		}
	}
	if ipscope.Public(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// An IPv4-mapped or NAT64 address is public exactly if its IPv4 address is.
func TestEmbeddedAddresses(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"::ffff:", "64:ff9b::"} {
		for v4, want := range map[string]bool{
			"8.8.8.8": true, "1.0.0.0": true, "172.32.0.0": true, "127.0.0.1": false, "10.0.0.1": false, "169.254.169.254": false, "0.0.0.0": false,
			"100.64.0.1": false, "192.168.1.1": false, "198.18.0.1": false, "224.0.0.1": false, "255.255.255.255": false, "192.0.2.1": false,
		} {
			if addr := netip.MustParseAddr(prefix + v4); ipscope.Public(addr) != want {
				t.Errorf("%s: public is %t", addr, !want)
			}
		}
	}
	if ipscope.Public(netip.MustParseAddr("64:ff9b::10.0.0.1%eth0")) || !ipscope.Public(netip.MustParseAddr("2606:4700::1111%eth0")) {
		t.Error("a zone changes the result")
	}
}

// The list for the tests of guards holds addresses that are not public, and hosts are judged like
// their addresses.
func TestPrivate(t *testing.T) {
	t.Parallel()
	for _, host := range ipscopetest.NotPublic() {
		if ipscope.Public(netip.MustParseAddr(host)) || !ipscope.Private(host) {
			t.Errorf("%s is public", host)
		}
	}
	for host, want := range map[string]bool{
		"localhost": true, "api.localhost": true, "8.8.8.8": false, "64:ff9b::8.8.8.8": false, "2606:4700::1111": false,
		"intranet.example": false, "": false, // names are not resolved
	} {
		if ipscope.Private(host) != want {
			t.Errorf("%q: private is %t", host, !want)
		}
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "localhost.": true, "a.localhost": true, "127.0.0.1": true, "127.255.0.3": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example": false, "notlocalhost": false, "128.0.0.1": false, "::2": false, "10.0.0.1": false, "0.0.0.0": false, "64:ff9b::127.0.0.1": false,
	} {
		if got := ipscope.Loopback(host); got != want {
			t.Errorf("%q: %t", host, got)
		}
		if got := ipscope.ThisMachine(host); got != (want && host != "a.localhost") {
			t.Errorf("%q is this machine: %t", host, got)
		}
		if addr, err := netip.ParseAddr(host); err == nil && ipscope.LoopbackAddr(addr) != want {
			t.Errorf("%q is a loopback address: %t", host, !want)
		}
	}
}
