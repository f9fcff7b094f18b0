package textindex

import (
	"math"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	k1, b = 1.2, 0.75 // of BM25

	// minPrefix is the minimum length in characters of a searched word that also matches longer terms; such
	// a term counts prefixWeight.
	minPrefix    = 3
	prefixWeight = 0.2

	maxTerms = 1 << 19 // of an index
	maxQuery = 64      // words of a search
)

// An Index finds documents by their terms, which are words or stems. Create it with [New]. All
// methods are safe for concurrent use; searches run in parallel.
type Index[ID comparable] struct {
	mu      sync.RWMutex // guards the fields below
	numbers map[string]uint32
	terms   []term   // indexed by number
	free    []uint32 // numbers of terms that no document contains any longer
	docs    map[ID]document
	length  int64 // of all documents
}

type term struct {
	text string // empty if its number is free
	docs int    // number of documents that contain it
}

type document struct {
	length   int64 // number of words, weighted by field
	postings []posting
}

// posting is a term of a document and how often it occurs, at most 255 times, packed to save memory.
type posting uint32

func (p posting) term() uint32   { return uint32(p) >> 8 }
func (p posting) times() float64 { return float64(p & 255) }

// New returns an empty index.
func New[ID comparable]() *Index[ID] {
	return &Index[ID]{numbers: make(map[string]uint32), docs: make(map[ID]document)}
}

// Put adds a document or replaces the document with the same ID. times holds its terms and how
// often each occurs; an occurrence in an important field counts several times. Terms beyond the
// 524,288th of the index are ignored.
func (x *Index[ID]) Put(id ID, times map[string]int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(id)
	d := document{postings: make([]posting, 0, len(times))}
	for text, n := range times {
		d.length += int64(n)
		if number, ok := x.number(text); ok {
			x.terms[number].docs++
			d.postings = append(d.postings, posting(number<<8|uint32(min(n, 255))))
		}
	}
	x.docs[id] = d
	x.length += d.length
}

// number returns the number of a term, which may be new.
func (x *Index[ID]) number(text string) (number uint32, ok bool) {
	if number, ok = x.numbers[text]; ok {
		return number, true
	}
	switch last := len(x.free) - 1; {
	case last >= 0:
		number, x.free = x.free[last], x.free[:last]
	case len(x.terms) < maxTerms:
		number, x.terms = uint32(len(x.terms)), append(x.terms, term{})
	default:
		return 0, false
	}
	text = strings.Clone(text) // a substring would keep the text of a document in memory
	x.numbers[text], x.terms[number].text = number, text
	return number, true
}

// Remove removes a document, if it exists.
func (x *Index[ID]) Remove(id ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(id)
}

func (x *Index[ID]) remove(id ID) {
	d := x.docs[id]
	for _, p := range d.postings {
		t := &x.terms[p.term()]
		if t.docs--; t.docs == 0 {
			delete(x.numbers, t.text)
			t.text = ""
			x.free = append(x.free, p.term())
		}
	}
	x.length -= d.length
	delete(x.docs, id)
}

// Search returns the score of each document that contains one of the words or, if all is set, all of
// them. A word of three characters or more also matches longer terms that start with it, which count
// less. Scores are positive multiples of 0.0001, and depend only on the documents of the index, not
// on its history. Words beyond the 64th are ignored.
func (x *Index[ID]) Search(words []string, all bool) map[ID]float64 {
	words = words[:min(len(words), maxQuery)]
	x.mu.RLock()
	defer x.mu.RUnlock()
	const unit = 1e9 // of a score while it is summed
	type match struct {
		weight float64
		words  uint64 // set of the words that match, by position
	}
	matches := []match{{}}             // of the terms that match; the first is for those that do not
	at := make([]uint32, len(x.terms)) // position in matches, by number
	for number, t := range x.terms {
		for w, word := range words {
			rest, found := strings.CutPrefix(t.text, word)
			if !found || rest != "" && utf8.RuneCountInString(word) < minPrefix {
				continue
			}
			if at[number] == 0 {
				at[number] = uint32(len(matches))
				matches = append(matches, match{})
			}
			m := &matches[at[number]]
			m.words |= 1 << w
			weight := unit * math.Log(1+(float64(len(x.docs)-t.docs)+0.5)/(float64(t.docs)+0.5)) * (k1 + 1)
			if rest != "" {
				weight *= prefixWeight
			}
			m.weight += weight
		}
	}
	hits := make(map[ID]float64)
	if len(matches) == 1 {
		return hits
	}
	for id, d := range x.docs {
		sum, found := int64(0), uint64(0) // an integer sum does not depend on the order of its terms
		long := k1 * (1 - b + b*float64(d.length)*float64(len(x.docs))/float64(x.length))
		for _, p := range d.postings {
			if n := at[p.term()]; n != 0 {
				sum += int64(matches[n].weight * p.times() / (p.times() + long))
				found |= matches[n].words
			}
		}
		if found != 0 && (!all || found == 1<<len(words)-1) {
			hits[id] = math.Ceil(float64(sum)/unit*1e4) / 1e4
		}
	}
	return hits
}

// Stats contains the sizes of an index.
type Stats struct {
	Documents     int
	Terms         int
	AverageLength float64 // average number of words of a document, weighted by field
	Bytes         int     // estimated memory
}

// Stats returns the current sizes of the index.
func (x *Index[ID]) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := Stats{Documents: len(x.docs), Terms: len(x.numbers), Bytes: len(x.terms)*90 + len(x.docs)*80}
	for text := range x.numbers {
		s.Bytes += len(text)
	}
	for _, d := range x.docs {
		s.Bytes += len(d.postings) * 4
	}
	if len(x.docs) > 0 {
		s.AverageLength = float64(x.length) / float64(len(x.docs))
	}
	return s
}
