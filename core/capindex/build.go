package capindex

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// A builder collects the words of elements, one element after the other.
type builder struct {
	*textIndex
	document int32             // the present one
	length   float32           // of it so far
	roots    map[string]string // the term of a word met before; "" for none
	told     map[string]tally  // by term
	forms    map[string]int    // how often each word is told
}

// A tally counts the documents that tell a term.
type tally struct {
	documents int
	last      int32
}

func newTextIndex(elements []element) *textIndex {
	b := &builder{textIndex: &textIndex{terms: map[string][]posting{}},
		roots: map[string]string{}, told: map[string]tally{}, forms: map[string]int{}}
	for n := range elements[:min(len(elements), maxDocuments)] {
		b.document, b.length = int32(n), 0
		b.element(&elements[n])
		b.lengths = append(b.lengths, b.length)
		b.total += float64(b.length)
	}
	b.documents = len(b.lengths)
	for t := range b.terms {
		b.sorted = append(b.sorted, t)
	}
	slices.Sort(b.sorted)
	b.rank()
	return b.textIndex
}

func (b *builder) element(e *element) {
	named := e.kind == catalog.Tools || e.kind == catalog.Prompts
	b.add(e.key, weightKey, named)
	if e.Name != e.key {
		b.add(e.Name, weightKey, true)
	}
	b.add(e.Title, weightTitle, true)
	b.add(e.Description, weightDescription, true)
	for _, p := range e.params {
		b.add(p.Name, weightDescription, false)
	}
	b.add(e.server.ID, weightDescription, false)
}

// add indexes a text of the present element; telling says that its words may become
// keywords.
func (b *builder) add(text string, weight float32, telling bool) {
	words(clip(text), func(word string) {
		t, known := b.roots[word]
		if !known {
			t = term(word)
			if len(b.roots) < maxVocabulary {
				b.roots[word] = t
			}
		}
		list := b.terms[t]
		if t == "" || list == nil && len(b.terms) >= maxVocabulary {
			return
		}
		if last := len(list) - 1; last >= 0 && list[last].document == b.document {
			list[last].weight += weight
		} else {
			b.terms[t] = append(list, posting{b.document, weight})
			b.postings++
		}
		b.length += weight
		if !telling {
			return
		}
		b.forms[word]++
		if c, met := b.told[t]; !met || c.last != b.document {
			b.told[t] = tally{c.documents + 1, b.document}
		}
	})
}

// rank makes the keywords.
func (b *builder) rank() {
	best := make(map[string]string, len(b.told)) // term to the word it is told by most
	for word, n := range b.forms {
		t := term(word)
		if other, met := best[t]; !met || cmp.Or(cmp.Compare(n, b.forms[other]), cmp.Compare(other, word)) > 0 {
			best[t] = word
		}
	}
	for t, c := range b.told {
		if word := best[t]; strings.IndexFunc(word, isLetter) >= 0 {
			b.keywords = append(b.keywords, keyword{word, c.documents})
		}
	}
	slices.SortFunc(b.keywords, func(a, b keyword) int {
		return cmp.Or(cmp.Compare(b.documents, a.documents), cmp.Compare(a.word, b.word))
	})
}

func isLetter(r rune) bool { return r > '9' } // words have letters and digits only

// clip bounds the text of one member; a cut character at its end is no letter.
func clip(s string) string { return s[:min(len(s), maxText)] }
