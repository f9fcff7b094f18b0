// Package glob validates and matches globs. Those of clients and of configs are hostile, so
// matching takes time proportional to the lengths of the glob and of the text, whatever the
// glob is.
//
// The globs are those of github.com/bmatcuk/doublestar: "*" and "?" match within a segment
// between slashes, "**" as a whole segment matches any number of segments, {a,b} either text,
// [a-z] and [!a-z] one character; a backslash takes the meaning of the next character. That
// library validates them. It does not match them, as it tries every combination of the groups
// of a glob: ten {a,b} take a thousand times as long as one.
package glob

import (
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// MaxLength is the length of the longest valid glob, in bytes.
const MaxLength = 1024

// Valid reports whether a glob is well-formed and not too long.
func Valid(glob string) bool { return len(glob) <= MaxLength && doublestar.ValidatePattern(glob) }

// Match reports whether a valid glob matches the whole text.
func Match(glob, text string) bool {
	ok, _ := match(glob, text)
	return ok
}

// MatchURI is Match for globs of URIs, which match what their authors mean: "file:///**" and
// "note:**" match everything that begins so, and a glob matches the URI that is written like
// it, whatever characters it has.
func MatchURI(glob, uri string) bool {
	if glob == uri {
		return true
	}
	prefix, ok := strings.CutSuffix(glob, "**")
	if ok && !strings.ContainsAny(prefix, special) {
		return strings.HasPrefix(uri, prefix) || Match(glob, uri)
	}
	return Match(glob, uri)
}
