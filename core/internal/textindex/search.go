package textindex

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Query says what to search for.
type Query struct {
	// Text holds the words to search for: a hit has at least one of them. Words for which
	// [Options.Term] returns "" are ignored.
	Text string
	// All requires all words of Text in a hit.
	All bool
	// Prefix makes words of Text also match longer terms that begin with them.
	Prefix Prefix
}

// Prefix configures whether a word also matches longer terms that begin with it. The zero
// value disables this.
type Prefix struct {
	// Min is the minimum length of the word in characters; 0 disables prefixes.
	Min int
	// Unknown restricts prefixes to words that occur in no document.
	Unknown bool
	// Weight is the factor for the score of a longer term; 0.5 by default.
	Weight float64
	// Most bounds how many longer terms a word matches; the terms of the most documents win.
	// 0 means any number.
	Most int
}

// A Hit is a document that was found.
type Hit[ID cmp.Ordered] struct {
	ID    ID
	Score float64 // above 0; higher is better
}

// Search returns the documents that match a query, the best first.
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

// find returns the hits for the wanted terms, in any order.
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

// longer returns the terms that begin with prefix and are longer, sorted. If most is not 0, it
// returns only the most terms that occur in the most documents.
func (x *Index[ID]) longer(prefix string, most int) []*postingList {
	var terms []*postingList
	take := func(e *postingList) {
		if len(e.key) > len(prefix) && strings.HasPrefix(e.key, prefix) {
			terms = append(terms, e)
		}
	}
	from, _ := slices.BinarySearchFunc(x.sorted, prefix, func(e *postingList, prefix string) int { return strings.Compare(e.key, prefix) })
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
		slices.SortFunc(terms, func(a, b *postingList) int {
			return cmp.Or(cmp.Compare(x.living(b.list), x.living(a.list)), byKey(a, b))
		})
		terms = terms[:most]
	}
	slices.SortFunc(terms, byKey) // floating-point sums depend on the order
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
	found   int     // documents that contain the current word
}

// tally is the result of a search for one document.
type tally struct {
	score float64
	words uint32 // number of query words in the document
	last  uint32 // the round of the last of these words
}

// score adds the score of a term, multiplied by weight, to each living document in the term's
// list.
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

// A Keyword is a term of many documents.
type Keyword struct {
	Word      string // in its most frequent form
	Documents int    // how many documents have the term in a keyword field, in any form
}

// Keywords returns the n terms that occur in the keyword fields of the most documents, the most
// frequent first; equally frequent terms are in alphabetical order. Words without a letter are
// omitted.
func (x *Index[ID]) Keywords(n int) []Keyword {
	x.mu.RLock()
	defer x.mu.RUnlock()
	forms := make(map[string][]string) // the words of each term
	for word := range x.forms.entries {
		if strings.IndexFunc(word, unicode.IsLetter) < 0 {
			continue
		}
		term := word
		if x.opts.Term != nil {
			known := false
			if term, known = x.stems[word]; !known {
				term = x.opts.Term(word)
			}
		}
		forms[term] = append(forms[term], word)
	}
	var all []Keyword
	last := make([]int, len(x.docs)) // the term that each document was last counted for
	nth := 0
	for _, words := range forms {
		nth++
		var k Keyword
		var most uint64
		for _, word := range words {
			var times uint64
			for _, p := range x.forms.list(word) {
				if x.docs[p.doc()].dead {
					continue
				}
				times += p.count()
				if last[p.doc()] != nth {
					last[p.doc()] = nth
					k.Documents++
				}
			}
			if times > most || times == most && word < k.Word {
				k.Word, most = word, times
			}
		}
		if k.Documents > 0 {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, func(a, b Keyword) int {
		return cmp.Or(cmp.Compare(b.Documents, a.Documents), cmp.Compare(a.Word, b.Word))
	})
	return all[:min(len(all), max(n, 0))]
}
