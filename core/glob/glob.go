// Package glob checks globs of untrusted clients. They are matched with
// github.com/bmatcuk/doublestar.
package glob

import (
	"math"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

const (
	// MaxLength is the length of the longest valid glob, in bytes.
	MaxLength = 1024
	// maxAlternatives bounds the texts that the groups of a glob stand for: matching tries
	// each of them.
	maxAlternatives = 1024
)

// Valid reports whether a glob is well-formed, and matching it takes little time. The time
// grows exponentially with the number of groups: twenty {a,b} stand for a million texts.
func Valid(glob string) bool {
	return len(glob) <= MaxLength && alternatives(glob) <= maxAlternatives && doublestar.ValidatePattern(glob)
}

// alternatives returns how many texts the groups of a glob stand for at most. It assumes that
// the commas are spread evenly over the groups, which has the greatest product.
func alternatives(glob string) float64 {
	groups, commas := float64(strings.Count(glob, "{")), float64(strings.Count(glob, ","))
	if groups == 0 {
		return 1
	}
	return math.Pow((groups+commas)/groups, groups)
}
