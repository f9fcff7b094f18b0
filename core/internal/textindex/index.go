package textindex

import (
	"cmp"
	"math"
	"slices"
	"sync"
)

// An Index finds documents by their words. Create it with [New].
type Index[ID cmp.Ordered] struct {
	opts Options

	mu     sync.RWMutex // guards what follows; held to read by searches
	terms  table
	forms  table             // words of keyword fields, unstemmed
	stems  map[string]string // the results of opts.Term, by word
	sorted []*entry          // of terms, sorted by key
	fresh  []*entry          // of terms added since sorted was made, unsorted
	docs   []document[ID]    // by number
	byID   map[ID]uint32     // the numbers of living documents
	dead   int               // number of dead documents
	length uint64            // of all living documents, in weighted words
}

// document is one version of the document that a caller put under an ID.
type document[ID cmp.Ordered] struct {
	id     ID
	length uint32 // in words, weighted by their fields
	dead   bool   // it was replaced or removed, but its postings remain until the next sweep
}

// mostDocuments bounds the living documents, so that together with the dead, at most a
// quarter of all, their numbers fit into a posting.
const mostDocuments = 12_000_000

// A Field is a text of a document.
type Field struct {
	Text string
	// Weight of each word, from 1 to 255; 0 means 1.
	Weight int
	// Keywords marks text written for people, from which [Index.Keywords] are taken.
	Keywords bool
}

// New returns an empty index.
func New[ID cmp.Ordered](opts Options) *Index[ID] {
	return &Index[ID]{
		opts: opts.withDefaults(), byID: make(map[ID]uint32), stems: make(map[string]string),
		terms: table{entries: make(map[string]*entry)}, forms: table{entries: make(map[string]*entry)},
	}
}

// Put adds a document or replaces the one with that ID. It reports false, and adds
// nothing, if MaxDocuments other documents are in the index.
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
		if w.keyword > 0 {
			x.forms.add(w.text, doc, w.keyword, x.opts.MaxVocabulary)
		}
	}
	length = min(length, math.MaxUint32)
	x.docs = append(x.docs, document[ID]{id: id, length: uint32(length)})
	x.byID[id] = doc
	x.length += length
	x.settle()
	return true
}

// Remove removes a document and reports whether it existed.
func (x *Index[ID]) Remove(id ID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	found := x.drop(id)
	x.sweep()
	return found
}

// drop marks a document as dead, and reports whether it existed.
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

// sweep removes dead documents and their postings once they are more than a quarter of all,
// so that the amortized cost of removing a document is to scan the postings of four
// documents instead of all.
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
	clear(x.stems) // it may hold words that no document has any more
}

// settle merges the unsorted terms into the sorted ones once there are so many that scanning
// them in each search would cost more.
func (x *Index[ID]) settle() {
	if len(x.fresh) > max(1000, len(x.sorted)/4) {
		x.sorted = append(slices.Grow(x.sorted, len(x.fresh)), x.fresh...)
		slices.SortFunc(x.sorted, byKey)
		x.fresh = nil
	}
}

// term returns the term that a word is indexed as.
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
