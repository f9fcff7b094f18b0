package textindex

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// An Index finds documents by their words. Make it with [New].
type Index[ID cmp.Ordered] struct {
	opts Options

	mu     sync.RWMutex // guards what follows; held to read by searches
	terms  table
	forms  table             // words of keyword fields, as they are written
	stems  map[string]string // the terms of words met before: a cache, while opts.Term is set
	sorted []*entry          // of terms, in their order
	fresh  []*entry          // those that came since, in any order
	docs   []document[ID]    // by number
	byID   map[ID]uint32
	dead   int    // documents
	length uint64 // of all documents that live
}

// document is one state of what an ID stands for.
type document[ID cmp.Ordered] struct {
	id     ID
	length uint32
	dead   bool // there is a newer state, or none
}

// mostDocuments live: with the dead, which are at most a quarter of all, they can
// still be named by a posting.
const mostDocuments = 12_000_000

// A Field is a text of a document.
type Field struct {
	Text string
	// Weight is how much each word counts; from 1 to 255, and 0 is 1.
	Weight int
	// Keywords says that the words are written for people: [Index.Keywords] are of
	// these fields.
	Keywords bool
}

// New returns an empty index.
func New[ID cmp.Ordered](opts Options) *Index[ID] {
	return &Index[ID]{
		opts: opts.withDefaults(), byID: make(map[ID]uint32), stems: make(map[string]string),
		terms: table{entries: make(map[string]*entry)}, forms: table{entries: make(map[string]*entry)},
	}
}

// Put adds a document, or replaces the one of that ID. It reports whether there was
// room: a new document that would be one more than MaxDocuments is not taken in.
func (x *Index[ID]) Put(id ID, fields ...Field) bool {
	words := x.opts.count(fields)
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.drop(id) && len(x.byID) >= x.opts.MaxDocuments {
		return false
	}
	x.sweep()
	doc, length := uint32(len(x.docs)), uint64(0)
	for _, w := range words {
		term := x.term(w.text)
		if term == "" {
			continue
		}
		length += w.weight
		if added := x.terms.add(term, doc, w.weight, x.opts.MaxVocabulary); added != nil {
			x.fresh = append(x.fresh, added)
		}
		if w.told > 0 {
			x.forms.add(w.text, doc, w.told, x.opts.MaxVocabulary)
		}
	}
	length = min(length, math.MaxUint32)
	x.docs = append(x.docs, document[ID]{id: id, length: uint32(length)})
	x.byID[id] = doc
	x.length += length
	x.settle()
	return true
}

// Remove takes a document out and reports whether it was there.
func (x *Index[ID]) Remove(id ID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	found := x.drop(id)
	x.sweep()
	return found
}

// drop makes a document invisible.
func (x *Index[ID]) drop(id ID) bool {
	doc, ok := x.byID[id]
	if !ok {
		return false
	}
	delete(x.byID, id)
	x.docs[doc].dead = true
	x.length -= uint64(x.docs[doc].length)
	x.dead++
	return true
}

// sweep forgets dead documents once they are more than a quarter: then it costs each
// of them the postings of four, and not those of all.
func (x *Index[ID]) sweep() {
	if x.dead*4 <= len(x.docs) {
		return
	}
	number := make([]uint32, len(x.docs))
	living := make([]document[ID], 0, len(x.byID))
	for n, d := range x.docs {
		number[n] = gone
		if !d.dead {
			number[n] = uint32(len(living))
			x.byID[d.id] = number[n]
			living = append(living, d)
		}
	}
	x.docs, x.dead = living, 0
	x.terms.renumber(number)
	x.forms.renumber(number)
	without := func(e *entry) bool { return len(e.list) == 0 }
	x.sorted = slices.DeleteFunc(x.sorted, without)
	x.fresh = slices.DeleteFunc(x.fresh, without)
	clear(x.stems) // some are of words that nobody says any more
}

// settle sorts the terms that came, once they are so many that looking through them
// costs more.
func (x *Index[ID]) settle() {
	if len(x.fresh) > max(1000, len(x.sorted)/4) {
		x.sorted = append(slices.Grow(x.sorted, len(x.fresh)), x.fresh...)
		slices.SortFunc(x.sorted, byKey)
		x.fresh = nil
	}
}

// term is what a word is indexed as.
func (x *Index[ID]) term(word string) string {
	if x.opts.Term == nil {
		return word
	}
	term, known := x.stems[word]
	if !known {
		word, term = own(word, x.opts.Term(word))
		if len(x.stems) < x.opts.MaxVocabulary {
			x.stems[word] = term
		}
	}
	return term
}
