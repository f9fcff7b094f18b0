package capindex

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"unicode"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/textindex"
)

const (
	// Weights of the fields of an element in the search: a word in its name is more relevant than a
	// word in its description.
	weightKey         = 3
	weightTitle       = 2
	weightDescription = 1

	maxText    = 4 << 10 // bytes of each field that are indexed
	maxIndexed = 100_000 // elements beyond these are listed, but cannot be found with the search
)

// keyword is a word that occurs in the readable texts of elements.
type keyword struct {
	word     string // its shortest form
	elements int    // number of elements that contain it in any form
	last     int    // position of the last of them
}

// addTexts makes the text index and the keywords. Keywords are taken only from human-readable
// texts, not from URIs, parameters and server names.
func (g *generation) addTexts() {
	keywords, stems := map[string]*keyword{}, map[string]string{}
	g.index = textindex.New[int]()
	for n := range g.elements[:min(len(g.elements), maxIndexed)] {
		times := map[string]int{}
		add := func(text string, weight int, readable bool) {
			for word := range textindex.Words(short(text, maxText), true) {
				stem, known := stems[word]
				if !known {
					stem = textindex.Stem(word)
					stems[word] = stem
				}
				if stem == "" {
					continue
				}
				times[stem] += weight
				if !readable || strings.IndexFunc(word, unicode.IsLetter) < 0 {
					continue
				}
				k := keywords[stem]
				if k == nil {
					k = &keyword{word: word, last: -1}
					keywords[stem] = k
				}
				if len(word) < len(k.word) || len(word) == len(k.word) && word < k.word {
					k.word = word
				}
				if k.last != n {
					k.last = n
					k.elements++
				}
			}
		}
		e := &g.elements[n]
		add(e.key, weightKey, e.kind == catalog.Tools || e.kind == catalog.Prompts)
		if e.Name != e.key {
			add(e.Name, weightKey, true)
		}
		add(e.Title, weightTitle, true)
		add(e.Description, weightDescription, true)
		add(e.server.ID, weightDescription, false)
		for _, p := range e.params {
			add(p.Name, weightDescription, false)
		}
		g.index.Put(n, times)
	}
	g.sizes = g.index.Stats()
	for _, k := range keywords {
		g.keywords = append(g.keywords, *k)
	}
	sort.Slice(g.keywords, func(i, j int) bool {
		a, b := &g.keywords[i], &g.keywords[j]
		return cmp.Or(cmp.Compare(b.elements, a.elements), cmp.Compare(a.word, b.word)) < 0
	})
	g.keywords = slices.Clone(g.keywords[:min(len(g.keywords), vocabulary)])
}

// hit is an element that a search finds.
type hit struct {
	*element
	score float64
}

// find returns the elements that contain one of the words of a query, the best first.
func (g *generation) find(query string) (hits []hit) {
	var stems []string
	for word := range textindex.Words(query, true) {
		if stem := textindex.Stem(word); stem != "" && !slices.Contains(stems, stem) {
			stems = append(stems, stem)
		}
	}
	scores := g.index.Search(stems, false)
	for n := range g.elements {
		if score, found := scores[n]; found {
			hits = append(hits, hit{&g.elements[n], score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	return hits
}
