package textindex

import (
	"fmt"
	"testing"
)

// notes is an index of 10,000 notes of 2 KiB.
func notes(b *testing.B) *Index[string] {
	x := New[string](Options{})
	for i, text := range corpus(10_000, 250) {
		x.Put(fmt.Sprintf("n%d.md", i), Field{Text: text})
	}
	return x
}

func BenchmarkPutNotes(b *testing.B) {
	texts := corpus(10_000, 250)
	for b.Loop() {
		before := heap()
		x := New[int](Options{})
		for i, text := range texts {
			x.Put(i, Field{Text: text})
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		b.ReportMetric(float64(x.Stats().Bytes)/(1<<20), "estimated-MiB")
	}
}

func BenchmarkPutElements(b *testing.B) {
	for b.Loop() {
		before := heap()
		x := New[int](Options{Term: English, Identifiers: true})
		for i := range 10_000 {
			name := fmt.Sprintf("read_note%d", i)
			x.Put(i, Field{Text: name, Weight: 3, Keywords: true}, Field{Text: fmt.Sprintf("Reads the notes of project %d "+
				"and writes a report about customer%d", i%97, i%1013), Keywords: true})
		}
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		b.ReportMetric(float64(x.Stats().Bytes)/(1<<20), "estimated-MiB")
	}
}

// BenchmarkReplace includes the share of the sweeps.
func BenchmarkReplace(b *testing.B) {
	x, texts := notes(b), corpus(100, 250)
	for i := 0; b.Loop(); i++ {
		x.Put(fmt.Sprintf("n%d.md", i%10_000), Field{Text: texts[i%100]})
	}
}

func BenchmarkSearch(b *testing.B) {
	x := notes(b)
	for name, q := range map[string]Query{
		"any":    {Text: "word5 word90"},
		"all":    {Text: "word5 word90", All: true},
		"prefix": {Text: "word5 word90", All: true, Prefix: Prefix{Min: 3}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if len(x.Search(q)) == 0 {
					b.Fatal("nothing was found")
				}
			}
		})
	}
}

func BenchmarkKeywords(b *testing.B) {
	x := New[int](Options{Term: English})
	for i, text := range corpus(10_000, 20) {
		x.Put(i, Field{Text: text, Keywords: true})
	}
	for b.Loop() {
		x.Keywords(30)
	}
}
