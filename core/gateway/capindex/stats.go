package capindex

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/textindex"
)

// indexStatistics describes the text index.
type indexStatistics struct {
	DocumentCount     int     `json:"document_count"`
	VocabularySize    int     `json:"vocabulary_size"`
	AvgDocumentLength float64 `json:"avg_document_length"`
	MemoryUsageKB     int     `json:"memory_usage_kb"`
}

// cacheStatistics describes a generation, which holds all exposed documents.
type cacheStatistics struct {
	Entries    int     `json:"entries"`
	TTLSeconds float64 `json:"ttl_seconds"`
}

// stats returns the document capability-index://stats, which is made for programs. Its size
// does not depend on the view.
func stats(v View, x textindex.Stats, ttl time.Duration, exposed []string) stamped {
	const stamp = "@" // cannot occur anywhere else in the document
	resources := map[string]string{}
	for _, name := range exposed {
		resources[name] = scheme + name
	}
	raw, _ := json.MarshalIndent(struct { // numbers and fixed strings always encode
		GeneratedAt string            `json:"generated_at"`
		Counts      map[string]int    `json:"element_counts"`
		Index       indexStatistics   `json:"index_statistics"`
		Cache       cacheStatistics   `json:"cache_statistics"`
		Resources   map[string]string `json:"resources"`
	}{stamp, v.counts(),
		indexStatistics{x.Documents, x.Terms, math.Round(x.AverageLength*100) / 100, (x.Bytes + 1023) / 1024},
		cacheStatistics{len(exposed), ttl.Seconds()}, resources}, "", "  ")
	before, after, _ := strings.Cut(string(raw), stamp)
	return stamped{before, after + "\n"}
}
