// Package suggest finds the likely correction for a misspelled word, for "did you mean" hints in
// error messages.
package suggest

import "strings"

// maxName is the maximum length in bytes of a name that is compared. The time for a comparison is
// proportional to the product of the lengths, and names may come from an attacker.
const maxName = 64

// Nearest returns the candidate of which name is probably a misspelling, or an empty string if
// there is none. It ignores case, spaces, "_" and "-". If several candidates are equally near, it
// returns the first in sort order.
func Nearest(name string, candidates []string) string {
	if len(name) > maxName {
		return ""
	}
	wanted := Plain(name)
	best, bestDistance := "", 1+max(1, len(wanted)/4)
	for _, c := range candidates {
		if len(c) > 2*maxName {
			continue
		}
		if d := distance(wanted, Plain(c)); d < bestDistance || d == bestDistance && best != "" && c < best {
			best, bestDistance = c, d
		}
	}
	return best
}

// Plain converts track_resources, track-resources and trackResources to the same word.
func Plain(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
}

// distance returns the number of insertions, deletions, replacements and swaps of adjacent bytes
// between two strings (optimal string alignment).
func distance(a, b string) int {
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
