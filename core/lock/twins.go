package lock

import (
	"maps"
	"slices"
	"sort"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Twins returns the pairs of names that differ but look alike to people, or to models: by case, width,
// hidden characters, or characters that UTS #39 says are confusable (Cyrillic а and Latin a, but also
// l and 1). The result is sorted. Of several names that look alike, each is paired with the first in
// order only. Names of more than 1 KiB have no twins. Time is proportional to the size of the names,
// apart from sorting them.
//
// Compatibility forms such as width are from golang.org/x/text, which belongs to Go.
func Twins(names []string) [][2]string {
	var twins [][2]string
	known := looks{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		for _, other := range known.add(name) {
			twins = append(twins, [2]string{other, name})
		}
	}
	sort.Slice(twins, func(i, j int) bool { return slices.Compare(twins[i][:], twins[j][:]) < 0 })
	return slices.Compact(twins)
}

// looks has the first name of each appearance.
type looks map[string]string

// add adds a name, and returns the first names that look like it: one for each of its two appearances, if
// there is one.
func (l looks) add(name string) (others []string) {
	looks, small := appearance(name)
	for _, key := range []string{"a" + looks, "b" + small} {
		switch other, ok := l[key]; {
		case !ok:
			l[key] = name
		case other != name:
			others = append(others, other)
		}
	}
	return others
}

// markTwins marks the added items whose name looks like the name of an approved item, or of an added one
// before it. The drifts are of one section, sorted.
func markTwins(approved map[string][]Item, drifts []Drift) {
	if !slices.ContainsFunc(drifts, Drift.Added) {
		return
	}
	known := looks{}
	for _, name := range slices.Sorted(maps.Keys(approved)) {
		known.add(name)
	}
	for i := range drifts {
		d := &drifts[i]
		if !d.Added() || d.Key == "" {
			continue
		}
		if others := known.add(d.Key); len(others) > 0 {
			d.Twin = others[0]
			if !slices.Contains(d.Classes, classSuspicious) {
				d.Classes = slices.Sorted(slices.Values(append(d.Classes, classSuspicious)))
			}
		}
	}
}

// maxName is the size in bytes of the longest name that may have twins.
const maxName = 1 << 10

// appearance returns how a name looks as it is written and in lower case. The two find different
// twins: Cyrillic Н looks like H, and н does not look like h; I looks like l, and i does not.
func appearance(name string) (looks, small string) {
	if len(name) > maxName {
		return name, name
	}
	name = norm.NFKC.String(printable.Visible(name))
	return strings.ToLower(skeleton(name)), strings.ToLower(skeleton(strings.ToLower(name)))
}
