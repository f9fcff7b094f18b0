package textindex

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Query specifies what to search for.
type Query struct {
	// Text contains the words to search for. A hit contains at least one of them. Words for which
	// [Options.Term] returns an empty string are ignored.
	Text string
	// All requires that a hit contains all words of Text.
	All bool
	// Prefix specifies when words in Text also match longer terms that start with them.
	Prefix Prefix
}

// Prefix specifies when a word also matches longer terms that start with it. The zero value
// disables prefix matches.
type Prefix struct {
	// Min is the minimum length in characters of a word that is used as a prefix. Zero disables
	// prefix matches.
	Min int
	// Unknown restricts prefix matches to words that occur in no document.
	Unknown bool
	// Weight is the factor applied to the score of a longer term. The default is 0.5.
	Weight float64
	// Most limits how many longer terms a word matches; the terms that occur in the most documents
	// are preferred. Zero means no limit.
	Most int
}

// A Hit is one document in the results of a search.
type Hit[ID cmp.Ordered] struct {
	ID    ID
	Score float64 // positive; higher is better
}

// Search returns the documents that match a query, best first.
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

// find returns the hits for the given terms, in no particular order.
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

// longer returns the terms that start with prefix and are longer than it, sorted by key. If most is
// not 0, it returns at most that many terms, preferring those that occur in the most documents.
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
	slices.SortFunc(terms, byKey) // a floating-point sum depends on the order of its terms
	return terms
}

// living counts the documents in a posting list that have not been removed.
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
	tallies []tally // indexed by document number
	round   uint32  // number of the current query word, starting at 1
	found   int     // number of documents that contain the current query word
}

// tally accumulates the result of a search for one document.
type tally struct {
	score float64
	words uint32 // number of query words found in the document
	last  uint32 // round in which the last of these words was found
}

// score adds a term's score, multiplied by weight, to each live document in the term's posting
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

// A Keyword is a term that occurs in many documents.
type Keyword struct {
	Word      string // the term's most frequent form
	Documents int    // number of documents that contain the term, in any form, in a keyword field
}

// Keywords returns the n terms that occur in the keyword fields of the most documents, most
// frequent first. Equally frequent terms are sorted alphabetically. Words without a letter are
// omitted.
func (x *Index[ID]) Keywords(n int) []Keyword {
	x.mu.RLock()
	defer x.mu.RUnlock()
	forms := make(map[string][]string) // word forms of each term
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
	last := make([]int, len(x.docs)) // for each document, the last term for which it was counted
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
