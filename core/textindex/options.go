package textindex

import "cmp"

// Options are how texts are taken apart and how much is taken in. Zero fields mean
// the default named beside them.
type Options struct {
	// Term is what a word is indexed as and looked for; "" means it says nothing. It
	// gets words as [Options.Words] yields them, gives the same for the same word,
	// and may be called by several goroutines at once. nil: every word is a term.
	Term func(word string) string
	// Identifiers takes them apart: readFile, HTTPServer and read_file are two words
	// each. Otherwise each is one.
	Identifiers bool
	// MinWord and MaxWord are of how many characters a word is; 1 and 64. What is
	// longer is a hash or the like, which nobody looks for.
	MinWord, MaxWord int
	// MaxText is how many bytes of a field are indexed; 1 MiB.
	MaxText int
	// MaxWords is how many different words of a document are indexed; 20,000.
	MaxWords int
	// MaxDocuments is how many documents there are; 1,000,000, at most 12,000,000.
	MaxDocuments int
	// MaxVocabulary is how many different terms there are; 1,000,000. Those of
	// removed documents count until they are swept.
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
