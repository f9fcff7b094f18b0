package capindex

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Bounds of the text index. What is beyond them is counted and listed, but not
// found.
const (
	maxDocuments  = 100_000
	maxVocabulary = 200_000
	maxText       = 4 << 10 // bytes of one member of an element
)

// Weights of the members of an element: a word of its name says more about it than
// one of its description.
const (
	weightKey         = 3
	weightTitle       = 2
	weightDescription = 1
)

// A posting says that a term is in a document, and how strongly.
type posting struct {
	document int32
	weight   float32
}

// A textIndex is an inverted list over elements. It is immutable once built, so
// any number of searches share it.
type textIndex struct {
	documents int
	terms     map[string][]posting // postings in the order of documents
	sorted    []string             // the terms, for prefixes
	lengths   []float32            // of each document
	total     float64              // sum of lengths
	postings  int
	keywords  []keyword // by how many documents have them
}

// A keyword is a term, in the form that occurs most, with the number of elements
// that say it in what is written for people: names, titles and descriptions, not
// URIs.
type keyword struct {
	word      string
	documents int
}

// averageLength is that of a document, in weighted words.
func (x *textIndex) averageLength() float64 {
	if x.documents == 0 {
		return 0
	}
	return x.total / float64(x.documents)
}

// bytes estimates the memory that the index holds.
func (x *textIndex) bytes() int {
	n := x.postings*8 + x.documents*4
	for _, t := range x.sorted {
		n += len(t) + 64 // string headers in the map and the list, slice header, bucket
	}
	return n
}

// A hit is an element that a search found.
type hit struct {
	document int
	score    float64
}

// Of a word that is no term, so many terms that begin with it are looked for.
const maxExpansions = 32

// search ranks the elements by BM25; any word of the query may match. A filter
// decides which elements count. Equal scores keep the order of elements.
func (x *textIndex) search(query string, filter func(document int) bool) []hit {
	scores := map[int32]float64{}
	seen := map[string]bool{}
	score := func(t string, factor float64) {
		list := x.terms[t]
		if seen[t] || len(list) == 0 {
			return
		}
		seen[t] = true
		const k, b = 1.2, 0.75
		df := float64(len(list))
		idf := math.Log(1 + (float64(x.documents)-df+0.5)/(df+0.5))
		for _, p := range list {
			tf := float64(p.weight)
			norm := k * (1 - b + b*float64(x.lengths[p.document])/x.averageLength())
			scores[p.document] += factor * idf * tf * (k + 1) / (tf + norm)
		}
	}
	words(clip(query), func(word string) {
		t := term(word)
		if t == "" {
			return
		}
		if len(x.terms[t]) > 0 {
			score(t, 1)
			return
		}
		from, _ := slices.BinarySearch(x.sorted, t)
		for _, longer := range x.sorted[from:min(from+maxExpansions, len(x.sorted))] {
			if !strings.HasPrefix(longer, t) {
				break
			}
			score(longer, 0.5)
		}
	})
	var hits []hit
	for document, s := range scores {
		if filter == nil || filter(int(document)) {
			hits = append(hits, hit{int(document), s})
		}
	}
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.document, b.document))
	})
	return hits
}
