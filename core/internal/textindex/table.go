package textindex

import (
	"math"
	"slices"
	"strings"
)

// posting is the number of a document that has a term, and the frequency of the term in it, up
// to maxCount. Both share one integer to save memory.
type posting uint32

const (
	maxCount = 255
	gone     = math.MaxUint32 // the new number of a removed document
)

func newPosting(doc uint32, count uint64) posting {
	return posting(doc<<8 | uint32(min(count, maxCount)))
}
func (p posting) doc() uint32   { return uint32(p) >> 8 }
func (p posting) count() uint64 { return uint64(p & 255) }

// entry is a key (a term or a word) with the postings of its documents, in the order of the
// documents' numbers.
type entry struct {
	key  string
	list []posting
}

func byKey(a, b *entry) int { return strings.Compare(a.key, b.key) }

// table is an inverted list. Its keys are copies owned by the entries: a substring as a
// map key would keep the whole text in memory.
type table struct {
	entries  map[string]*entry
	postings int // in all entries
	keyBytes int // of all keys
}

// list returns the postings of a key; nil if there are none.
func (t *table) list(key string) []posting {
	if e := t.entries[key]; e != nil {
		return e.list
	}
	return nil
}

// add adds count to the frequency of a key in a document, which must be the one with the
// highest number so far. It returns the entry of the key if that is new, else nil. A new key
// is ignored if there are most keys already.
func (t *table) add(key string, doc uint32, count uint64, most int) (added *entry) {
	e := t.entries[key]
	if e == nil {
		if len(t.entries) >= most {
			return nil
		}
		e = &entry{key: strings.Clone(key)}
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

// renumber gives documents new numbers, in the same order: number[old] is the new one, or gone
// for a document to remove. Entries without documents are removed from the table.
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
