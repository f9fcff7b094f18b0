package filewatch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkSave measures from the return of a save to its delivery. Run it with
// -benchtime 50x.
func BenchmarkSave(b *testing.B) {
	inPlace := func(path string, content []byte) error { return os.WriteFile(path, content, 0o644) }
	saves := map[string]func(string, []byte) error{
		"InPlace": inPlace,
		"Rename": func(path string, content []byte) error {
			must(b, inPlace(path+".tmp", content))
			return os.Rename(path+".tmp", path)
		},
	}
	for name, save := range saves {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "c.json")
			put(b, path, "first")
			f := start(b, path, onlyEvents())
			wantContent(b, f, "first")
			content := []byte(strings.Repeat("x", 4096))
			var took []time.Duration
			for b.Loop() {
				content[len(took)%len(content)]++
				must(b, save(path, content))
				saved := time.Now()
				wantContent(b, f, string(content))
				took = append(took, time.Since(saved))
			}
			slices.Sort(took)
			quantile := func(q float64) float64 { return took[int(q*float64(len(took)-1))].Seconds() * 1000 }
			b.ReportMetric(quantile(0.5), "p50-ms")
			b.ReportMetric(quantile(0.99), "p99-ms")
		})
	}
}
