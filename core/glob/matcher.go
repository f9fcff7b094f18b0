package glob

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strings"
	"sync"
)

// Matcher matches one glob, which may come from a client, against many texts. It remembers where a
// character leads from a set of states, so that similar texts together cost little more than one of
// them: then each character is one step, however many states the glob has. It is safe for concurrent
// use, and keeps at most maxKept states.
type Matcher struct {
	glob   string
	prefix string // literal characters at the start of the glob
	opens  string // the glob without "**" at its end, if that is literal; see MatchURI

	mu      sync.Mutex // guards the fields below
	m       *matcher   // nil until it is needed
	first   *set       // the states after the prefix
	sets    map[string]*set
	kept    int  // number of states in sets
	classes bool // the glob has classes, so that each character counts
	steps   int  // for tests
}

// maxKept limits the states in the sets of a Matcher, of 8 bytes each.
const maxKept = 32 << 10

// set is a set of states with what follows it.
type set struct {
	states []state
	ends   bool // the glob matches if the text ends here
	all    bool // the glob matches any remaining text
	to     map[rune]*set
}

// NewMatcher returns a matcher for a valid glob.
func NewMatcher(glob string) *Matcher {
	end := 0
	for end < len(glob) && isPlain(glob[end]) {
		end++
	}
	opens, ok := strings.CutSuffix(glob, "**")
	if !ok || strings.ContainsAny(opens, special) {
		opens = ""
	}
	return &Matcher{glob: glob, prefix: glob[:end], opens: opens, classes: strings.Contains(glob, "[")}
}

// Match is like the function [Match].
func (g *Matcher) Match(text string) bool {
	rest, ok := strings.CutPrefix(text, g.prefix)
	if !ok { // it fails immediately, unless only a slash is missing
		return Match(g.glob, text)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.start()
	for _, r := range rest {
		if at.all || len(at.states) == 0 {
			return at.all
		}
		at = g.next(at, r)
	}
	return at.all || at.ends
}

// Is reports whether a text is the glob itself.
func (g *Matcher) Is(text string) bool { return g.glob == text }

// MatchURI is like the function [MatchURI].
func (g *Matcher) MatchURI(uri string) bool {
	return g.glob == uri || g.opens != "" && strings.HasPrefix(uri, g.opens) || g.Match(uri)
}

// start returns the set of states after the prefix.
func (g *Matcher) start() *set {
	if g.first == nil {
		rest, c := g.glob[len(g.prefix):], middle
		if g.prefix == "" || strings.HasSuffix(g.prefix, "/") {
			c = start
		}
		g.m = newMatcher(rest)
		g.m.add(0, c)
		g.sets = map[string]*set{}
		g.first = g.reached()
	}
	return g.first
}

// next returns the states after a character.
func (g *Matcher) next(from *set, r rune) *set {
	g.steps++
	key := r
	if !g.classes && !strings.ContainsRune(g.glob, r) && r != '/' {
		key = -1 // like all other characters that the glob does not contain
	}
	if to := from.to[key]; to != nil {
		return to
	}
	before := g.m.visited
	g.m.next, g.m.ends, g.m.all = g.m.next[:0], false, false
	g.m.step++
	for _, s := range from.states {
		g.m.take(s, r)
	}
	g.steps += g.m.visited - before + len(from.states)
	if g.kept > maxKept { // from stays usable, but is not found again
		clear(g.sets)
		g.kept, g.first.to, from.to = 0, nil, nil
	}
	to := g.reached()
	if from.to == nil {
		from.to = map[rune]*set{}
	}
	from.to[key] = to
	return to
}

// reached returns the set of the states in g.m.
func (g *Matcher) reached() *set {
	states := slices.Clone(g.m.next)
	sort.Slice(states, func(i, j int) bool {
		return cmp.Or(cmp.Compare(states[i].at, states[j].at), cmp.Compare(states[i].c, states[j].c)) < 0
	})
	key := make([]byte, 0, 5*len(states)+1)
	for _, s := range states {
		key = append(binary.LittleEndian.AppendUint32(key, uint32(s.at)), byte(s.c)) //nolint:gosec // at is a position
	}
	switch {
	case g.m.all:
		key = append(key, 'a')
	case g.m.ends:
		key = append(key, 'e')
	}
	if known := g.sets[string(key)]; known != nil {
		return known
	}
	s := &set{states: states, ends: g.m.ends, all: g.m.all}
	g.sets[string(key)] = s
	g.kept += len(states) + 16 // and what the set itself needs
	return s
}
