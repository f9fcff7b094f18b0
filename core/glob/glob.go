// Package glob validates and matches globs. Globs from clients and configuration files may be
// malicious, so the matching time is always proportional to the lengths of the glob and the text.
//
// The syntax is that of github.com/bmatcuk/doublestar: "*" and "?" match within a path segment,
// "**" as a whole segment matches any number of segments, {a,b} matches either text, and [a-z] and
// [!a-z] match one character; a backslash escapes the next character. The library is used only to
// validate globs. It is not used for matching, because it tries every combination of the groups in
// a glob: ten {a,b} groups take a thousand times as long as one.
package glob

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// MaxLength is the maximum length of a valid glob in bytes.
const MaxLength = 1024

// Valid reports whether a glob is well-formed, not too long, and not empty. An empty glob would
// match nothing and usually results from an unset variable.
func Valid(glob string) bool {
	return glob != "" && len(glob) <= MaxLength && doublestar.ValidatePattern(glob)
}

// Match reports whether a valid glob matches the whole text.
func Match(glob, text string) bool {
	ok, _ := match(glob, text)
	return ok
}

// MatchURI is like Match, but adapted to URIs: "file:///**" and "note:**" match every URI with that
// prefix, and a glob always matches the identical URI, whatever characters it contains.
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

// special contains the characters that have a special meaning outside groups and classes.
const special = `*?[{\`

// match implements Match. It also returns the number of states that it visited, for tests: at most
// states*(len(glob)+1) for each character of the text.
//
// It follows all possible matches simultaneously, character by character. Each is a state: a
// position in the glob and its context. All alternatives in a group lead to the same position after
// it, so the number of possible matches never exceeds the number of states.
func match(glob, text string) (matched bool, visited int) {
	same := 0 // length of the literal prefix, which most globs have
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
	m := newMatcher(glob)
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

// isPlain reports whether a byte of a glob, outside groups and classes, is literal.
func isPlain(c byte) bool { return c < utf8.RuneSelf && strings.IndexByte(special, c) < 0 }

// context describes what precedes a position in the glob.
type context uint8

const (
	middle   context = iota // after a character other than a slash
	start                   // after a slash or at the beginning
	one                     // after start and one star
	two                     // after start and two stars
	star                    // in a star that matches within a segment
	segments                // in "**/", within a segment
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

// group contains the targets of a "{", "," or "}" in a group.
type group struct{ next, after int } // next "," or "}", and the position after the group

type matcher struct {
	glob   string
	groups []group // by position in the glob; nil if it has no groups
	seen   []int32 // for each state, the last step in which it was added
	step   int32
	// now contains the states before the current character, and next those after it. Only states
	// that consume a character are stored.
	now, next []state
	ends      bool // the glob matches if the text ends here
	all       bool // the glob matches any remaining text
	visited   int
}

func newMatcher(glob string) *matcher {
	return &matcher{glob: glob, groups: groupsOf(glob), seen: make([]int32, states*(len(glob)+1)), step: 1,
		now: make([]state, 0, 8), next: make([]state, 0, 8)}
}

// add adds a state and all states that are reachable from it without consuming a character.
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
	case c == one || c == two: // the stars were only part of a segment
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

// take adds the states that are reachable from a state by consuming the character r.
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

// class reports whether a class contains a character. at is the position after "[", and end the
// position after "]".
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

// groupsOf finds the groups in a valid glob. It returns nil if there are none.
func groupsOf(glob string) (groups []group) {
	if !strings.Contains(glob, "{") {
		return nil
	}
	groups = make([]group, len(glob))
	var open [][]int // positions of "{" and commas for each enclosing group
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
			for _, at := range slices.Backward(open[n]) {
				groups[at] = group{next, i + 1}
				next = at
			}
			groups[i] = group{i, i + 1}
			open = open[:n]
		}
	}
	return groups
}
