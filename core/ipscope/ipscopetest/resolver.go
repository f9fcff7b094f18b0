package ipscopetest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// Resolver returns a resolver of host names without a network. answer returns the addresses of a name; nth
// counts the lookups of a name from 0.
func Resolver(answer func(name string, nth int) []string) *net.Resolver {
	var mu sync.Mutex // guards asked
	asked := map[string]int{}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() { // ends with the connection, which the resolver closes after its answer or timeout
			defer func() { _ = ours.Close() }()
			var size [2]byte // no packet connection, so messages are framed as over TCP
			if _, err := io.ReadFull(ours, size[:]); err != nil {
				return
			}
			q := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(ours, q); err != nil {
				return
			}
			var labels []string
			at := 12
			for n := int(q[at]); n > 0; n = int(q[at]) {
				labels = append(labels, string(q[at+1:at+1+n]))
				at += 1 + n
			}
			question, kind := q[12:at+5], q[at+2]
			name := strings.ToLower(strings.Join(labels, "."))
			mu.Lock()
			nth := asked[name+string(kind)]
			asked[name+string(kind)]++
			mu.Unlock()
			var records []byte
			count := 0
			for _, s := range answer(name, nth) {
				addr := netip.MustParseAddr(s)
				if addr.Is4() != (kind == 1) {
					continue
				}
				records = append(records, 0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, byte(addr.BitLen()/8))
				records = append(records, addr.AsSlice()...)
				count++
			}
			p := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, byte(count), 0, 0, 0, 0}, question...)
			p = append(p, records...)
			_, _ = ours.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(p))), p...))
		}()
		return theirs, nil
	}}
}
