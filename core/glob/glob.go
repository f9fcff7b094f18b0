// Package glob validates and matches globs. Globs of clients and configs may be hostile, so
// matching takes time proportional to the lengths of the glob and the text, whatever the
// glob is.
//
// The globs are those of github.com/bmatcuk/doublestar: "*" and "?" match within a segment
// between slashes, "**" as a whole segment matches any number of segments, {a,b} matches either
// text, [a-z] and [!a-z] match one character; a backslash escapes the next character. The
// library validates globs. It does not match them, because it tries every combination of the
// groups of a glob: ten {a,b} take a thousand times as long as one.
package glob

import (
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// MaxLength is the length of the longest valid glob, in bytes.
const MaxLength = 1024

// Valid reports whether a glob is well-formed, not too long, and not empty: an empty glob
// would match nothing, and usually comes from an unset variable.
func Valid(glob string) bool {
	return glob != "" && len(glob) <= MaxLength && doublestar.ValidatePattern(glob)
}

// Match reports whether a valid glob matches the whole text.
func Match(glob, text string) bool {
	ok, _ := match(glob, text)
	return ok
}

// MatchURI is Match for globs of URIs. It adds what their authors expect: "file:///**" and
// "note:**" match everything with that prefix, and a glob matches the URI that equals it,
// whatever characters it contains.
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

// special are the characters with a special meaning outside groups and classes.
const special = `*?[{\`

// match is Match. It also returns how many states it visited, for tests: at most
// states*(len(glob)+1) for each character of the text.
//
// It follows all ways to match simultaneously, character by character. A way is a state: a
// position in the glob and its context. A group ends in the same place whichever of its texts
// was taken, so there are no more ways than states.
func match(glob, text string) (matched bool, visited int) {
	same := 0 // length of the plain prefix, which most globs have
	for same < len(glob) && same < len(text) && glob[same] == text[same] && isPlain(glob[same]) {
		same++
	}
	if same < len(glob) && isPlain(glob[same]) && (same < len(text) || glob[same] != '/') {
		return false, same
	}
	c := middle
	if same == 0 || glob[same-1] == '/' {
		c = start
	}
	glob, text = glob[same:], text[same:]
	if c == start && glob == "**" {
		return true, same
	}
	m := matcher{glob: glob, groups: groupsOf(glob), seen: make([]int32, states*(len(glob)+1)), step: 1,
		now: make([]state, 0, 8), next: make([]state, 0, 8)}
	m.add(0, c)
	for _, r := range text {
		if m.all || len(m.next) == 0 {
			return m.all, m.visited
		}
		m.now, m.next = m.next, m.now[:0]
		m.ends = false
		m.step++
		for _, s := range m.now {
			m.take(s, r)
		}
	}
	return m.all || m.ends, m.visited
}

// isPlain reports whether a byte of a glob, outside groups and classes, matches only itself.
func isPlain(c byte) bool { return c < utf8.RuneSelf && strings.IndexByte(special, c) < 0 }

// context describes what precedes a position in the glob.
type context uint8

const (
	middle   context = iota // a character other than a slash
	start                   // a slash, or nothing
	one                     // start and a star
	two                     // start and two stars
	star                    // a star that matches within a segment
	segments                // "**/", within a segment
	// A glob that ends in "/**" also matches without its slash. The following are like start,
	// one and two, but after an omitted slash, so that only the end of the text may follow;
	// behind is lone after "**/".
	lone
	loneOne
	loneTwo
	behind
	states = iota
)

// state is a position in the glob and its context.
type state struct {
	at int32
	c  context
}

// group says where a "{", "," or "}" of a group leads.
type group struct{ next, after int } // the next "," or "}", and the position after the group

type matcher struct {
	glob   string
	groups []group // by position; nil: there are none
	seen   []int32 // by state: the last step in which it was added
	step   int32
	// now are the states before the current character, next the states after it; only states
	// that wait for a character.
	now, next []state
	ends      bool // the text may end here
	all       bool // everything that may follow matches
	visited   int
}

// add adds a state, and all states that it leads to without another character.
func (m *matcher) add(at int, c context) {
	if i := at*states + int(c); m.seen[i] != m.step {
		m.seen[i] = m.step
	} else {
		return
	}
	m.visited++
	end := at == len(m.glob)
	if !end && m.groups != nil && m.groups[at].after > 0 && c != star && c != segments {
		if m.glob[at] != '{' {
			m.add(m.groups[at].after, c)
			return
		}
		for {
			m.add(at+1, c)
			if at = m.groups[at].next; m.glob[at] == '}' {
				return
			}
		}
	}
	isStar, isSlash := !end && m.glob[at] == '*', !end && m.glob[at] == '/'
	switch {
	case c == star:
		m.next = append(m.next, state{int32(at), c})
		m.add(at, middle)
	case c == segments:
		m.next = append(m.next, state{int32(at), c})
	case c == two && end:
		m.all = true
	case c == two && isSlash:
		m.add(at+1, start)
		m.add(at+1, segments)
	case isStar && c == start:
		m.add(at+1, one)
	case isStar && c == one:
		m.add(at+1, two)
	case isStar && c == lone, isStar && c == behind:
		m.add(at+1, loneOne)
	case isStar && c == loneOne:
		m.add(at+1, loneTwo)
	case isStar && c <= two:
		m.add(at+1, star)
	case c == one || c == two: // the stars were not a whole segment
		m.add(at, star)
	case c == loneTwo && isSlash:
		m.add(at+1, behind)
	case end:
		m.ends = m.ends || c != lone && c != loneOne
	case c <= start:
		m.next = append(m.next, state{int32(at), c})
		if isSlash {
			m.add(at+1, lone)
		}
	}
}

// take adds the states that a state leads to with a character of the text.
func (m *matcher) take(s state, r rune) {
	at := int(s.at)
	switch s.c {
	case star:
		if r != '/' {
			m.add(at, star)
		}
		return
	case segments:
		m.add(at, segments)
		if r == '/' {
			m.add(at, start)
		}
		return
	}
	switch m.glob[at] {
	case '?':
		if r != '/' {
			m.add(at+1, middle)
		}
		return
	case '[':
		if in, end := class(m.glob, at+1, r); in {
			m.add(end, middle)
		}
		return
	case '\\':
		at++
	}
	want, size := utf8.DecodeRuneInString(m.glob[at:])
	switch {
	case want != r:
	case r == '/':
		m.add(at+size, start)
	default:
		m.add(at+size, middle)
	}
}

// class reports whether a class contains a character. at is the position after its "[", end
// the position after the class.
func class(glob string, at int, r rune) (in bool, end int) {
	negated := glob[at] == '!' || glob[at] == '^'
	if negated {
		at++
	}
	next := func() rune {
		if glob[at] == '\\' {
			at++
		}
		r, size := utf8.DecodeRuneInString(glob[at:])
		at += size
		return r
	}
	for at < len(glob) && glob[at] != ']' {
		low := next()
		high := low
		if at+1 < len(glob) && glob[at] == '-' && glob[at+1] != ']' {
			at++
			high = next()
		}
		in = in || r == low || low <= r && r <= high
	}
	return in != negated, at + 1
}

// groupsOf finds the groups of a valid glob; nil if it has none.
func groupsOf(glob string) (groups []group) {
	if !strings.Contains(glob, "{") {
		return nil
	}
	groups = make([]group, len(glob))
	var open [][]int // of each group around the position, its "{" and commas
	for i := 0; i < len(glob); i++ {
		switch glob[i] {
		case '\\':
			i++
		case '[':
			for i++; i < len(glob) && glob[i] != ']'; i++ {
				if glob[i] == '\\' {
					i++
				}
			}
		case '{':
			open = append(open, []int{i})
		case ',':
			if n := len(open); n > 0 {
				open[n-1] = append(open[n-1], i)
			}
		case '}':
			n := len(open) - 1
			next := i
			for k := len(open[n]) - 1; k >= 0; k-- {
				groups[open[n][k]] = group{next, i + 1}
				next = open[n][k]
			}
			groups[i] = group{i, i + 1}
			open = open[:n]
		}
	}
	return groups
}
