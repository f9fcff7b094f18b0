package vault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// bigVault is a folder of notes of some 2 KiB, with tags and links.
func bigVault(b testing.TB, notes int) string {
	dir := b.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range notes {
		var s strings.Builder
		fmt.Fprintf(&s, "---\ntags: [t%d, all]\n---\n# Note %d\n\n", i%300, i)
		for w := range 250 {
			fmt.Fprintf(&s, "word%d ", int(r.ExpFloat64()*800))
			if w%25 == 24 {
				fmt.Fprintf(&s, "[[n%d]] #x/y%d\n\n", r.IntN(notes), i%50)
			}
		}
		put(b, filepath.Join(dir, fmt.Sprintf("f%d/g%d/n%d.md", i%20, i%97, i)), s.String())
	}
	return dir
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkVault starts, searches and edits a vault of 10,000 notes. Run it with
// -benchtime 1x.
func BenchmarkVault(b *testing.B) {
	dir := bigVault(b, 10_000)
	for b.Loop() {
		before, began := heap(), time.Now()
		e := open(b, Options{Dir: dir}, recentURI, tagsURI, structureURI, folderURI("f1"))
		b.ReportMetric(time.Since(began).Seconds()*1000, "start-ms")
		b.ReportMetric(heap()-before, "heap-MiB")
		began = time.Now()
		_, total, err := e.Search(context.Background(), SearchOptions{Query: "word5 word90"})
		must(b, err)
		b.ReportMetric(time.Since(began).Seconds()*1000, "first-search-ms")
		b.ReportMetric(float64(total), "found")
		b.ReportMetric(heap()-before, "heap-searched-MiB")
		began = time.Now()
		for range 20 {
			_, _, err = e.Search(context.Background(), SearchOptions{Query: "word5 word90"})
			must(b, err)
		}
		b.ReportMetric(time.Since(began).Seconds()*1000/20, "search-ms")
	}
}
