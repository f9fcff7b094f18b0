package lock

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkLock measures a lock of 20 servers with 1,000 tools each.
func BenchmarkLock(b *testing.B) {
	l := New()
	for s := range 20 {
		o := offers("legacy")
		for i := range 1000 {
			o.Items[SectionTools] = append(o.Items[SectionTools], tool(fmt.Sprintf("tool%04d", i), strings.Repeat("Reads a file and more. ", 30)))
		}
		l.Servers[fmt.Sprint("s", s)], _ = Merge(o)
	}
	data, err := Marshal(l)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("parse", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := Parse(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("marshal", func(b *testing.B) {
		for b.Loop() {
			if _, err := Marshal(l); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compare", func(b *testing.B) {
		o := offers("legacy", l.Servers["s0"].Items[SectionTools]...)
		for b.Loop() {
			if drifts := Compare(l.Servers["s0"], o); len(drifts) > 0 {
				b.Fatal(text(drifts))
			}
		}
	})
	b.Run("item", func(b *testing.B) {
		definition := l.Servers["s0"].Items[SectionTools][0].Definition
		for b.Loop() {
			l.Hashing.Item(SectionTools, definition)
		}
	})
}
