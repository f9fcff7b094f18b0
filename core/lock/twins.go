package lock

import (
	"cmp"
	"slices"
	"strings"

	"go.mau.fi/util/confusable"
	"golang.org/x/text/unicode/norm"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Twins returns the pairs of names that differ but look alike to people, or to models: by case, width,
// hidden characters, or characters that UTS #39 says are confusable (Cyrillic а and Latin a, but also
// l and 1). The result is sorted. Of several names that look alike, each is paired with the first in
// order only. Names of more than 1 KiB have no twins. Time is proportional to the size of the names,
// apart from sorting them.
//
// The skeletons are from go.mau.fi/util/confusable, see [Reasons]. Compatibility forms such as width
// are from golang.org/x/text, which belongs to Go.
func Twins(names []string) [][2]string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	var twins [][2]string
	first := map[string]string{} // by looks
	for _, name := range names {
		looks, small := appearance(name)
		for _, key := range []string{"a" + looks, "b" + small} {
			if other, ok := first[key]; ok {
				twins = append(twins, [2]string{other, name})
			} else {
				first[key] = name
			}
		}
	}
	slices.SortFunc(twins, func(a, b [2]string) int { return cmp.Or(strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1])) })
	return slices.Compact(twins)
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
	return strings.ToLower(confusable.Skeleton(name)), strings.ToLower(confusable.Skeleton(strings.ToLower(name)))
}
