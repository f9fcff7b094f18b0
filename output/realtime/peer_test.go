package realtime

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// writes records each write.
type writes [][]byte

func (w *writes) Write(b []byte) (int, error) {
	*w = append(*w, bytes.Clone(b))
	return len(b), nil
}

func frame(masked bool, size int) []byte {
	b := []byte{0x82}
	mask := byte(0)
	if masked {
		mask = 0x80
	}
	switch {
	case size < 126:
		b = append(b, mask|byte(size))
	case size < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(size))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(size))
	}
	if masked {
		b = append(b, 1, 2, 3, 4)
	}
	return append(b, bytes.Repeat([]byte{byte(size)}, size)...)
}

// However frames are split into pieces, all bytes are written in order, nothing is held once a frame
// is complete, and a frame within the limit is one write.
func TestGatherer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var out writes
		g := &gatherer{w: &out}
		var want []byte
		masked := random.IntN(2) == 0
		for range 5 {
			size := []int{0, 1, 125, 126, 4088, 4096, 10_000, 60_000, 65_535, 65_536, 200_000}[random.IntN(11)]
			b := frame(masked, size)
			want = append(want, b...)
			before := len(out)
			for rest := b; len(rest) > 0; {
				n := min(len(rest), 1+random.IntN(5000))
				if m, err := g.Write(rest[:n]); m != n || err != nil {
					t.Fatalf("%d, %v", m, err)
				}
				rest = rest[n:]
			}
			if len(g.held) != 0 {
				t.Fatalf("%d bytes of a whole frame of %d are held", len(g.held), size)
			}
			if n := len(out) - before; len(b) <= maxHeld && n != 1 {
				t.Fatalf("a frame of %d was written in %d pieces", size, n)
			}
		}
		if !bytes.Equal(bytes.Join(out, nil), want) {
			t.Fatal("it is not what was written")
		}
	}
	// Consecutive frames in one write.
	var out writes
	g := &gatherer{w: &out}
	two := append(frame(true, 300), frame(true, 10_000)...)
	_, _ = g.Write(two[:4096])
	_, _ = g.Write(two[4096:])
	if len(out) != 1 || !bytes.Equal(out[0], two) || len(g.held) != 0 {
		t.Errorf("%d writes", len(out))
	}
	// The failing write returns the error.
	g = &gatherer{w: failing{}}
	b := frame(false, 1000)
	if _, err := g.Write(b[:500]); err != nil {
		t.Error(err)
	}
	if _, err := g.Write(b[500:]); err == nil {
		t.Error("no error")
	}
}
