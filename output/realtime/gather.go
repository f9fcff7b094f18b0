package realtime

import (
	"encoding/binary"
	"io"
)

// gatherer combines the pieces of a WebSocket frame, which the library writes in units of
// 4 KiB, into one write: otherwise each piece would wake the other side, and be a separate
// packet and TLS record. It must be used by one goroutine at a time.
type gatherer struct {
	w    io.Writer
	held []byte   // the beginning of a frame
	head [14]byte // of the next frame, up to its payload
	have int      // bytes in head
	left uint64   // bytes of the frame's payload that were not written yet
}

// maxHeld is how many bytes of a frame are held.
const maxHeld = 64 << 10

// Write implements [io.Writer]. An incomplete frame may be held until more is written.
func (g *gatherer) Write(b []byte) (int, error) {
	if whole := g.follow(b); !whole && len(g.held)+len(b) <= maxHeld {
		g.held = append(g.held, b...)
		return len(b), nil
	}
	if len(g.held) == 0 {
		return g.w.Write(b)
	}
	g.held = append(g.held, b...)
	_, err := g.w.Write(g.held)
	if g.held = g.held[:0]; cap(g.held) > maxHeld {
		g.held = nil
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// follow parses frames (RFC 6455, §5.2) and reports whether b ends where a frame ends.
func (g *gatherer) follow(b []byte) (whole bool) {
	for len(b) > 0 {
		if g.left > 0 {
			n := min(g.left, uint64(len(b)))
			g.left -= n
			b = b[n:]
			continue
		}
		g.head[g.have] = b[0]
		g.have++
		b = b[1:]
		if g.have < 2 {
			continue
		}
		size := uint64(g.head[1] & 0x7f)
		length := 2
		switch size {
		case 126:
			length += 2
		case 127:
			length += 8
		}
		masked := g.head[1]&0x80 != 0
		if masked {
			length += 4
		}
		if g.have < length {
			continue
		}
		switch size {
		case 126:
			size = uint64(binary.BigEndian.Uint16(g.head[2:]))
		case 127:
			size = binary.BigEndian.Uint64(g.head[2:])
		}
		g.have, g.left = 0, size
	}
	return g.have == 0 && g.left == 0
}
