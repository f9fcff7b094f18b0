package textindex

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// A Keyword is a term of many documents.
type Keyword struct {
	Word      string // in the form in which it is written most often
	Documents int    // how many documents have the term in a keyword field, in any form
}

// Keywords returns the n terms that occur in the keyword fields of the most documents, the
// most frequent first; equally frequent terms are in alphabetical order. Words without a
// letter are left out.
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
	last := make([]int, len(x.docs)) // the term for which a document was counted last
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
