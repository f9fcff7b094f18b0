package textindex

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Query says what to look for.
type Query struct {
	// Text has the words, of which a document has at least one. Words that say nothing
	// (see [Options.Term]) are ignored.
	Text string
	// All means that a document has all words.
	All bool
	// Prefix finds longer terms too.
	Prefix Prefix
}

// Prefix configures whether a word also matches longer terms that begin with it. The zero
// value disables this.
type Prefix struct {
	// Min is the minimum length of the word in characters; 0 disables prefixes.
	Min int
	// Unknown restricts prefixes to words that occur in no document.
	Unknown bool
	// Weight of a longer term; 0.5 by default.
	Weight float64
	// Most bounds the longer terms to those that occur in most documents; 0 means any
	// number.
	Most int
}

// A Hit is a document that was found.
type Hit[ID cmp.Ordered] struct {
	ID    ID
	Score float64 // more than 0; the higher, the better
}

// Search returns the documents that a query finds, the best first.
func (x *Index[ID]) Search(q Query) []Hit[ID] {
	var wanted []string
	x.opts.words(q.Text[:min(len(q.Text), x.opts.MaxText)], func(word string) bool {
		if x.opts.Term != nil {
			word = x.opts.Term(word)
		}
		if word != "" && !slices.Contains(wanted, word) {
			wanted = append(wanted, word)
		}
		return true
	})
	hits := x.find(wanted, q)
	slices.SortFunc(hits, func(a, b Hit[ID]) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
	})
	return hits
}

// find returns hits in any order.
func (x *Index[ID]) find(wanted []string, q Query) (hits []Hit[ID]) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if len(wanted) == 0 || len(x.byID) == 0 {
		return nil
	}
	s := search[ID]{Index: x, tallies: make([]tally, len(x.docs))}
	for _, term := range wanted {
		s.round++
		s.score(x.terms.list(term), 1)
		if q.Prefix.Min > 0 && utf8.RuneCountInString(term) >= q.Prefix.Min && (s.found == 0 || !q.Prefix.Unknown) {
			for _, longer := range x.longer(term, q.Prefix.Most) {
				s.score(longer.list, cmp.Or(q.Prefix.Weight, 0.5))
			}
		}
		if q.All && s.found == 0 {
			return nil
		}
		s.found = 0
	}
	for n, t := range s.tallies {
		if t.words == s.round || t.words > 0 && !q.All {
			hits = append(hits, Hit[ID]{x.docs[n].id, t.score})
		}
	}
	return hits
}

// longer returns the terms that begin with prefix, in order.
func (x *Index[ID]) longer(prefix string, most int) []*entry {
	var terms []*entry
	take := func(e *entry) {
		if len(e.key) > len(prefix) && strings.HasPrefix(e.key, prefix) {
			terms = append(terms, e)
		}
	}
	from, _ := slices.BinarySearchFunc(x.sorted, prefix, func(e *entry, prefix string) int { return strings.Compare(e.key, prefix) })
	for _, e := range x.sorted[from:] {
		if !strings.HasPrefix(e.key, prefix) {
			break
		}
		take(e)
	}
	for _, e := range x.fresh {
		take(e)
	}
	if most > 0 && len(terms) > most {
		slices.SortFunc(terms, func(a, b *entry) int {
			return cmp.Or(cmp.Compare(x.living(b.list), x.living(a.list)), byKey(a, b))
		})
		terms = terms[:most]
	}
	slices.SortFunc(terms, byKey) // floating-point sums depend on their order
	return terms
}

// living counts the documents of a list that were not removed.
func (x *Index[ID]) living(list []posting) int {
	n := len(list)
	if x.dead > 0 {
		for _, p := range list {
			if x.docs[p.doc()].dead {
				n--
			}
		}
	}
	return n
}

// search is the state of one search.
type search[ID cmp.Ordered] struct {
	*Index[ID]
	tallies []tally // by number of document
	round   uint32  // the number of the current word, from 1
	found   int     // documents that contain it
}

// tally is the result of a search for one document.
type tally struct {
	score float64
	words uint32 // number of words that it contains
	last  uint32 // the round of the last one
}

// score adds the score of a term to each document.
func (s *search[ID]) score(list []posting, weight float64) {
	const k1, b = 1.2, 0.75
	all, have := float64(len(s.byID)), float64(s.living(list))
	weight *= math.Log(1+(all-have+0.5)/(have+0.5)) * (k1 + 1)
	average := float64(s.length) / all
	for _, p := range list {
		d := &s.docs[p.doc()]
		if d.dead {
			continue
		}
		t := &s.tallies[p.doc()]
		if t.last != s.round {
			t.last = s.round
			t.words++
			s.found++
		}
		f := float64(p.count())
		t.score += weight * f / (f + k1*(1-b+b*float64(d.length)/average))
	}
}
