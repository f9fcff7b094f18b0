package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// Index says whether the gateway serves an index of all capabilities; see
// core/gateway/capindex. Its zero value leaves everything to the defaults.
type Index struct {
	Enabled bool
	Expose  []string      // of IndexDocuments; none means all
	TTL     time.Duration // how long a generated index is valid; 0: the default
}

// IndexDocuments are the names that an index can expose.
func IndexDocuments() []string { return []string{"summary", "full", "stats"} }

// index reads the key "index" of the document.
func (r *reader) index(v *tree.Node) Index {
	if v.Kind != tree.Object {
		r.errorAt(v.Offset, "/index", CodeType, fmt.Sprintf(`Config at %s has invalid "index"; expected object`, r.file),
			`write {"enabled": true}`)
		return Index{}
	}
	e := r.entry(v, "/index", "Index")
	x := Index{Enabled: e.boolean("enabled", false), TTL: e.duration("ttl", 0, time.Millisecond)}
	names, raw := e.strings("expose", func(i int) string {
		return fmt.Sprintf(`Index has invalid "expose" at index %d; expected string`, i)
	})
	for i, name := range names {
		if !slices.Contains(IndexDocuments(), name) {
			r.errorAt(raw[i].Offset, e.path.key("expose"), CodeValue,
				fmt.Sprintf(`Index has no document %s`, quote(name)), "choose from "+strings.Join(IndexDocuments(), ", "))
		}
	}
	x.Expose = names
	r.unknownKeys(v, "/index", "Index", []string{"enabled", "expose", "ttl"}, nil)
	return x
}
