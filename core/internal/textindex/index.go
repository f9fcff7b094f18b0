package textindex

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
)

// Options configures how texts are split into words, and limits the size of an index. A zero field
// selects its default.
type Options struct {
	// Term maps a word, as yielded by [Options.Words], to the term that is indexed and searched
	// for. If it returns an empty string, the word is skipped. It must be a pure function and may
	// be called concurrently. If nil, every word is its own term.
	Term func(word string) string
	// Identifiers enables splitting of identifiers: readFile, HTTPServer and read_file each become
	// two words instead of one.
	Identifiers bool
	// MinWord and MaxWord limit the length of a word in characters. The defaults are 1 and 64.
	// Shorter and longer words are not indexed: long words are mostly hashes, which nobody searches
	// for.
	MinWord, MaxWord int
	// MaxText is the number of bytes of each field that are indexed. The default is 1 MiB.
	MaxText int
	// MaxWords limits the number of distinct words per document. The default is 20,000.
	MaxWords int
	// MaxDocuments limits the number of documents. The default is 1,000,000; the maximum is
	// 12,000,000.
	MaxDocuments int
	// MaxVocabulary limits the number of distinct terms. The default is 1,000,000. The terms of
	// removed documents count until a later Put or Remove discards them (see the package comment).
	MaxVocabulary int
}

func (o Options) withDefaults() Options {
	o.MinWord = cmp.Or(max(o.MinWord, 0), 1)
	o.MaxWord = cmp.Or(max(o.MaxWord, 0), 64)
	o.MaxText = cmp.Or(max(o.MaxText, 0), 1<<20)
	o.MaxWords = cmp.Or(max(o.MaxWords, 0), 20_000)
	o.MaxDocuments = min(cmp.Or(max(o.MaxDocuments, 0), 1_000_000), mostDocuments)
	o.MaxVocabulary = cmp.Or(max(o.MaxVocabulary, 0), 1_000_000)
	return o
}

// An Index finds documents by their words. Create it with [New].
type Index[ID cmp.Ordered] struct {
	opts Options

	mu     sync.RWMutex // guards the fields below; searches hold the read lock
	terms  table
	forms  table             // unstemmed words of keyword fields
	stems  map[string]string // cached results of opts.Term, by word
	sorted []*postingList    // posting lists of terms, sorted by key
	fresh  []*postingList    // unsorted posting lists of terms added since the last sort
	docs   []document[ID]    // indexed by document number
	byID   map[ID]uint32     // document numbers of the live documents
	dead   int               // number of dead documents
	length uint64            // total length of the live documents
}

// document is one version of a document. Each Put for an ID creates a new version.
type document[ID cmp.Ordered] struct {
	id     ID
	length uint32 // number of words, weighted by field
	dead   bool   // replaced or removed; its postings remain until the next sweep
}

// mostDocuments limits the number of live documents, so that every document number fits into a
// posting. At most a quarter of all documents are dead.
const mostDocuments = 12_000_000

// A Field is one text of a document, such as its title.
type Field struct {
	Text string
	// Weight is the weight of each word, from 1 to 255. Zero means 1.
	Weight int
	// Keywords marks human-readable text, from which [Index.Keywords] takes its words.
	Keywords bool
}

// New returns an empty index.
func New[ID cmp.Ordered](opts Options) *Index[ID] {
	return &Index[ID]{
		opts: opts.withDefaults(), byID: make(map[ID]uint32), stems: make(map[string]string),
		terms: table{entries: make(map[string]*postingList)}, forms: table{entries: make(map[string]*postingList)},
	}
}

// Put adds a document or replaces the document with the same ID. If the index already contains
// MaxDocuments other documents, Put adds nothing and reports false.
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

// drop marks a document as dead and reports whether it existed.
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

// sweep removes dead documents and their postings once they exceed a quarter of all documents. The
// amortized cost of removing a document is then a scan of the postings of four documents rather
// than of all documents.
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
	without := func(e *postingList) bool { return len(e.list) == 0 }
	x.sorted = slices.DeleteFunc(x.sorted, without)
	x.fresh = slices.DeleteFunc(x.fresh, without)
	clear(x.stems) // discards the stems of words that occur only in removed documents
}

// settle merges the unsorted terms into the sorted terms once scanning them in each search would
// cost more.
func (x *Index[ID]) settle() {
	if len(x.fresh) > max(1000, len(x.sorted)/4) {
		x.sorted = append(slices.Grow(x.sorted, len(x.fresh)), x.fresh...)
		slices.SortFunc(x.sorted, byKey)
		x.fresh = nil
	}
}

// term returns the term for a word.
func (x *Index[ID]) term(word string) string {
	if x.opts.Term == nil {
		return word
	}
	term, known := x.stems[word]
	if !known {
		word, term = copies(word, x.opts.Term(word))
		if len(x.stems) < x.opts.MaxVocabulary {
			x.stems[word] = term
		}
	}
	return term
}

// posting records that a document contains a term. It packs the document number and the frequency
// of the term, at most maxCount, into one integer to save memory.
type posting uint32

const (
	maxCount = 255
	gone     = math.MaxUint32 // new number for a document to remove
)

func newPosting(doc uint32, count uint64) posting {
	return posting(doc<<8 | uint32(min(count, maxCount)))
}
func (p posting) doc() uint32   { return uint32(p) >> 8 }
func (p posting) count() uint64 { return uint64(p & 255) }

// postingList contains the postings for one key (a term or a word), ordered by document number.
type postingList struct {
	key  string
	list []posting
}

func byKey(a, b *postingList) int { return strings.Compare(a.key, b.key) }

// table is an inverted index. The posting lists own copies of its keys, because a substring used as
// a map key would keep the whole text in memory.
type table struct {
	entries  map[string]*postingList
	postings int // number of postings in all lists
	keyBytes int // total length of all keys in bytes
}

// list returns the postings for a key, or nil if there are none.
func (t *table) list(key string) []posting {
	if e := t.entries[key]; e != nil {
		return e.list
	}
	return nil
}

// add adds count to the frequency of a key in a document, whose number must be the highest so far.
// It returns the posting list if the key is new, and nil otherwise. A new key is ignored if there
// are already most keys.
func (t *table) add(key string, doc uint32, count uint64, most int) (added *postingList) {
	e := t.entries[key]
	if e == nil {
		if len(t.entries) >= most {
			return nil
		}
		e = &postingList{key: strings.Clone(key)}
		t.entries[e.key] = e
		t.keyBytes += len(key)
		added = e
	}
	if last := len(e.list) - 1; last >= 0 && e.list[last].doc() == doc {
		e.list[last] = newPosting(doc, e.list[last].count()+count)
		return nil
	}
	e.list = append(e.list, newPosting(doc, count))
	t.postings++
	return added
}

// renumber assigns new numbers to the documents without changing their order: number[old] is the
// new number, or gone for a document to remove. Posting lists that become empty are removed from
// the table.
func (t *table) renumber(number []uint32) {
	for key, e := range t.entries {
		kept := e.list[:0]
		for _, p := range e.list {
			if n := number[p.doc()]; n != gone {
				kept = append(kept, newPosting(n, p.count()))
			}
		}
		t.postings -= len(e.list) - len(kept)
		if cap(kept) > 2*len(kept)+4 {
			kept = slices.Clone(kept)
		}
		if e.list = kept; len(kept) == 0 {
			delete(t.entries, key)
			t.keyBytes -= len(key)
		}
	}
}

// Stats contains the sizes of an index.
type Stats struct {
	Documents     int
	Terms         int     // distinct terms, including terms of removed documents until a sweep
	Postings      int     // postings (term-document pairs), including removed documents until a sweep
	AverageLength float64 // average document length in weighted words
	Bytes         int     // estimated memory; 0 for an empty index
}

// Stats returns the current sizes of the index.
func (x *Index[ID]) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	s := Stats{Documents: len(x.byID), Terms: len(x.terms.entries), Postings: x.terms.postings}
	if s.Documents > 0 {
		s.AverageLength = float64(x.length) / float64(s.Documents)
	}
	// Estimated bytes of memory per document, term and stem. They are measured values that a test
	// verifies: growing slices are one fifth empty, and a map entry for a string and a pointer
	// needs about 40 bytes.
	const perDocument, perTerm, perStem = 70, 40 + 48 + 10, 55
	s.Bytes = len(x.docs)*perDocument + len(x.stems)*perStem +
		(x.terms.postings+x.forms.postings)*5 +
		(len(x.terms.entries)+len(x.forms.entries))*perTerm + x.terms.keyBytes + 2*x.forms.keyBytes
	return s
}
